// Compiled once per instruction set by Highway's foreach_target.
#include "kernels/group_linear/loops.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "kernels/vector/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/group_linear/loops.cpp"
#include <hwy/foreach_target.h>
#include "kernels/vector/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels::HWY_NAMESPACE {
namespace {

constexpr int64_t kOfPanel = 16, kOfGroup = 128, kFours = 32;  // outputs; inputs, and fours of them

// Eight bits are used up faster than the processor asks for the pages that follow: two groups are asked for
// before. They may lie outside of what there is.
constexpr int64_t kAhead = 2 * kOfGroup * kOfPanel;

using Sums = hn::CappedTag<float, kOfPanel>;
constexpr int kLanesOfSums = hn::MaxLanes(Sums()), kVectorsOfPanel = kOfPanel / kLanesOfSums;

// Four inputs of each lane's output.
HWY_INLINE hn::Vec<hn::RebindToSigned<Sums>> four_inputs(const int8_t* from) {
  const hn::RebindToSigned<Sums> d;
#if HWY_TARGET == HWY_SCALAR
  int32_t lane;
  std::memcpy(&lane, from, sizeof lane);
  return hn::Set(d, lane);
#else
  return hn::BitCast(d, hn::LoadU(hn::Repartition<int8_t, Sums>(), from));
#endif
}

// Input r of each four, as numbers.
template <int r>
HWY_INLINE hn::Vec<Sums> input_of(hn::Vec<hn::RebindToSigned<Sums>> fours) {
  if constexpr (r < 3) fours = hn::ShiftLeft<24 - 8 * r>(fours);
  return hn::ConvertTo(Sums(), hn::ShiftRight<24>(fours));
}

// One panel's group for R rows.
template <int R>
struct Fp32Group {
  using Element = float;
  hn::Vec<Sums> sums[R][kVectorsOfPanel];

  HWY_INLINE Fp32Group() {
    for (auto& of_row : sums) std::fill_n(of_row, kVectorsOfPanel, hn::Zero(Sums()));
  }
  HWY_INLINE void add(const int8_t* four, const float* x, int64_t ldx) {
    for (int v = 0; v < kVectorsOfPanel; ++v) {
      const auto fours = four_inputs(four + v * kLanesOfSums * 4);
      const hn::Vec<Sums> w[4] = {input_of<0>(fours), input_of<1>(fours), input_of<2>(fours),
                                  input_of<3>(fours)};
      for (int r = 0; r < R; ++r) {
        for (int i = 0; i < 4; ++i)
          sums[r][v] = hn::MulAdd(hn::Set(Sums(), x[r * ldx + i]), w[i], sums[r][v]);
      }
    }
  }
  HWY_INLINE void leave(int r, const float* scales, float* y) const {
    for (int v = 0; v < kVectorsOfPanel; ++v) {
      const int64_t j = v * kLanesOfSums;
      hn::StoreU(hn::MulAdd(sums[r][v], hn::LoadU(Sums(), scales + j), hn::LoadU(Sums(), y + j)), Sums(),
                 y + j);
    }
  }
};

#if HWY_TARGET == HWY_AVX3
// The two bytes of bf16 of 0 … 127: the sign is put in behind.
struct ByteTables {
  alignas(64) std::array<uint8_t, 128> low{}, high{};
};
constexpr ByteTables byte_tables() {
  ByteTables tables;
  for (size_t n = 0; n < 128; ++n) {
    const auto bits = std::bit_cast<uint32_t>(static_cast<float>(n));
    tables.low[n] = static_cast<uint8_t>(bits >> 16);
    tables.high[n] = static_cast<uint8_t>(bits >> 24);
  }
  return tables;
}
constexpr ByteTables kByteTables = byte_tables();

// The pair of registers is a table of 128 bytes.
HWY_INLINE __m512i looked_up(__m512i index, __m512i first, __m512i second) {
  asm("vpermi2b %2, %1, %0" : "+v"(index) : "v"(first), "v"(second));
  return index;
}
HWY_INLINE __m512 add_pairs(__m512 sum, __m512i x, __m512i w) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
  return sum;
}

// The same. Outputs 4l and 4l + 1 of lane l of 128 bits have their sums in the first register, two pairs of
// inputs side by side, the others in the second.
template <int R>
struct Bf16Group {
  using Element = uint16_t;
  __m512 sums[R][2];

