// optim.group: which optimizer a tensor has, with which numbers, and what is refused.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/error.h"
#include "optim/optimizer.h"
#include "optim/optimizers/grouped.h"
#include "parameters_for_tests.h"
#include "recipe/sections/optim_groups.h"

namespace longhaul::optim {
namespace {

using namespace longhaul::optim::testing;  // NOLINT: this test's own helpers
using recipe::Role;

std::string optimizer_of(const recipe::OptimOptions& options, Role role, int64_t layer,
                         const layout::Shape& shape) {
  return recipe::optim_rule(options, recipe::rule_of(options, role, layer, shape)).options.name;
}

TEST(Groups, MuonHasMatricesOfLayersAndAdamwTheRest) {
  const recipe::OptimOptions muon{.name = "muon"};
  EXPECT_EQ(optimizer_of(muon, Role::kQuery, 0, {4, 4}), "muon");
  EXPECT_EQ(optimizer_of(muon, Role::kExpertUp, 3, {4, 4}), "muon");
  EXPECT_EQ(optimizer_of(muon, Role::kQuery, 0, {4}), "adamw") << "a vector";
  for (const Role role : {Role::kEmbedding, Role::kHead, Role::kPosition})
    EXPECT_EQ(optimizer_of(muon, role, -1, {9, 4}), "adamw");
  for (const Role role : {Role::kRouter, Role::kLowerBound})
    EXPECT_EQ(optimizer_of(muon, role, 0, {9, 4}), "adamw");
}

TEST(Groups, TheFirstThatNamesARoleHasIt) {
  const recipe::OptimOptions options{
      .name = "came",
      .weight_decay = 0.1,
      .groups = {
          {.tensors = {Role::kEmbedding, Role::kHead}, .name = "adamw", .lr_factor = 0.5, .beta2 = 0.9},
          {.tensors = {Role::kHead, Role::kQuery}, .name = "muon", .weight_decay = 0}}};
  EXPECT_EQ(optimizer_of(options, Role::kHead, -1, {9, 4}), "adamw");
  EXPECT_EQ(optimizer_of(options, Role::kQuery, 0, {4, 4}), "muon");
  EXPECT_EQ(optimizer_of(options, Role::kQuery, 0, {4}), "adamw") << "beside a muon of a group";
  EXPECT_EQ(optimizer_of(options, Role::kKey, 0, {4, 4}), "came");
  const recipe::OptimRule first =
      recipe::optim_rule(options, recipe::rule_of(options, Role::kEmbedding, -1, {9, 4}));
  EXPECT_EQ(first.lr_factor, 0.5);
  EXPECT_EQ(first.options.beta2, 0.9);
  EXPECT_EQ(first.options.weight_decay, 0.1);
  EXPECT_EQ(
      recipe::optim_rule(options, recipe::rule_of(options, Role::kQuery, 0, {4, 4})).options.weight_decay, 0);
}

// A value that tensors of two optimizers share: each part is updated as it would be alone, and every gradient
// is zero afterwards.
TEST(Groups, PartsOfOneValueMayDiffer) {
  std::vector<layout::ParameterSpec> specs = {spec("query", {5, 7}, true), spec("key", {3, 7}, true),
                                              spec("norm", {37}, false)};
  specs[0].tensor.role = Role::kQuery;
  specs[1].tensor.role = Role::kKey;
  const auto run = [&](const recipe::OptimOptions& options) {
    model::ParameterSet set(specs, Precision::named("bf16"), at::kCPU);
    set.add_stacked("query_key", {"query", "key"});
    set.add_stacked("norm", {"norm"});
    set.allocate();
    fill_values(set);
    const auto optimizer = make_optimizer(options, set, Precision::named("bf16"));
    for (uint64_t step = 1; step <= 3; ++step) {
      fill_gradients(set, step);
      optimizer->step({.lr = 1e-2});
      for (const auto& each : specs)
        EXPECT_EQ(grad_of(set, each.tensor.name).abs().max().item<double>(), 0) << each.tensor.name;
    }
    std::map<std::string, Tensor> values;
    for (const auto& each : specs) values[each.tensor.name] = value_of(set, each.tensor.name).clone();
    return values;
  };
  auto adamw = run({}), lion = run({.name = "lion"}), came = run({.name = "came"});
  auto mixed = run(
      {.groups = {{.tensors = {Role::kKey}, .name = "lion"}, {.tensors = {Role::kNorm}, .name = "came"}}});
  EXPECT_TRUE(mixed["query"].equal(adamw["query"]));
  EXPECT_TRUE(mixed["key"].equal(lion["key"]));
  EXPECT_TRUE(mixed["norm"].equal(came["norm"]));
  // Two halves of a learning rate.
  auto slow = run({.groups = {{.tensors = {Role::kKey}, .lr_factor = 0}}});
  model::ParameterSet start({specs[1]}, Precision::named("bf16"), at::kCPU);
  start.add_stacked("key", {"key"});
  start.allocate();
  fill_values(start);
  EXPECT_TRUE(slow["key"].equal(value_of(start, "key"))) << "a learning rate of 0";
}

TEST(Groups, RefusesEntriesAboutNothing) {
  const std::vector<Role> roles = {Role::kEmbedding, Role::kQuery, Role::kNorm};
  const auto refused = [&](std::vector<recipe::OptimGroup> groups) {
    try {
      recipe::check_groups({.groups = std::move(groups)}, roles);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refused({{.tensors = {Role::kQuery, Role::kRouter}}}), "");
  EXPECT_NE(refused({{.tensors = {Role::kRouter}}}).find("router"), std::string::npos);
  EXPECT_NE(refused({{.tensors = {}}}), "");
  EXPECT_NE(refused({{.tensors = {Role::kQuery}}, {.tensors = {Role::kQuery}}}).find("entry 2"),
            std::string::npos);
}

// A run that stopped and goes on is the run that did not: states and steps of every optimizer, to the bit.
TEST(Groups, EveryOptimizerGoesOnToTheBit) {
  for (const char* name : {"adamw", "lamb", "came", "adafactor", "lion", "sm3", "muon", "sgd"}) {
    recipe::OptimOptions options{.name = name, .momentum = 0.9};
    auto through = fused_set(Precision::named("bf16")), resumed = fused_set(Precision::named("bf16"));
    fill_values(through);
    const auto first = make_optimizer(options, through, Precision::named("bf16"));
    const auto train = [](Optimizer& optimizer, const model::ParameterSet& set, uint64_t from, uint64_t to) {
      for (uint64_t step = from; step <= to; ++step) {
        fill_gradients(set, step);
        optimizer.step({.lr = 1e-2});
      }
    };
    train(*first, through, 1, 3);
    const auto second = make_optimizer(options, resumed, Precision::named("bf16"));
    const auto saved = first->state(), loaded = second->state();
    ASSERT_EQ(saved.size(), loaded.size());
    for (size_t i = 0; i < saved.size(); ++i) loaded[i].view.copy_(saved[i].view);
    second->set_steps(first->steps());
    second->refresh_values();
    train(*first, through, 4, 6);
    train(*second, resumed, 4, 6);
    for (const auto& each : small_specs())
      EXPECT_TRUE(same_bits(value_of(through, each.tensor.name), value_of(resumed, each.tensor.name)))
          << name << " " << each.tensor.name;
  }
}

// A step's factor on weight decay is as if the option were that much less.
TEST(Groups, EveryOptimizerDecaysWeightsByTheStepsFactor) {
  for (const char* name : {"adamw", "lamb", "came", "adafactor", "lion", "sm3", "muon", "sgd"}) {
    for (const auto lamb_decay : {recipe::LambDecay::kDecoupled, recipe::LambDecay::kL2}) {
      std::vector<Tensor> ends;
      for (const auto& [weight_decay, factor] : {std::pair(0.5, 0.25), {0.125, 1.0}, {0.5, 1.0}}) {
        layout::ParameterSpec matrix = spec("w", {9, 7}, true);
        matrix.layer = 0;  // or it would not be muon's
        model::ParameterSet set({matrix}, Precision::named("fp64"), at::kCPU);
        set.add_stacked("w", {"w"});
        set.allocate();
        fill_values(set);
        const auto optimizer =
            make_optimizer({.name = name, .lamb_decay = lamb_decay, .weight_decay = weight_decay}, set,
                           Precision::named("fp64"));
        for (uint64_t step = 1; step <= 2; ++step) {
          fill_gradients(set, step);
          optimizer->step({.lr = 1e-2, .decay_factor = factor});
        }
        ends.push_back(value_of(set, "w").clone());
      }
      EXPECT_TRUE(same_bits(ends[0], ends[1])) << name;
      EXPECT_FALSE(same_bits(ends[0], ends[2])) << name;
    }
  }
}

}  // namespace
}  // namespace longhaul::optim
