// Compiled once per instruction set by Highway's foreach_target.
#include "kernels/sampling/loops.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "kernels/vector/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sampling/loops.cpp"
#include <hwy/foreach_target.h>
#include "kernels/vector/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels::HWY_NAMESPACE {
namespace {

constexpr hn::ScalableTag<float> kFloats;

float largest(const float* logits, int64_t count) {
  const auto lowest = hn::Set(kFloats, -std::numeric_limits<float>::infinity());
  auto most = lowest, bad = hn::Zero(kFloats);  // bad: NaN once there is one
  walk(kFloats, count, [&](auto at) LONGHAUL_VECTOR {
    const auto x = load(kFloats, logits, at);
    bad = hn::Add(bad, hn::IfThenElseZero(hn::IsNaN(x), x));
    if constexpr (std::is_same_v<decltype(at), Rest>) {
      most = hn::Max(most, hn::IfThenElse(mask_of_first(kFloats, at.n), x, lowest));
    } else {
      most = hn::Max(most, x);
    }
  });
  return hn::GetLane(hn::MaxOfLanes(kFloats, most)) + sum_of_lanes(kFloats, bad);
}

void weights(const float* logits, int64_t count, float largest, float temperature, float* out, double* sums) {
  const hn::ScalableTag<double> doubles;
  const hn::Rebind<float, hn::ScalableTag<double>> half;
  const auto top = hn::Set(kFloats, largest), t = hn::Set(kFloats, temperature);
  for (int64_t begin = 0; begin < count; begin += kDrawBlock) {
    const int64_t n = std::min(kDrawBlock, count - begin);
    walk(kFloats, n, [&](auto at) LONGHAUL_VECTOR {
      store(kFloats, exponential(kFloats, hn::Div(hn::Sub(load(kFloats, logits + begin, at), top), t)),
            out + begin, at);
    });
    auto sum = hn::Zero(doubles);
    walk(doubles, n, [&](auto at) LONGHAUL_VECTOR {
      if constexpr (std::is_same_v<decltype(at), Whole>) {
        sum = hn::Add(sum, hn::PromoteTo(doubles, hn::LoadU(half, out + begin + at.i)));
      } else {
        HWY_ALIGN float lanes[hn::MaxLanes(doubles)] = {};
        std::copy_n(out + begin + at.i, at.n, lanes);
        sum = hn::Add(sum, hn::PromoteTo(doubles, hn::Load(half, lanes)));
      }
    });
    sums[begin / kDrawBlock] = sum_of_lanes(doubles, sum);
  }
}

void places(const float* logits, int64_t count, float largest, int32_t* out) {
  const hn::RebindToSigned<decltype(kFloats)> whole_numbers;
  const auto top = hn::Set(kFloats, largest);
  auto least = top;
  walk(kFloats, count, [&](auto at) LONGHAUL_VECTOR {
    auto x = load(kFloats, logits, at);
    if constexpr (std::is_same_v<decltype(at), Rest>)
      x = hn::IfThenElse(mask_of_first(kFloats, at.n), x, top);
    least = hn::Min(least, hn::IfThenElse(hn::IsFinite(x), x, top));
  });
  const double width =
      static_cast<double>(largest) - static_cast<double>(hn::GetLane(hn::MinOfLanes(kFloats, least)));
  const auto places_a_unit =
      hn::Set(kFloats, width > 0 ? static_cast<float>((kDrawPlaces - 1) / width) : 1.0f);
  const auto last = hn::Set(kFloats, static_cast<float>(kDrawPlaces - 1));
  walk(kFloats, count, [&](auto at) LONGHAUL_VECTOR {
    const auto place = hn::Min(hn::Mul(hn::Sub(top, load(kFloats, logits, at)), places_a_unit), last);
    const auto found = hn::ConvertTo(whole_numbers, place);
    if constexpr (std::is_same_v<decltype(at), Whole>) {
      hn::StoreU(found, whole_numbers, out + at.i);
    } else {
      hn::BlendedStore(found, mask_of_first(whole_numbers, at.n), whole_numbers, out + at.i);
    }
  });
}

}  // namespace
}  // namespace longhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul::kernels {

float largest_logit(const float* logits, int64_t count) { return LONGHAUL_CHOOSE(largest)(logits, count); }

void draw_weights(const float* logits, int64_t count, float largest, double temperature, float* weights,
                  double* sums) {
  LONGHAUL_CHOOSE(weights)
  (logits, count, largest, static_cast<float>(std::clamp(temperature, 1e-30, 1e30)), weights, sums);
}

void draw_places(const float* logits, int64_t count, float largest, int32_t* places) {
  LONGHAUL_CHOOSE(places)(logits, count, largest, places);
}

}  // namespace longhaul::kernels
#endif
