// Compiled once per instruction set by Highway's foreach_target.
#include "kernels/int8/loops.h"

#include <cstring>

#include "kernels/vector/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/int8/loops.cpp"
#include <hwy/foreach_target.h>
#include "kernels/vector/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels::HWY_NAMESPACE {
namespace {

using Floats = hn::CappedTag<float, kPanelColumns>;
constexpr int64_t kLanes = hn::MaxLanes(Floats());

HWY_INLINE hn::Vec<Floats> numbers(const int8_t* from) {
  const hn::Rebind<int8_t, Floats> bytes;
  return hn::ConvertTo(Floats(), hn::PromoteTo(hn::RebindToSigned<Floats>(), hn::LoadU(bytes, from)));
}

// The lower half of a small whole number's bits is zero: bf16 is the upper one. Rows 2i and 2i + 1 are
// interleaved.
void widen_bf16(const int8_t* panel, int64_t rows, uint16_t* wide) {
  const hn::RebindToUnsigned<Floats> words;
  for (int64_t i = 0; i < rows; i += 2) {
    for (int64_t j = 0; j < kPanelColumns; j += kLanes) {
      const auto even = hn::BitCast(words, numbers(panel + i * kPanelColumns + j)),
                 odd = hn::BitCast(words, numbers(panel + (i + 1) * kPanelColumns + j));
      HWY_ALIGN uint32_t pairs[kLanes];
      hn::Store(hn::Or(odd, hn::ShiftRight<16>(even)), words, pairs);
      std::memcpy(wide + i * kPanelColumns + 2 * j, pairs, sizeof pairs);
    }
  }
}

void widen_fp32(const int8_t* panel, int64_t rows, float* wide) {
  for (int64_t i = 0; i < rows * kPanelColumns; i += kLanes)
    hn::StoreU(numbers(panel + i), Floats(), wide + i);
}

template <class Out>
HWY_INLINE void scale_all_rows(const int8_t* from, const float* scales, int64_t rows, int64_t columns,
                               Out* to) {
  for (int64_t r = 0; r < rows; ++r, from += columns, to += columns) {
    const auto scale = hn::Set(Floats(), scales[r]);
    int64_t j = 0;
    for (; j + kLanes <= columns; j += kLanes)
      store(Floats(), hn::Mul(numbers(from + j), scale), to, Whole{j});
    if (j == columns) continue;
    HWY_ALIGN int8_t rest[kLanes] = {};
    std::memcpy(rest, from + j, static_cast<size_t>(columns - j));
    store(Floats(), hn::Mul(numbers(rest), scale), to, Rest{j, columns - j});
  }
}
void scale_rows_bf16(const int8_t* from, const float* scales, int64_t rows, int64_t columns, uint16_t* to) {
  scale_all_rows(from, scales, rows, columns, to);
}
void scale_rows_fp32(const int8_t* from, const float* scales, int64_t rows, int64_t columns, float* to) {
  scale_all_rows(from, scales, rows, columns, to);
}

const Int8Loops& loops_of_int8() {
  static constexpr Int8Loops kFunctions{widen_bf16, widen_fp32, scale_rows_bf16, scale_rows_fp32};
  return kFunctions;
}

}  // namespace
}  // namespace longhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul::kernels {

const Int8Loops& int8_loops() { return LONGHAUL_CHOOSE(loops_of_int8)(); }

}  // namespace longhaul::kernels
#endif
