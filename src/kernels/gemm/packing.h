// Packing, transposing and rounding for the sets of vector_kernels.h: 128-bit shuffles where elements change
// places (the compiler's own vectors: SSE, VEX or NEON by the set), and plain loops that it turns into
// vectors of the set's width. Included between LONGHAUL_BEGIN_TARGET and LONGHAUL_END_TARGET. The template
// argument Set is only there to make each file's copies its own.

namespace longhaul::kernels {
namespace {

using Words = uint32_t __attribute__((vector_size(16)));
using Halves = uint16_t __attribute__((vector_size(16)));

// out[j][i] = a[i][j] of 4 × 4 words; strides in bytes.
template <class Set>
inline void transpose_words(const void* a, int64_t stride, void* out, int64_t stride_out) {
  Words row[4];
  LONGHAUL_UNROLL
  for (int i = 0; i < 4; ++i) std::memcpy(&row[i], static_cast<const char*>(a) + i * stride, 16);
  const Words low01 = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5),
              high01 = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7);
  const Words low23 = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5),
              high23 = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7);
  const Words turned[4] = {__builtin_shufflevector(low01, low23, 0, 1, 4, 5),
                           __builtin_shufflevector(low01, low23, 2, 3, 6, 7),
                           __builtin_shufflevector(high01, high23, 0, 1, 4, 5),
                           __builtin_shufflevector(high01, high23, 2, 3, 6, 7)};
  LONGHAUL_UNROLL
  for (int i = 0; i < 4; ++i) std::memcpy(static_cast<char*>(out) + i * stride_out, &turned[i], 16);
}

// The same of 8 × 8 halves: pairs of rows are interleaved, which leaves words to transpose, twice over.
template <class Set>
inline void transpose_halves(const void* a, int64_t stride, void* out, int64_t stride_out) {
  Words low[4], high[4];  // pairs of rows 2i and 2i + 1, of the first and the last four columns
  LONGHAUL_UNROLL
  for (int i = 0; i < 4; ++i) {
    Halves even, odd;
    std::memcpy(&even, static_cast<const char*>(a) + 2 * i * stride, 16);
    std::memcpy(&odd, static_cast<const char*>(a) + (2 * i + 1) * stride, 16);
    low[i] = reinterpret_cast<Words>(__builtin_shufflevector(even, odd, 0, 8, 1, 9, 2, 10, 3, 11));
    high[i] = reinterpret_cast<Words>(__builtin_shufflevector(even, odd, 4, 12, 5, 13, 6, 14, 7, 15));
  }
  transpose_words<Set>(low, 16, out, stride_out);
  transpose_words<Set>(high, 16, static_cast<char*>(out) + 4 * stride_out, stride_out);
}

template <class Set, class Element>
void transpose(const Element* a, int64_t ld, int64_t rows, int64_t columns, Element* out, int64_t ld_out) {
  constexpr int64_t kSize = sizeof(Element), kSide = 16 / kSize;
  // A line of each of a few rows is used up at once: rows may lie so far apart that they share a place in the
  // nearest cache. A stretch of rows fills whole lines of the result before the next columns.
  constexpr int64_t kTogether = 64, kLine = 64 / kSize;
  const int64_t whole_rows = rows / kSide * kSide, whole_columns = columns / kSide * kSide;
  for (int64_t first = 0; first < whole_rows; first += kTogether) {
    const int64_t last = std::min(first + kTogether, whole_rows);
    for (int64_t line = 0; line < whole_columns; line += kLine) {
      for (int64_t i = first; i < last; i += kSide) {
        for (int64_t j = line; j < std::min(line + kLine, whole_columns); j += kSide) {
          if constexpr (kSize == 2)
            transpose_halves<Set>(a + i * ld + j, ld * kSize, out + j * ld_out + i, ld_out * kSize);
          else
            transpose_words<Set>(a + i * ld + j, ld * kSize, out + j * ld_out + i, ld_out * kSize);
        }
      }
    }
  }
  for (int64_t i = whole_rows; i < rows; ++i) {
    for (int64_t j = 0; j < whole_columns; ++j) out[j * ld_out + i] = a[i * ld + j];
  }
  for (int64_t j = whole_columns; j < columns; ++j) {
    for (int64_t i = 0; i < rows; ++i) out[j * ld_out + i] = a[i * ld + j];
  }
}

