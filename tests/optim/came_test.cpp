// Known values: docs/sources/optimizers.md §12, worked out in fp64 apart from this code.
#include "optim/optimizers/came.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>

#include "base/error.h"
#include "parameters_for_tests.h"
#include "recipe/optimizers/optimizers.h"

namespace longhaul::optim {
namespace {

using longhaul::testing::random_tensor;
using longhaul::testing::relative_error;
using namespace longhaul::optim::testing;  // NOLINT: this test's own helpers

recipe::OptimOptions published() {
  return {.name = "came", .beta1 = 0.9, .beta2 = 0.999, .beta3 = 0.9999, .weight_decay = 1e-2};
}

Tensor matrix(std::vector<double> numbers) { return at::tensor(numbers, at::kDouble).view({2, 3}); }

Tensor state_of(Optimizer& optimizer, const std::string& kind) {
  for (const StateTensor& each : optimizer.state()) {
    if (each.kind == kind) return each.view;
  }
  return {};
}

TEST(Came, KnownValuesOfAMatrix) {
  const Tensor gradients[] = {matrix({0.1, -0.2, 0.3, -0.4, 0.5, -0.6}),
                              matrix({0.2, 0.1, -0.3, 0.05, -0.15, 0.25}),
                              matrix({-0.1, 0.4, 0.2, 0.3, 0, -0.5})};
  const Tensor expected[] = {
      matrix({0.41672837, -0.137401411, -0.00020941932, -0.869943019, 0.640054797, 0.397722314}),
      matrix({0.26754805, -0.120053443, 0.0227571187, -0.801155088, 0.600206017, 0.414775889}),
      matrix({0.186912474, -0.206532609, 0.00713181483, -0.830110349, 0.575086121, 0.501986963})};
  for (const char* dtype : {"fp64", "fp32"}) {
    model::ParameterSet set({spec("w", {2, 3}, true)}, Precision::named(dtype), at::kCPU);
    set.add_stacked("w", {"w"});
    set.allocate();
    value_of(set, "w").copy_(matrix({0.5, -0.25, 0.125, -1, 0.75, 0.3}));
    Came optimizer(published(), {set, Precision::named(dtype)});
    for (int step = 0; step < 3; ++step) {
      grad_of(set, "w").copy_(gradients[step] * 4);
      optimizer.step({.lr = 1e-2, .gradient_scale = 0.25});
      EXPECT_LT(relative_error(value_of(set, "w"), expected[step]), 1e-6) << dtype << " " << step;
      EXPECT_TRUE(grad_of(set, "w").eq(0).all().item<bool>());
    }
    const auto near = [&](const char* kind, const std::vector<double>& known) {
      EXPECT_LT(relative_error(state_of(optimizer, kind).reshape({-1}), at::tensor(known, at::kDouble)), 1e-5)
          << dtype << " " << kind;
    };
    near("row_mean", {1.6319338e-4, 3.98624423e-4});
    near("column_mean", {1.56058835e-4, 2.40943895e-4, 4.45723975e-4});
    near("row_residual", {3.35298121e-4, 1.82102457e-4});
    near("column_residual", {2.42360037e-4, 2.5244048e-4, 2.81300349e-4});
    near("momentum", {0.142866424, 0.156447411, 0.0298309754, 0.0379242872, 0.0334054909, -0.122778611});
  }
}

// What the first step subtracts, over the learning rate: docs/sources/optimizers.md §12, from two learning
// rates, so that no weight has a part in it.
TEST(Came, FirstDirection) {
  const Tensor expected = matrix({8.32216295, -11.2573589, 12.5196919, -12.9956981, 10.9870203, -9.77523138});
  std::vector<Tensor> ends;
  for (const double lr : {0.0, 0.5}) {
    model::ParameterSet set({spec("w", {2, 3}, true)}, Precision::named("fp64"), at::kCPU);
    set.add_stacked("w", {"w"});
    set.allocate();
    value_of(set, "w").copy_(matrix({0.5, -0.25, 0.125, -1, 0.75, 0.3}));
    recipe::OptimOptions options = published();
    options.weight_decay = 0;
    Came optimizer(options, {set, Precision::named("fp64")});
    grad_of(set, "w").copy_(matrix({0.1, -0.2, 0.3, -0.4, 0.5, -0.6}));
    optimizer.step({.lr = lr});
    ends.push_back(value_of(set, "w").clone());
  }
  EXPECT_LT(relative_error((ends[0] - ends[1]) / 0.5, expected), 1e-8);
}

TEST(Came, KnownValuesOfAVector) {
  model::ParameterSet set({spec("w", {3}, true)}, Precision::named("fp64"), at::kCPU);
  set.add_stacked("w", {"w"});
  set.allocate();
  value_of(set, "w").copy_(at::tensor({0.5, -0.25, 0.125}, at::kDouble));
  Came optimizer(published(), {set, Precision::named("fp64")});
  const std::vector<double> gradients[] = {{0.1, -0.2, 0.3}, {0.2, 0.1, -0.3}, {-0.1, 0.4, 0.2}};
  const std::vector<double> expected[] = {{0.49895, -0.248975, 0.1239875},
                                          {0.496735308, -0.248682691, 0.124075161},
                                          {0.495408474, -0.249851737, 0.123451727}};
  for (int step = 0; step < 3; ++step) {
    grad_of(set, "w").copy_(at::tensor(gradients[step], at::kDouble));
    optimizer.step({.lr = 1e-2});
    EXPECT_LT(relative_error(value_of(set, "w"), at::tensor(expected[step], at::kDouble)), 1e-8) << step;
  }
  EXPECT_THAT(optimizer.state(), ::testing::SizeIs(3)) << "master, momentum, second moment";
}

// Corrected, the directions that the published steps have are √(1 − β3^t) as long; vectors, which have no
// residuals, stay.
TEST(Came, CorrectedResidualsShortenEarlySteps) {
  recipe::OptimOptions options = published();
  options.correct_residuals = true;
  const Tensor start = matrix({0.5, -0.25, 0.125, -1, 0.75, 0.3});
  const Tensor gradients[] = {matrix({0.1, -0.2, 0.3, -0.4, 0.5, -0.6}),
                              matrix({0.2, 0.1, -0.3, 0.05, -0.15, 0.25})};
  // Behind one step and two, as published.
  const Tensor known[] = {
      start, matrix({0.41672837, -0.137401411, -0.00020941932, -0.869943019, 0.640054797, 0.397722314}),
      matrix({0.26754805, -0.120053443, 0.0227571187, -0.801155088, 0.600206017, 0.414775889})};
  constexpr double kKept = 1 - 1e-2 * 1e-2;
  for (const auto implementation :
       {MatrixImplementation::kAutomatic, MatrixImplementation::kTensorOperations}) {
    model::ParameterSet set({spec("w", {2, 3}, true), spec("norm", {3}, true)}, Precision::named("fp64"),
                            at::kCPU);
    set.add_stacked("w", {"w"}), set.add_stacked("norm", {"norm"});
    set.allocate();
    value_of(set, "w").copy_(start), value_of(set, "norm").copy_(start[0]);
    Came optimizer(options, {set, Precision::named("fp64")}, implementation);
    Tensor expected = start;
    for (int step = 0; step < 2; ++step) {
      grad_of(set, "w").copy_(gradients[step]), grad_of(set, "norm").copy_(gradients[step][0]);
      optimizer.step({.lr = 1e-2});
      const Tensor published_step = known[step] * kKept - known[step + 1];
      expected = expected * kKept - published_step * std::sqrt(1 - std::pow(0.9999, step + 1));
      EXPECT_LT(relative_error(value_of(set, "w"), expected), 1e-8) << step;
    }
    EXPECT_LT(relative_error(value_of(set, "norm"),
                             at::tensor({0.496735308, -0.248682691, 0.124075161}, at::kDouble)),
              1e-8);
  }
}

// Scaling the gradient changes nothing while squares are far above ε1; transposing weight and gradient
// transposes the result.
TEST(Came, Invariances) {
  const Tensor w = random_tensor({6, 4}, 1);
  const auto run = [&](const Tensor& start, double scale, bool transposed) {
    model::ParameterSet set({spec("w", start.sizes().vec(), true)}, Precision::named("fp64"), at::kCPU);
    set.add_stacked("w", {"w"});
    set.allocate();
    value_of(set, "w").copy_(start);
    Came optimizer(published(), {set, Precision::named("fp64")});
    for (uint64_t step = 1; step <= 5; ++step) {
      const Tensor g = random_tensor({6, 4}, 100 + step) * scale;
      grad_of(set, "w").copy_(transposed ? g.t() : g);
      optimizer.step({.lr = 1e-2});
    }
    return value_of(set, "w").clone();
  };
  const Tensor plain = run(w, 1, false);
  EXPECT_LT(relative_error(run(w, 1000, false), plain), 1e-12);
  EXPECT_LT(relative_error(run(w.t(), 1, true).t(), plain), 1e-12);
}

// A working copy in bf16 is the rounding of the master, and what the plan counts is what there is.
TEST(Came, KeepsAMasterBesideBf16AndAsMuchStateAsItsEntrySays) {
  model::ParameterSet set = fused_set(Precision::named("bf16"));
  fill_values(set);
  const auto optimizer = make_optimizer(published(), set, Precision::named("bf16"));
  fill_gradients(set, 1);
  optimizer->step({.lr = 1e-2});
  std::map<std::string, int64_t> state;
  for (const StateTensor& each : optimizer->state()) {
    if (each.kind == "master")
      EXPECT_TRUE(value_of(set, each.name).equal(each.view.to(value_of(set, each.name).scalar_type())))
          << each.name;
    else
      state[each.name] += each.view.numel();
  }
  for (const auto& each : small_specs())
    EXPECT_EQ(state[each.tensor.name], recipe::state_elements(published(), each.tensor.global_shape).total());
}

}  // namespace
}  // namespace longhaul::optim
