// Compiled once per instruction set by Highway's foreach_target, without contracted multiply-adds: one set of
// bits for all of them.
#include "kernels/spikes/loops.h"

#include <algorithm>
#include <cmath>

#include "kernels/vector/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/spikes/loops.cpp"
#include <hwy/foreach_target.h>
#include "kernels/vector/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels::HWY_NAMESPACE {
namespace {

using Floats = hn::ScalableTag<float>;
constexpr int64_t kPanel = 16, kQuads = 32;  // outputs, and fours of inputs, of a group's panel

// Σ |x| in fp64 in sixteen interleaved sums, added up in one order: the mean has no error that fp32 would
// show, however many channels there are.
template <class In>
HWY_INLINE double sum_of_sizes(const In* x, int64_t n) {
  const Floats d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  alignas(64) float sizes[16];
  double sums[16] = {};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    for (int64_t j = 0; j < 16; j += lanes) hn::Store(hn::Abs(load_whole(d, x + i + j)), d, sizes + j);
    for (int64_t j = 0; j < 16; ++j) sums[j] += static_cast<double>(sizes[j]);
  }
  for (int64_t j = 0; i + j < n; ++j) {
    const auto one = load(d, x, Rest{i + j, 1});
    sums[j] += static_cast<double>(std::abs(hn::GetLane(one)));
  }
  for (int half = 8; half > 0; half /= 2) {
    for (int j = 0; j < half; ++j) sums[j] += sums[j + half];
  }
  return sums[0];
}

template <class In>
HWY_INLINE float counted(const In* x, int64_t n, double k, float* counts) {
  const double mean = n == 0 ? 0 : sum_of_sizes(x, n) / static_cast<double>(n);
  float threshold = static_cast<float>(mean / k);
  if (threshold < kLeastThreshold) threshold = kLeastThreshold;  // a NaN stays one
  if (threshold > kLargestThreshold) threshold = kLargestThreshold;
  const Floats d;
  const auto divisor = hn::Set(d, threshold);
  walk(d, n,
       [&](auto at) LONGHAUL_VECTOR { store(d, hn::Round(hn::Div(load(d, x, at), divisor)), counts, at); });
  return threshold;
}

float count_spikes_row(const SpikeRow& row, float* counts) {
  if (row.storage == Storage::kBf16)
    return counted(static_cast<const uint16_t*>(row.x), row.columns, row.k, counts);
  return counted(static_cast<const float*>(row.x), row.columns, row.k, counts);
}

template <class In>
HWY_INLINE void times_threshold(const float* counts, int64_t n, float threshold, In* y) {
  const Floats d;
  const auto factor = hn::Set(d, threshold);
  walk(d, n, [&](auto at) LONGHAUL_VECTOR { store(d, hn::Mul(load(d, counts, at), factor), y, at); });
}

void straight_through_row(const SpikeRow& row, float* counts, void* y) {
  const float threshold = count_spikes_row(row, counts);
  if (row.storage == Storage::kBf16)
    times_threshold(counts, row.columns, threshold, static_cast<uint16_t*>(y));
  else
    times_threshold(counts, row.columns, threshold, static_cast<float*>(y));
}

