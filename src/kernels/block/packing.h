// Packing, transposing and rounding for the sets of vector_kernels.h, as plain loops that the compiler turns into vectors of the set's
// own width. Included between LONGHAUL_BEGIN_TARGET and LONGHAUL_END_TARGET.

namespace longhaul::kernels {
namespace {

// Set is only there to make each file's copies its own.
template <class Set>
void pack_bf16(const uint16_t* b, int64_t ld, bool transposed, int64_t k, int64_t n, uint16_t* panels) {
  const int64_t stride = packed_k(k) * kPanelColumns;
  for (int64_t j = 0; j < n; j += kPanelColumns) {
    uint16_t* const panel = panels + j / kPanelColumns * stride;
    const int64_t columns = std::min(kPanelColumns, n - j);
    if (columns < kPanelColumns) std::memset(panel, 0, static_cast<size_t>(stride) * sizeof *panel);
    for (int64_t i = 0; i < k / 2; ++i) {
      uint16_t* const row = panel + i * 32;
      const uint16_t* const from = transposed ? b + j * ld + 2 * i : b + 2 * i * ld + j;
      const int64_t along = transposed ? ld : 1, next = transposed ? 1 : ld;
      for (int64_t x = 0; x < columns; ++x) {
        row[2 * x] = from[x * along];
        row[2 * x + 1] = from[x * along + next];
      }
    }
    if (k % 2 != 0) {
      uint16_t* const row = panel + k / 2 * 32;
      const uint16_t* const from = transposed ? b + j * ld + k - 1 : b + (k - 1) * ld + j;
      for (int64_t x = 0; x < kPanelColumns; ++x) {
        row[2 * x] = x < columns ? from[x * (transposed ? ld : 1)] : uint16_t{0};
        row[2 * x + 1] = 0;
      }
    }
    const int64_t filled = (k + 1) / 2 * 32;
    std::memset(panel + filled, 0, static_cast<size_t>(stride - filled) * sizeof *panel);
  }
}

template <class Set>
void pack_fp32(const float* b, int64_t ld, bool transposed, int64_t k, int64_t n, float* panels) {
  for (int64_t j = 0; j < n; j += kPanelColumns) {
    float* const panel = panels + j * k;
    const int64_t columns = std::min(kPanelColumns, n - j), along = transposed ? ld : 1, next = transposed ? 1 : ld;
    const float* const from = b + j * along;
    for (int64_t i = 0; i < k; ++i) {
      for (int64_t x = 0; x < kPanelColumns; ++x) panel[i * kPanelColumns + x] = x < columns ? from[i * next + x * along] : 0.0f;
    }
  }
}

template <class Set, class Element>
void transpose(const Element* a, int64_t ld, int64_t rows, int64_t columns, Element* out, int64_t ld_out) {
  constexpr int64_t kSquare = 16;  // a square of both matrices stays in the nearest cache
  for (int64_t i0 = 0; i0 < rows; i0 += kSquare) {
    for (int64_t j0 = 0; j0 < columns; j0 += kSquare) {
      const int64_t i1 = std::min(i0 + kSquare, rows), j1 = std::min(j0 + kSquare, columns);
      for (int64_t j = j0; j < j1; ++j) {
        for (int64_t i = i0; i < i1; ++i) out[j * ld_out + i] = a[i * ld + j];
      }
    }
  }
}

template <class Set>
void round_bf16(const float* c, int64_t ldc, int64_t rows, int64_t columns, uint16_t* out, int64_t ld_out) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      uint32_t bits;
      std::memcpy(&bits, c + i * ldc + j, sizeof bits);
      const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
      out[i * ld_out + j] = static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
    }
  }
}

}  // namespace
}  // namespace longhaul::kernels
