// AdamW and the gradient norm by their CUDA kernels, emulated on the CPU, beside the fused loops: the tables
// of tensors that are made for them, with tensors that share a value, frozen ones, and working copies in
// bf16.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/dispatch.h"
#include "on_emulated_gpu.h"
#include "optim/gradient_norm.h"
#include "optim/optimizers/adamw.h"
#include "parameters_for_tests.h"

namespace longhaul::optim {
namespace {

using longhaul::testing::OnEmulatedGpu;
using longhaul::testing::relative_error;
using namespace longhaul::optim::testing;  // NOLINT: this test's own helpers

struct Trained {
  explicit Trained(const std::string& dtype, bool zero_gradients) : set(fused_set(Precision::named(dtype))) {
    fill_values(set);
    AdamW optimizer({.lr = 1e-2, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1},
                    {set, Precision::named(dtype)});
    for (int64_t step = 1; step <= 3; ++step) {
      fill_gradients(set, static_cast<uint64_t>(step));
      norms.push_back(gradient_norm(set, 0.25).norm);
      optimizer.step({.lr = 1e-2 / static_cast<double>(step),
                      .gradient_scale = 0.125,
                      .zero_gradients = zero_gradients});
    }
    for (const StateTensor& each : optimizer.state()) state.push_back(each.view.clone());
    for (const auto& parameter : set.all()) {
      state.push_back(parameter->value.detach());
      state.push_back(parameter->grad);
    }
  }
  model::ParameterSet set;
  std::vector<Tensor> state;
  std::vector<double> norms;
};

// fp32 on both sides, which round in another order; a working copy in bf16 may fall to the other side (2^-8).
TEST(CudaCallsAdamw, EqualsTheFusedLoops) {
  for (const auto& [dtype, tolerance] : {std::pair<std::string, double>{"fp32", 2e-6}, {"bf16", 4e-3}}) {
    for (const bool zero_gradients : {true, false}) {
      const Trained expected(dtype, zero_gradients);
      EXPECT_EQ(kernels::Dispatcher::last("adamw").chosen, "fused");
      const OnEmulatedGpu gpu;
      const Trained found(dtype, zero_gradients);
      EXPECT_EQ(kernels::Dispatcher::last("adamw").chosen, "cuda");
      ASSERT_EQ(found.state.size(), expected.state.size());
      for (size_t i = 0; i < found.state.size(); ++i)
        EXPECT_LT(relative_error(found.state[i], expected.state[i]), tolerance) << dtype << " " << i;
      for (size_t i = 0; i < found.norms.size(); ++i)
        EXPECT_NEAR(found.norms[i] / expected.norms[i], 1, 1e-6);
    }
  }
}

TEST(CudaCallsAdamw, NamesWhatIsNotFinite) {
  model::ParameterSet set = fused_set(Precision::named("bf16"));
  fill_gradients(set, 1);
  const auto& parameter = *set.all().back();
  parameter.part_of(parameter.grad, 0).view({-1})[0] = std::numeric_limits<float>::quiet_NaN();
  const OnEmulatedGpu gpu;
  const GradientNorm norm = gradient_norm(set);
  EXPECT_FALSE(norm.finite);
  EXPECT_EQ(norm.first_nonfinite, parameter.parts[0].spec.tensor.name);
}

}  // namespace
}  // namespace longhaul::optim
