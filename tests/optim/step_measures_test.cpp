// What a step did to the weights: by hand on one process, and the same on any number of ranks.
#include "optim/step_measures.h"

#include <gtest/gtest.h>

#include <cmath>

#include "comm/threads/run_ranks.h"
#include "optim/gradient_norm.h"
#include "parallel/ranks.h"
#include "parameters_for_tests.h"

namespace longhaul::optim {
namespace {

using longhaul::testing::random_tensor;
using namespace longhaul::optim::testing;  // NOLINT: this test's own helpers
using Measured = std::map<std::string, double>;

std::vector<layout::ParameterSpec> measured_specs() {
  std::vector<layout::ParameterSpec> specs = {spec("up", {7, 5}, true), spec("down", {4, 6}, true),
                                              spec("norm", {9}, false)};
  specs[0].split = {.over = layout::SplitOver::kTensor, .dimension = 0};
  specs[1].split = {.over = layout::SplitOver::kTensor, .dimension = 1};
  specs[1].tensor.role = layout::Role::kChannelDown;
  for (layout::ParameterSpec& each : specs) each.layer = 0;
  return specs;
}

Measured measured(const recipe::OptimOptions& options, const parallel::Ranks& ranks,
                  std::map<std::string, Tensor>* before = nullptr,
                  std::map<std::string, Tensor>* after = nullptr) {
  model::ParameterSet set(measured_specs(), Precision::named("fp64"), at::kCPU, model::Use::kTraining,
                          ranks.place());
  for (const auto& each : measured_specs()) set.add_stacked(each.tensor.name, {each.tensor.name});
  set.allocate();
  const auto fill = [&](uint64_t salt) {
    for (const auto& parameter : set.all()) {
      const model::Part& part = parameter->parts[0];
      Tensor box = random_tensor(part.spec.tensor.global_shape, seed_of(part.spec.tensor.name, salt));
      for (size_t d = 0; d < part.held.length.size(); ++d)
        box = box.narrow(static_cast<int64_t>(d), part.held.offset[d], part.held.length[d]);
      parameter->part_of(salt == 0 ? parameter->value.detach() : parameter->grad, 0).copy_(box);
    }
  };
  fill(0);
  const auto optimizer = make_optimizer(options, set, Precision::named("fp64"));
  fill(1);
  const auto keep = [&](std::map<std::string, Tensor>* to) {
    for (const auto& each : set.specs()) {
      if (to != nullptr) (*to)[each.tensor.name] = value_of(set, each.tensor.name).clone();
    }
  };
  keep(before);
  const StepMeasures measures(*optimizer, set);
  optimizer->step({.lr = 1e-2}, [&](layout::AxisSet over, const Tensor& numbers, comm::Reduction how) {
    ranks.reduce_over(over, numbers, how);
  });
  keep(after);
  return measures.of_step([&](const Tensor& numbers, comm::Reduction how) {
    if (ranks.groups() != nullptr)
      ranks.groups()->world().all_reduce(numbers, how, {.name = "measures"}).wait();
  });
}

recipe::OptimOptions measured_by(const char* name) {
  return {.name = name, .beta2 = 0.99, .weight_decay = 0.1};
}

TEST(StepMeasures, AreWhatWeightsSay) {
  std::map<std::string, Tensor> before, after;
  const parallel::Ranks alone;
  const Measured found = measured(measured_by("lamb"), alone, &before, &after);
  double squares = 0, weights = 0;
  for (const auto& [name, tensor] : after) {
    squares += (tensor - before.at(name)).square().sum().item<double>();
    weights += tensor.square().sum().item<double>();
  }
  EXPECT_NEAR(found.at("update_rms"), std::sqrt(squares / 68), 1e-15);
  EXPECT_NEAR(found.at("weight_rms"), std::sqrt(weights / 68), 1e-14);
  EXPECT_NEAR(found.at("weight_norm"), std::sqrt(weights), 1e-13);
  EXPECT_NEAR(found.at("update_rms.channel_down"),
              (after.at("down") - before.at("down")).square().mean().sqrt().item<double>(), 1e-15);
  EXPECT_NEAR(found.at("weight_rms.norm"), after.at("norm").square().mean().sqrt().item<double>(), 1e-14);
  // LAMB moves a matrix by lr times its norm; the step of the norm has no ratio.
  const auto moved = [&](const char* name) {
    return ((after.at(name) - before.at(name)).norm() / before.at(name).norm()).item<double>();
  };
  EXPECT_NEAR(moved("up"), 1e-2, 1e-12);
  std::vector<double> ratios = {1};
  for (const char* name : {"up", "down"}) {
    const Tensor w = before.at(name), g = random_tensor(w.sizes(), seed_of(name, 1));
    const Tensor u = g / (g.abs() + 1e-8) + 0.1 * w;  // after one step m̂ = g and v̂ = g²
    ratios.push_back((w.norm() / u.norm()).item<double>());
  }
  EXPECT_NEAR(found.at("trust_ratio_mean"), (ratios[0] + ratios[1] + ratios[2]) / 3, 1e-9);
  EXPECT_NEAR(found.at("trust_ratio_most"), *std::ranges::max_element(ratios), 1e-9);
  EXPECT_NEAR(found.at("trust_ratio_least"), *std::ranges::min_element(ratios), 1e-9);
  EXPECT_FALSE(found.contains("mean_residual_mean"));
}

// After one step, from the gradients alone: u = g / √(r/mean(r) · c) of a matrix and g / √v of a vector, in
// which all moments are 1 − β2 times the squares, with β2 = 0 for Adafactor's first step.
TEST(StepMeasures, FactorsThatShrinkUpdates) {
  const parallel::Ranks alone;
  for (const auto& [name, beta2] : {std::pair("came", 0.99), std::pair("adafactor", 0.0)}) {
    for (const double clip : {0.9, 1e3}) {
      recipe::OptimOptions options = measured_by(name);
      options.update_clip = clip;
      std::vector<double> factors;
      for (const layout::ParameterSpec& each : measured_specs()) {
        const Tensor g =
            random_tensor(each.tensor.global_shape, seed_of(each.tensor.name, 1)).to(at::kDouble);
        Tensor v = g.square();
        if (g.dim() == 2) v = at::outer(v.mean(1), v.mean(0)) / v.mean();
        const double rms = (g / (v * (1 - beta2)).sqrt()).square().mean().sqrt().item<double>();
        factors.push_back(rms > clip ? clip / rms : 1);
      }
      const Measured found = measured(options, alone);
      SCOPED_TRACE(fmt::format("{}, {}", name, clip));
      EXPECT_NEAR(found.at("update_clip_factor_mean"), (factors[0] + factors[1] + factors[2]) / 3, 1e-12);
      EXPECT_NEAR(found.at("update_clip_factor_most"), *std::ranges::max_element(factors), 1e-12);
      EXPECT_NEAR(found.at("update_clip_factor_least"), *std::ranges::min_element(factors), 1e-12);
      EXPECT_EQ(found.at("update_clip_factor_least") < 1, clip < 1);
    }
  }
}

TEST(StepMeasures, OfRanksAreThoseOfOne) {
  const parallel::Ranks alone;
  for (const char* name : {"adamw", "lamb", "came", "adafactor"}) {
    const Measured whole = measured(measured_by(name), alone);
    EXPECT_EQ(whole.contains("mean_residual_most"), name == std::string("came"));
    EXPECT_EQ(whole.contains("update_clip_factor_most"),
              name == std::string("came") || name == std::string("adafactor"));
    for (const auto& [world, shape, zero] : {std::tuple(2, layout::MeshShape{.tp = 2}, 0),
                                             {3, layout::MeshShape{}, 1},
                                             {4, layout::MeshShape{.tp = 2}, 1}}) {
      std::vector<Measured> of_ranks(static_cast<size_t>(world));
      comm::run_ranks(
          world, [&, world = world, shape = shape, zero = zero](comm::Communicator& communicator) {
            const parallel::Ranks ranks(communicator, {.mesh = layout::Mesh(world, shape), .zero = zero});
            of_ranks[static_cast<size_t>(communicator.rank())] = measured(measured_by(name), ranks);
          });
      for (const Measured& found : of_ranks) {
        ASSERT_EQ(found.size(), whole.size());
        for (const auto& [key, value] : whole)
          EXPECT_NEAR(found.at(key), value, 1e-12 * std::abs(value)) << name << " " << key;
      }
    }
  }
}

}  // namespace
}  // namespace longhaul::optim