int64_t bytes_of_counts(const float* counts, int64_t columns, int64_t padded, uint8_t* bytes) {
  int64_t beyond = 0;
  for (int64_t i = 0; i < columns; ++i) {
    const float kept = std::min(127.0f, std::max(-127.0f, counts[i]));
    beyond += kept != counts[i] ? 1 : 0;
    bytes[i] = static_cast<uint8_t>(static_cast<int32_t>(kept) + 128);
  }
  std::fill(bytes + columns, bytes + padded, uint8_t{128});
  return beyond;
}

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
#if HWY_TARGET == HWY_AVX3
constexpr int64_t kVectors = 1;
using Ints = __m512i;
HWY_INLINE Ints zero_ints() { return _mm512_setzero_si512(); }
HWY_INLINE Ints load_ints(const void* from) { return _mm512_loadu_si512(from); }
HWY_INLINE Ints add_ints(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
HWY_INLINE Ints four_of(const uint8_t* x) {
  int32_t four;
  std::memcpy(&four, x, sizeof four);
  return _mm512_set1_epi32(four);
}
// Without VNNI: sums of even and odd bytes in 16 bits each, which are exact, then in 32.
HWY_INLINE Ints add_fours_madd(Ints sum, Ints x, Ints w) {
  const Ints low = _mm512_set1_epi16(0x00ff);
  const Ints even =
                 _mm512_madd_epi16(_mm512_and_si512(x, low), _mm512_srai_epi16(_mm512_slli_epi16(w, 8), 8)),
             odd = _mm512_madd_epi16(_mm512_srli_epi16(x, 8), _mm512_srai_epi16(w, 8));
  return _mm512_add_epi32(sum, _mm512_add_epi32(even, odd));
}
HWY_INLINE Ints add_fours_vnni(Ints sum, Ints x, Ints w) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
  return sum;
}
HWY_INLINE void add_scaled(const Ints* sums, const int32_t* corrections, const float* scales, float* y) {
  const __m512i exact = _mm512_sub_epi32(sums[0], _mm512_slli_epi32(_mm512_loadu_si512(corrections), 7));
  const __m512 product = _mm512_mul_ps(_mm512_cvtepi32_ps(exact), _mm512_loadu_ps(scales));
  _mm512_storeu_ps(y, _mm512_add_ps(_mm512_loadu_ps(y), product));
}
#else
constexpr int64_t kVectors = 2;
using Ints = __m256i;
HWY_INLINE Ints zero_ints() { return _mm256_setzero_si256(); }
HWY_INLINE Ints load_ints(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
HWY_INLINE Ints add_ints(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
HWY_INLINE Ints four_of(const uint8_t* x) {
  int32_t four;
  std::memcpy(&four, x, sizeof four);
  return _mm256_set1_epi32(four);
}
HWY_INLINE Ints add_fours_madd(Ints sum, Ints x, Ints w) {
  const Ints low = _mm256_set1_epi16(0x00ff);
  const Ints even =
                 _mm256_madd_epi16(_mm256_and_si256(x, low), _mm256_srai_epi16(_mm256_slli_epi16(w, 8), 8)),
             odd = _mm256_madd_epi16(_mm256_srli_epi16(x, 8), _mm256_srai_epi16(w, 8));
  return _mm256_add_epi32(sum, _mm256_add_epi32(even, odd));
}
HWY_INLINE void add_scaled(const Ints* sums, const int32_t* corrections, const float* scales, float* y) {
  for (int64_t v = 0; v < kVectors; ++v) {
    const Ints exact = _mm256_sub_epi32(sums[v], _mm256_slli_epi32(load_ints(corrections + 8 * v), 7));
    const __m256 product = _mm256_mul_ps(_mm256_cvtepi32_ps(exact), _mm256_loadu_ps(scales + 8 * v));
    _mm256_storeu_ps(y + 8 * v, _mm256_add_ps(_mm256_loadu_ps(y + 8 * v), product));
  }
}
#endif

// kRows rows of x with one panel. A single row has several sums, so that one need not wait for the other.
template <int kRows, bool kVnni>
HWY_INLINE void multiply_panel(const IntegerProduct& p, int64_t panel, int64_t row) {
  const int64_t width = p.groups * kQuads * 4;
  for (int64_t r = 0; r < kRows; ++r) std::fill_n(p.y + (row + r) * p.ldy + panel * kPanel, kPanel, 0.0f);
  for (int64_t g = 0; g < p.groups; ++g) {
    const int8_t* const w = p.panels + (panel * p.groups + g) * kQuads * kPanel * 4;
    const uint8_t* const x = p.bytes + row * width + g * kQuads * 4;
    constexpr int kWays = kRows == 1 ? 4 : 1;
    Ints sums[kRows * kWays][kVectors];
    for (auto& of_row : sums) std::fill(of_row, of_row + kVectors, zero_ints());
    for (int64_t i = 0; i < kQuads; i += kWays) {
      for (int64_t way = 0; way < kWays; ++way) {
        for (int64_t v = 0; v < kVectors; ++v) {
          const Ints weights = load_ints(w + (i + way) * kPanel * 4 + v * static_cast<int64_t>(sizeof(Ints)));
          for (int64_t r = 0; r < kRows; ++r) {
            const Ints four = four_of(x + r * width + (i + way) * 4);
            Ints& sum = sums[r * kWays + way][v];
#if HWY_TARGET == HWY_AVX3
            if constexpr (kVnni) {
              sum = add_fours_vnni(sum, four, weights);
              continue;
            }
#endif
            sum = add_fours_madd(sum, four, weights);
          }
        }
      }
    }
    for (int way = 1; way < kWays; ++way) {
      for (int64_t v = 0; v < kVectors; ++v) sums[0][v] = add_ints(sums[0][v], sums[way][v]);
    }
    const int64_t at = (panel * p.groups + g) * kPanel;
    for (int64_t r = 0; r < kRows; ++r)
      add_scaled(sums[r], p.sums + at, p.scales + at, p.y + (row + r) * p.ldy + panel * kPanel);
  }
}
#else
template <int kRows, bool kVnni>
HWY_INLINE void multiply_panel(const IntegerProduct& p, int64_t panel, int64_t row) {
  const int64_t width = p.groups * kQuads * 4;
  for (int64_t r = 0; r < kRows; ++r) {
    float* const y = p.y + (row + r) * p.ldy + panel * kPanel;
    std::fill_n(y, kPanel, 0.0f);
    for (int64_t g = 0; g < p.groups; ++g) {
      const int8_t* const w = p.panels + (panel * p.groups + g) * kQuads * kPanel * 4;
      const uint8_t* const x = p.bytes + (row + r) * width + g * kQuads * 4;
      int32_t sums[kPanel] = {};
      for (int64_t i = 0; i < kQuads * 4; ++i) {
        const int8_t* const four = w + i / 4 * kPanel * 4 + i % 4;
        for (int64_t j = 0; j < kPanel; ++j) sums[j] += (static_cast<int32_t>(x[i]) - 128) * four[j * 4];
      }
      const int64_t at = (panel * p.groups + g) * kPanel;
      for (int64_t j = 0; j < kPanel; ++j) y[j] += p.scales[at + j] * static_cast<float>(sums[j]);
    }
  }
}
#endif

template <bool kVnni>
HWY_INLINE void multiply_all(const IntegerProduct& p) {
  for (int64_t panel = 0; panel < p.panel_count; ++panel) {
    int64_t row = 0;
    for (; row + 8 <= p.rows; row += 8) multiply_panel<8, kVnni>(p, panel, row);
    for (; row + 4 <= p.rows; row += 4) multiply_panel<4, kVnni>(p, panel, row);
    for (; row < p.rows; ++row) multiply_panel<1, kVnni>(p, panel, row);
  }
}
void multiply_madd(const IntegerProduct& p) { multiply_all<false>(p); }
#if HWY_TARGET == HWY_AVX3
void multiply_vnni(const IntegerProduct& p) { multiply_all<true>(p); }
#endif

void add_event_columns(const int8_t* weights, int64_t columns, int32_t factor, int32_t* sums) {
  const hn::ScalableTag<int32_t> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const hn::Rebind<int8_t, decltype(d)> bytes;
  const auto times = hn::Set(d, factor);
  int64_t j = 0;
  for (; j + lanes <= columns; j += lanes) {
    const auto w = hn::PromoteTo(d, hn::LoadU(bytes, weights + j));
    hn::StoreU(hn::Add(hn::LoadU(d, sums + j), hn::Mul(w, times)), d, sums + j);
  }
  for (; j < columns; ++j) sums[j] += factor * weights[j];
}

void add_group_columns(const float* scales, int64_t columns, int32_t* sums, float* y) {
  for (int64_t j = 0; j < columns; ++j) {
    y[j] += scales[j] * static_cast<float>(sums[j]);
    sums[j] = 0;
  }
}

}  // namespace

float count_spikes_any(const SpikeRow& row, float* counts) { return count_spikes_row(row, counts); }
void straight_through_any(const SpikeRow& row, float* counts, void* y) {
  straight_through_row(row, counts, y);
}
int64_t bytes_of_counts_any(const float* counts, int64_t columns, int64_t padded, uint8_t* bytes) {
  return bytes_of_counts(counts, columns, padded, bytes);
}
void multiply_integers_any(const IntegerProduct& product) { multiply_madd(product); }
#if HWY_TARGET == HWY_AVX3
void multiply_integers_vnni(const IntegerProduct& product) { multiply_vnni(product); }
#endif
void add_event_any(const int8_t* weights, int64_t columns, int32_t factor, int32_t* sums) {
  add_event_columns(weights, columns, factor, sums);
}
void add_group_any(const float* scales, int64_t columns, int32_t* sums, float* y) {
  add_group_columns(scales, columns, sums, y);
}

}  // namespace longhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul::kernels {