  HWY_INLINE Bf16Group() {
    for (auto& of_row : sums) of_row[0] = of_row[1] = _mm512_setzero_ps();
  }
  HWY_INLINE void add(const int8_t* four, const uint16_t* x, int64_t ldx) {
    const uint8_t *const low = kByteTables.low.data(), *const high = kByteTables.high.data();
    const __m512i q = _mm512_loadu_si512(four), size = _mm512_maskz_abs_epi8(~__mmask64{0}, q),
                  sign = _mm512_set1_epi8(-128);
    const __m512i lower = looked_up(size, _mm512_load_si512(low), _mm512_load_si512(low + 64)),
                  without = looked_up(size, _mm512_load_si512(high), _mm512_load_si512(high + 64)),
                  upper = _mm512_ternarylogic_epi32(without, q, sign, 0xf8);  // without | (q & sign)
    const __m512i first = _mm512_maskz_unpacklo_epi8(~__mmask64{0}, lower, upper),
                  second = _mm512_maskz_unpackhi_epi8(~__mmask64{0}, lower, upper);
    for (int r = 0; r < R; ++r) {
      int64_t inputs;
      std::memcpy(&inputs, x + r * ldx, sizeof inputs);
      const __m512i both = _mm512_set1_epi64(inputs);
      sums[r][0] = add_pairs(sums[r][0], both, first);
      sums[r][1] = add_pairs(sums[r][1], both, second);
    }
  }
  HWY_INLINE void leave(int r, const float* scales, float* y) const {
    const __m512 sum = _mm512_add_ps(_mm512_maskz_shuffle_ps(0xffff, sums[r][0], sums[r][1], 0x88),
                                     _mm512_maskz_shuffle_ps(0xffff, sums[r][0], sums[r][1], 0xdd));
    _mm512_storeu_ps(y, _mm512_fmadd_ps(sum, _mm512_loadu_ps(scales), _mm512_loadu_ps(y)));
  }
};
#endif

// R rows with P panels: few rows have several panels side by side, whose sums need not wait for each other.
template <template <int> class Group, int R, int P>
HWY_INLINE void multiply_panels(const GroupProduct& p, int64_t panel, int64_t row) {
  using Element = typename Group<R>::Element;
  const Element* const x = static_cast<const Element*>(p.x) + row * p.ldx;
  for (int64_t r = 0; r < R; ++r) std::fill_n(p.y + (row + r) * p.ldy + panel * kOfPanel, P * kOfPanel, 0.0f);
  for (int64_t g = 0; g < p.groups; ++g) {
    Group<R> groups[P];
    const int8_t* w[P];
    for (int i = 0; i < P; ++i) w[i] = p.panels + ((panel + i) * p.groups + g) * kOfGroup * kOfPanel;
    for (int64_t four = 0; four < kFours; ++four) {
      for (int i = 0; i < P; ++i) {
        const int8_t* const of_panel = w[i] + four * 4 * kOfPanel;
        __builtin_prefetch(of_panel + kAhead, 0, 2);
        groups[i].add(of_panel, x + g * kOfGroup + four * 4, p.ldx);
      }
    }
    for (int i = 0; i < P; ++i) {
      const float* const scales = p.scales + ((panel + i) * p.groups + g) * kOfPanel;
      for (int r = 0; r < R; ++r)
        groups[i].leave(r, scales, p.y + (row + r) * p.ldy + (panel + i) * kOfPanel);
    }
  }
}

template <template <int> class Group, int R, int P>
HWY_INLINE void multiply_rows_of(const GroupProduct& p, int64_t& row) {
  for (; row + R <= p.rows; row += R) {
    int64_t panel = 0;
    for (; panel + P <= p.panel_count; panel += P) multiply_panels<Group, R, P>(p, panel, row);
    for (; panel < p.panel_count; ++panel) multiply_panels<Group, R, 1>(p, panel, row);
  }
}

void multiply_fp32_any(const GroupProduct& p) {
  int64_t row = 0;
  if constexpr (kVectorsOfPanel == 1) multiply_rows_of<Fp32Group, 8, 1>(p, row);
  multiply_rows_of<Fp32Group, 4, 1>(p, row);
  multiply_rows_of<Fp32Group, 1, kVectorsOfPanel == 1 ? 4 : 2>(p, row);
}

#if HWY_TARGET == HWY_AVX3
void multiply_bf16_avx512(const GroupProduct& p) {
  int64_t row = 0;
  multiply_rows_of<Bf16Group, 8, 1>(p, row);
  multiply_rows_of<Bf16Group, 4, 2>(p, row);
  multiply_rows_of<Bf16Group, 2, 4>(p, row);
  multiply_rows_of<Bf16Group, 1, 4>(p, row);
}
#endif

}  // namespace

void multiply_groups_fp32_any(const GroupProduct& product) { multiply_fp32_any(product); }
#if HWY_TARGET == HWY_AVX3
void multiply_groups_bf16_avx512(const GroupProduct& product) { multiply_bf16_avx512(product); }
#endif

}  // namespace longhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul::kernels {

void multiply_groups_fp32(const GroupProduct& product) { LONGHAUL_CHOOSE(multiply_groups_fp32_any)(product); }

bool multiplies_groups_in_bf16() {
#ifdef __x86_64__
  return block_kernels().vectors >= VectorSet::kAvx512Bf16 && __builtin_cpu_supports("avx512vbmi");
#else
  return false;
#endif
}

void multiply_groups_bf16([[maybe_unused]] const GroupProduct& product) {
#ifdef __x86_64__
  N_AVX3::multiply_groups_bf16_avx512(product);
#endif
}

}  // namespace longhaul::kernels
#endif