// A panel of which only `columns` exist, or the rows of one from `first` on: element by element, zeros
// around.
template <class Set, class Element>
void pack_edge(const Element* b, int64_t along, int64_t next, int64_t first, int64_t k, int64_t columns,
               Element* panel) {
  constexpr int64_t kTogether = sizeof(Element) == 2 ? 2 : 1;  // k's side by side
  const int64_t end = kTogether == 2 ? packed_k(k) : k;
  for (int64_t i = first; i < end; ++i) {
    for (int64_t x = 0; x < kPanelColumns; ++x) {
      panel[i / kTogether * kTogether * kPanelColumns + x * kTogether + i % kTogether] =
          i < k && x < columns ? b[i * next + x * along] : Element{0};
    }
  }
}

// One row of a panel, from two rows of the source.
template <class Set>
inline void interleave(const uint16_t* even, const uint16_t* odd, uint16_t* panel) {
  if constexpr (requires { Set::interleave(even, odd, panel); }) {
    Set::interleave(even, odd, panel);
  } else {
    uint32_t pairs[kPanelColumns];
#pragma omp simd
    for (int64_t x = 0; x < kPanelColumns; ++x) pairs[x] = even[x] | uint32_t{odd[x]} << 16;
    std::memcpy(panel, pairs, sizeof pairs);
  }
}

template <class Set>
void pack_bf16(const uint16_t* b, int64_t ld, bool transposed, int64_t k, int64_t n, uint16_t* panels) {
  const int64_t along = transposed ? ld : 1, next = transposed ? 1 : ld;
  for (int64_t j = 0; j < n; j += kPanelColumns) {
    uint16_t* const panel = panels + j * packed_k(k);
    const uint16_t* const from = b + j * along;
    if (n - j < kPanelColumns) {
      pack_edge<Set>(from, along, next, 0, k, n - j, panel);
      continue;
    }
    const int64_t whole = transposed ? k / 8 * 8 : k / 2 * 2;
    if (transposed) {
      for (int64_t i = 0; i < whole; i += 8) {
        for (int64_t x = 0; x < kPanelColumns; x += 4)
          transpose_words<Set>(from + x * ld + i, ld * 2, panel + i * kPanelColumns + 2 * x, 64);
      }
    } else {
      for (int64_t i = 0; i < whole; i += 2) {
        interleave<Set>(from + i * ld, from + (i + 1) * ld, panel + i * kPanelColumns);
      }
    }
    pack_edge<Set>(from, along, next, whole, k, kPanelColumns, panel);
  }
}

template <class Set>
void pack_fp32(const float* b, int64_t ld, bool transposed, int64_t k, int64_t n, float* panels) {
  const int64_t along = transposed ? ld : 1, next = transposed ? 1 : ld;
  for (int64_t j = 0; j < n; j += kPanelColumns) {
    float* const panel = panels + j * k;
    const float* const from = b + j * along;
    if (n - j < kPanelColumns) {
      pack_edge<Set>(from, along, next, 0, k, n - j, panel);
      continue;
    }
    const int64_t whole = transposed ? k / 4 * 4 : k;
    for (int64_t i = 0; i < whole; i += transposed ? 4 : 1) {
      if (transposed) {
        for (int64_t x = 0; x < kPanelColumns; x += 4)
          transpose_words<Set>(from + x * ld + i, ld * 4, panel + i * kPanelColumns + x, 64);
      } else {
        std::memcpy(panel + i * kPanelColumns, from + i * ld, kPanelColumns * sizeof *panel);
      }
    }
    pack_edge<Set>(from, along, next, whole, k, kPanelColumns, panel);
  }
}

template <class Set>
void round_bf16(const float* c, int64_t ldc, int64_t rows, int64_t columns, uint16_t* out, int64_t ld_out) {
  for (int64_t i = 0; i < rows; ++i) {
    const float* const from = c + i * ldc;
    uint16_t* const to = out + i * ld_out;
#pragma omp simd
    for (int64_t j = 0; j < columns; ++j) to[j] = bf16_bits(from[j]);
  }
}

template <class Set>
void round_bf16_with_bias(const float* c, int64_t ldc, int64_t rows, int64_t columns, const uint16_t* bias,
                          uint16_t* out, int64_t ld_out) {
  for (int64_t i = 0; i < rows; ++i) {
    const float* const from = c + i * ldc;
    uint16_t* const to = out + i * ld_out;
#pragma omp simd
    for (int64_t j = 0; j < columns; ++j) {
      const uint32_t bits = uint32_t{bias[j]} << 16;
      float added;
      std::memcpy(&added, &bits, sizeof added);
      to[j] = bf16_bits(from[j] + added);
    }
  }
}

}  // namespace
}  // namespace longhaul::kernels