// Where AVX-512's loops are allowed and the processor has VNNI.
static bool has_vnni() {
#ifdef __x86_64__
  return block_kernels().vectors >= VectorSet::kAvx512 && __builtin_cpu_supports("avx512vnni");
#else
  return false;
#endif
}

float count_spikes(const SpikeRow& row, float* counts) {
  return LONGHAUL_CHOOSE(count_spikes_any)(row, counts);
}
void straight_through(const SpikeRow& row, float* counts, void* y) {
  LONGHAUL_CHOOSE(straight_through_any)(row, counts, y);
}
int64_t counts_as_bytes(const float* counts, int64_t columns, int64_t padded, uint8_t* bytes) {
  return LONGHAUL_CHOOSE(bytes_of_counts_any)(counts, columns, padded, bytes);
}
void multiply_integers(const IntegerProduct& product) {
#ifdef __x86_64__
  if (has_vnni()) return N_AVX3::multiply_integers_vnni(product);
#endif
  LONGHAUL_CHOOSE(multiply_integers_any)(product);
}
const char* integer_instructions() {
  if (has_vnni()) return "vnni";
#ifdef __x86_64__
  return block_kernels().vectors >= VectorSet::kAvx2 ? "madd" : "plain";
#else
  return "plain";
#endif
}
void add_event(const int8_t* weights, int64_t columns, int32_t factor, int32_t* sums) {
  LONGHAUL_CHOOSE(add_event_any)(weights, columns, factor, sums);
}
void add_group(const float* scales, int64_t columns, int32_t* sums, float* y) {
  LONGHAUL_CHOOSE(add_group_any)(scales, columns, sums, y);
}

}  // namespace longhaul::kernels
#endif
