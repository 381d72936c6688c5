#include "optim/gradient_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/threads/parallel.h"
#include "kernels/adamw/loops.h"
#include "parameters_for_tests.h"
#include "support/instruction_sets.h"

namespace longhaul::optim {
namespace {

using namespace longhaul::optim::testing;  // NOLINT: this test's own helpers

TEST(GradientNorm, KnownValues) {
  model::ParameterSet set({spec("a", {2}, true), spec("b", {1, 3}, true)}, Precision::named("fp32"),
                          at::kCPU);
  set.add_stacked("a", {"a"});
  set.add_stacked("b", {"b"});
  set.allocate();
  grad_of(set, "a").copy_(at::tensor({3.0, 4.0}));
  grad_of(set, "b").copy_(at::tensor({0.0, -12.0, 84.0}).view({1, 3}));
  EXPECT_DOUBLE_EQ(gradient_norm(set).norm, 85.0);
  EXPECT_DOUBLE_EQ(gradient_norm(set, 0.5).norm, 42.5);
  EXPECT_TRUE(gradient_norm(set).finite);
  EXPECT_EQ(gradient_norm(set).first_nonfinite, "");
}

TEST(GradientNorm, ClipFactor) {
  EXPECT_DOUBLE_EQ(clip_factor(85.0, 1.0), 1.0 / (85.0 + 1e-6));
  EXPECT_DOUBLE_EQ(clip_factor(0.5, 1.0), 1.0);
  EXPECT_DOUBLE_EQ(clip_factor(1.0, 1.0), 1.0 / (1.0 + 1e-6));
  EXPECT_DOUBLE_EQ(clip_factor(1e9, 0.0), 1.0);
  EXPECT_DOUBLE_EQ(clip_factor(0.0, 1.0), 1.0);
}

// fp32 squares of these would overflow or vanish.
TEST(GradientNorm, HugeAndTinyGradients) {
  model::ParameterSet set({spec("a", {100}, true)}, Precision::named("fp32"), at::kCPU);
  set.add_stacked("a", {"a"});
  set.allocate();
  grad_of(set, "a").fill_(1e30);
  EXPECT_NEAR(gradient_norm(set).norm, 1e31, 1e24);
  grad_of(set, "a").fill_(1e-30);
  EXPECT_NEAR(gradient_norm(set).norm, 1e-29, 1e-36);
}

TEST(GradientNorm, AgreesWithTensorOperations) {
  for (const char* dtype : {"fp32", "fp64"}) {
    model::ParameterSet set = fused_set(Precision::named(dtype));
    fill_gradients(set, 3);
    double squares = 0;
    for (const auto& each : set.specs())
      squares += grad_of(set, each.tensor.name).to(at::kDouble).square().sum().item<double>();
    EXPECT_NEAR(gradient_norm(set).norm / std::sqrt(squares), 1, 1e-14);
  }
}

TEST(GradientNorm, ThreadsFusingAndInstructionSetsChangeNoBit) {
  model::ParameterSet fused = fused_set(Precision::named("fp32")),
                      unfused = unfused_set(Precision::named("fp32"));
  fill_gradients(fused, 4);
  fill_gradients(unfused, 4);
  set_threads(1);
  const double expected = gradient_norm(fused).norm;
  for (const int count : {1, 2, 3, 5}) {
    set_threads(count);
    EXPECT_EQ(gradient_norm(fused).norm, expected) << count;
    EXPECT_EQ(gradient_norm(unfused).norm, expected) << count;
  }
  set_threads(0);
  const Tensor x = grad_of(fused, "table").contiguous();
  for (const int64_t n : {0, 1, 15, 16, 17, 1000, 32768}) {
    const double first = kernels::element_loops().squares_fp32(x.const_data_ptr<float>(), n);
    longhaul::testing::for_each_instruction_set(
        [&] { EXPECT_EQ(kernels::element_loops().squares_fp32(x.const_data_ptr<float>(), n), first) << n; });
  }
}

TEST(GradientNorm, NamesTheFirstTensorThatIsNotFinite) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    model::ParameterSet set = fused_set(Precision::named("fp32"));
    fill_gradients(set, 1);
    grad_of(set, "expert.1.up").select(0, 3).select(0, 5).fill_(bad);
    grad_of(set, "table").select(0, 300).select(0, 200).fill_(bad);
    const GradientNorm found = gradient_norm(set);
    EXPECT_FALSE(found.finite);
    EXPECT_EQ(found.first_nonfinite, "expert.1.up");
    grad_of(set, "expert.1.up").zero_();
    EXPECT_EQ(gradient_norm(set).first_nonfinite, "table");
    grad_of(set, "table").zero_();
    EXPECT_TRUE(gradient_norm(set).finite);
  }
}

TEST(GradientNorm, LeavesFrozenTensorsOut) {
  model::ParameterSet set({spec("a", {2}, true), spec("b", {2}, true, false), spec("c", {2}, true)},
                          Precision::named("fp64"), at::kCPU);
  set.add_stacked("ab", {"a", "b"});
  set.add_stacked("c", {"c"});
  set.allocate();
  set.freeze([](const model::Parameter& parameter) { return parameter.name == "c"; });
  grad_of(set, "a").copy_(at::tensor({3.0, 4.0}));
  grad_of(set, "b").fill_(100.0);
  EXPECT_DOUBLE_EQ(gradient_norm(set).norm, 5.0);
}

TEST(GradientNorm, ReducesTheSquaredNorm) {
  model::ParameterSet set({spec("a", {2}, true)}, Precision::named("fp64"), at::kCPU);
  set.add_stacked("a", {"a"});
  set.allocate();
  grad_of(set, "a").copy_(at::tensor({3.0, 4.0}));
  const GradientNorm both = gradient_norm(set, 1, [](const Tensor& partials) { partials.add_(144.0); });
  EXPECT_DOUBLE_EQ(both.norm, 13.0);
  const GradientNorm elsewhere =
      gradient_norm(set, 1, [](const Tensor& partials) { partials.fill_(std::nan("")); });
  EXPECT_FALSE(elsewhere.finite);
  EXPECT_EQ(elsewhere.first_nonfinite, "");
}

}  // namespace
}  // namespace longhaul::optim
