// The fused loops of Lion, SGD and LAMB: every instruction set leaves the same bits, tails and all. What they should be is known_values_test's.
#include "kernels/updates/loops.h"

#include <gtest/gtest.h>

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
  const kernels::LambSums sums = loops.lamb_moments(run, {.l2 = 0.01, .decay = 0.1});
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

}  // namespace
}  // namespace longhaul::optim
