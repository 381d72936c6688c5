// The fused loops of Lion, SGD and LAMB: every instruction set leaves the same bits, tails and all. What they
// should be is known_values_test's. And those of outer loops, beside the equations of their header, element
// by element.
#include "kernels/optimizer_loops/loops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/optimizer_loops/outer.h"
#include "support/instruction_sets.h"
#include "support/tensors.h"

namespace longhaul::optim {
namespace {

using namespace longhaul::testing;

template <class Real>
Tensor after_all(int64_t count) {
  const at::ScalarType type = sizeof(Real) == sizeof(float) ? at::kFloat : at::kDouble;
  // Master, gradient and two states, with a number more that nobody may touch.
  Tensor arrays = random_tensor({4, count + 1}, 7, type).abs();
  Tensor value = at::zeros({count + 1}, at::kBFloat16);
  kernels::UpdateRun<Real> run{.count = count};
  run.master = arrays[0].data_ptr<Real>(), run.gradient = arrays[1].data_ptr<Real>();
  run.first = arrays[2].data_ptr<Real>(), run.second = arrays[3].data_ptr<Real>();
  if (type == at::kFloat) run.value = static_cast<uint16_t*>(value.data_ptr());
  const kernels::UpdateLoops<Real>& loops = kernels::update_loops<Real>();
  loops.lion(run, {.lr = 0.1, .fade = 0.2, .zero_gradient = false});
  loops.sgd(run, {.lr = 0.1, .nesterov = true, .zero_gradient = false});
  const kernels::LambSums sums = loops.lamb_moments(run, {.l2 = 0.01, .decay = 0.1, .beta3 = 0.3});
  loops.lamb_update(run, {.decay = 0.1, .step = 0.05});
  const Tensor numbers = at::tensor({sums.weights, sums.updates}, at::kDouble);
  return at::cat({arrays.to(at::kDouble).reshape({-1}), value.to(at::kDouble), numbers});
}

TEST(UpdateLoops, InstructionSetsChangeNoBit) {
  for (const int64_t count : {0, 1, 15, 16, 17, 33, 1003}) {
    const Tensor floats = after_all<float>(count), doubles = after_all<double>(count);
    for_each_instruction_set([&] {
      EXPECT_TRUE(at::equal(after_all<float>(count), floats)) << count;
      EXPECT_TRUE(at::equal(after_all<double>(count), doubles)) << count;
    });
  }
}

// Anchor, momentum, sums, sent and weight, with a number more that nobody may touch.
template <class Real>
kernels::OuterRun<Real> outer_run(const Tensor& arrays, bool momentum, bool sent) {
  const auto row = [&](int64_t i) { return arrays[i].data_ptr<Real>(); };
  return {row(0), momentum ? row(1) : nullptr, row(2), sent ? row(3) : nullptr, row(4), arrays.size(1) - 1};
}

template <class Real>
kernels::OuterSums by_equations(const kernels::OuterRun<Real>& run, const kernels::OuterNumbers& numbers) {
  using kernels::OuterMerge;
  kernels::OuterSums sums;
  const auto real = [](double x) { return static_cast<Real>(x); };
  for (int64_t i = 0; i < run.count; ++i) {
    const Real x = run.anchor[i], w = run.weight[i], g = real(numbers.scale) * run.sums[i];
    Real m = run.momentum != nullptr ? real(numbers.momentum) * run.momentum[i] + g : g;
    if (numbers.clip > 0 && std::abs(m) > real(numbers.clip))
      m = m < 0 ? -real(numbers.clip) : real(numbers.clip), sums.clipped += 1;
    if (run.momentum != nullptr) run.momentum[i] = m;
    const Real moved = real(numbers.step) * (numbers.nesterov ? g + real(numbers.momentum) * m : m);
    if (numbers.leaves_difference) run.sums[i] = x - w;
    run.anchor[i] = x - moved;
    run.weight[i] = numbers.merge == OuterMerge::kReplaced ? x - moved
                    : numbers.merge == OuterMerge::kCorrected
                        ? w + (run.sent[i] - moved)
                        : (x - moved) + real(numbers.mix) * (w - (x - moved));
    sums.gradient += static_cast<double>(g) * static_cast<double>(g),
        sums.momentum += static_cast<double>(m) * static_cast<double>(m);
    sums.movement += static_cast<double>(moved) * static_cast<double>(moved);
  }
  return sums;
}

template <class Real>
Tensor numbers_of(const Tensor& arrays, const kernels::OuterSums& sums) {
  return at::cat({arrays.to(at::kDouble).reshape({-1}),
                  at::tensor({sums.gradient, sums.momentum, sums.movement, sums.clipped}, at::kDouble)});
}

template <class Real>
void check_outer_loops(int64_t count) {
  using kernels::OuterMerge;
  const double bound = sizeof(Real) == sizeof(float) ? 1e-6 : 1e-14;
  const Tensor before =
      random_tensor({5, count + 1}, 11, sizeof(Real) == sizeof(float) ? at::kFloat : at::kDouble);
  const std::vector<kernels::OuterNumbers> all = {
      {.scale = 0.25},
      {.scale = 0.5, .momentum = 0.7, .step = 0.9, .nesterov = true},
      {.scale = 0.5, .momentum = 0.2, .step = 0.8, .clip = 0.3, .leaves_difference = true},
      {.scale = 0.5, .step = 0.8, .merge = OuterMerge::kCorrected},
      {.scale = 0.5,
       .momentum = 0.9,
       .step = 0.7,
       .nesterov = true,
       .merge = OuterMerge::kMixed,
       .mix = 0.4}};
  const kernels::OuterLoops<Real>& loops = kernels::outer_loops<Real>();
  for (size_t k = 0; k < all.size(); ++k) {
    const bool momentum = all[k].momentum > 0, sent = all[k].merge == OuterMerge::kCorrected;
    const auto after = [&](auto update) {
      const Tensor arrays = before.clone();
      const kernels::OuterSums sums = update(outer_run<Real>(arrays, momentum, sent), all[k]);
      return numbers_of<Real>(arrays, sums);
    };
    const Tensor found = after(loops.update);
    EXPECT_LT(relative_error(found, after(by_equations<Real>)), bound)
        << "case " << k << ", " << count << " elements";
    for_each_instruction_set(
        [&] { EXPECT_TRUE(at::equal(after(kernels::outer_loops<Real>().update), found)) << k; });
  }
  const Tensor arrays = before.clone(), apart = before[0] - before[4];
  const kernels::OuterRun<Real> run = outer_run<Real>(arrays, true, true);
  EXPECT_NEAR(loops.distance(run),
              apart.narrow(0, 0, count).to(at::kDouble).square().sum().template item<double>(),
              bound * static_cast<double>(count));
  loops.difference(run, /*returns=*/true);
  const auto inner = [&](int64_t row) { return arrays[row].narrow(0, 0, count); };
  EXPECT_TRUE(at::equal(inner(2), apart.narrow(0, 0, count)) && at::equal(inner(3), inner(2)) &&
              at::equal(inner(4), inner(0)));
  EXPECT_TRUE(at::equal(arrays.select(1, count), before.select(1, count))) << "beyond the run";
}

TEST(UpdateLoops, OfOuterLoopsAreTheirEquations) {
  for (const int64_t count : {0, 1, 15, 16, 17, 33, 1003}) {
    check_outer_loops<float>(count);
    check_outer_loops<double>(count);
  }
}

}  // namespace
}  // namespace longhaul::optim
