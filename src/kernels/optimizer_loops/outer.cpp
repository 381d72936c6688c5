// Compiled once per instruction set by Highway's foreach_target.
#include "kernels/optimizer_loops/outer.h"

#include <algorithm>

#include "kernels/vector/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimizer_loops/outer.cpp"
#include <hwy/foreach_target.h>
#include "kernels/vector/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels::HWY_NAMESPACE {
namespace {

constexpr int64_t kTogether = 16;  // elements whose squares are added up together

// What the worker goes on with, of elements whose anchors come to `after` by -`movement`.
template <OuterMerge merge, class Real, class At, class Vector>
HWY_INLINE Vector merged(const OuterRun<Real>& run, int64_t i, At at, Vector mix, Vector movement,
                         Vector after) {
  const hn::ScalableTag<Real> d;
  if constexpr (merge == OuterMerge::kReplaced) {
    return after;
  } else {
    const auto weight = load(d, run.weight + i, at);
    if constexpr (merge == OuterMerge::kCorrected)
      return hn::Add(weight, hn::Sub(load(d, run.sent + i, at), movement));
    return hn::Add(after, hn::Mul(mix, hn::Sub(weight, after)));
  }
}

template <OuterMerge merge, class Real>
OuterSums update_merged(const OuterRun<Real>& given, const OuterNumbers& of) {
  const OuterRun<Real> run = given;  // which no store can change
  const OuterNumbers numbers = of;
  const hn::ScalableTag<Real> d;
  const auto every = [&](double x) LONGHAUL_VECTOR { return hn::Set(d, static_cast<Real>(x)); };
  const auto scale = every(numbers.scale), beta = every(numbers.momentum), step = every(numbers.step);
  const auto most = every(numbers.clip), mix = every(numbers.mix);
  SquareSums gradients, momenta, movements;
  int64_t clipped = 0;
  for (int64_t i = 0; i < run.count; i += kTogether) {
    Real gradient_of[kTogether] = {}, momentum_of[kTogether] = {}, movement_of[kTogether] = {};
    walk(d, std::min(kTogether, run.count - i), [&](auto at) LONGHAUL_VECTOR {
      const auto before = load(d, run.anchor + i, at), gradient = hn::Mul(scale, load(d, run.sums + i, at));
      auto momentum = gradient;
      if (run.momentum != nullptr) momentum = hn::Add(hn::Mul(beta, load(d, run.momentum + i, at)), gradient);
      if (numbers.clip > 0) {
        const auto beyond = hn::Gt(hn::Abs(momentum), most);
        momentum = hn::IfThenElse(beyond, hn::CopySign(most, momentum), momentum);
        clipped += static_cast<int64_t>(hn::CountTrue(d, beyond));
      }
      if (run.momentum != nullptr) store(d, momentum, run.momentum + i, at);
      const auto movement =
          hn::Mul(step, numbers.nesterov ? hn::Add(gradient, hn::Mul(beta, momentum)) : momentum);
      const auto after = hn::Sub(before, movement);
      if (numbers.leaves_difference) store(d, hn::Sub(before, load(d, run.weight + i, at)), run.sums + i, at);
      store(d, merged<merge>(run, i, at, mix, movement, after), run.weight + i, at);
      store(d, after, run.anchor + i, at);
      store(d, gradient, static_cast<Real*>(gradient_of), at);
      store(d, momentum, static_cast<Real*>(momentum_of), at);
      store(d, movement, static_cast<Real*>(movement_of), at);
    });
    gradients.add(static_cast<const Real*>(gradient_of));
    momenta.add(static_cast<const Real*>(momentum_of));
    movements.add(static_cast<const Real*>(movement_of));
  }
  return {gradients.total(), momenta.total(), movements.total(), static_cast<double>(clipped)};
}

template <class Real>
OuterSums update(const OuterRun<Real>& run, const OuterNumbers& numbers) {
  switch (numbers.merge) {
    case OuterMerge::kReplaced:
      break;
    case OuterMerge::kCorrected:
      return update_merged<OuterMerge::kCorrected>(run, numbers);
    case OuterMerge::kMixed:
      return update_merged<OuterMerge::kMixed>(run, numbers);
  }
  return update_merged<OuterMerge::kReplaced>(run, numbers);
}

template <class Real>
void difference(const OuterRun<Real>& given, bool returns) {
  const OuterRun<Real> run = given;
  const hn::ScalableTag<Real> d;
  walk(d, run.count, [&](auto at) LONGHAUL_VECTOR {
    const auto anchor = load(d, run.anchor, at), apart = hn::Sub(anchor, load(d, run.weight, at));
    store(d, apart, run.sums, at);
    if (run.sent != nullptr) store(d, apart, run.sent, at);
    if (returns) store(d, anchor, run.weight, at);
  });
}

// x - w is exact where they lie near each other, and squared in fp64.
template <class Real>
double distance(const OuterRun<Real>& run) {
  const hn::ScalableTag<Real> d;
  SquareSums sums;
  for (int64_t i = 0; i < run.count; i += kTogether) {
    Real apart[kTogether] = {};
    walk(d, std::min(kTogether, run.count - i), [&](auto at) LONGHAUL_VECTOR {
      store(d, hn::Sub(load(d, run.anchor + i, at), load(d, run.weight + i, at)), static_cast<Real*>(apart),
            at);
    });
    sums.add(static_cast<const Real*>(apart));
  }
  return sums.total();
}

template <class Real>
const OuterLoops<Real>& loops() {
  static constexpr OuterLoops<Real> kFunctions{update<Real>, difference<Real>, distance<Real>};
  return kFunctions;
}

}  // namespace
}  // namespace longhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul::kernels {

OuterSums& OuterSums::operator+=(const OuterSums& other) {
  gradient += other.gradient;
  momentum += other.momentum;
  movement += other.movement;
  clipped += other.clipped;
  return *this;
}

template <class Real>
const OuterLoops<Real>& outer_loops() {
  return LONGHAUL_CHOOSE(loops<Real>)();
}
template const OuterLoops<float>& outer_loops();
template const OuterLoops<double>& outer_loops();

}  // namespace longhaul::kernels
#endif
