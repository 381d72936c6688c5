// muP's table: what each kind of tensor begins with and how fast it learns, at the base and wider.
#include "layout/width.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/error.h"
#include "recipe/check.h"
#include "recipe/recipe.h"

namespace longhaul::layout {
namespace {

using Width = ParameterSpec::Width;

recipe::ModelConfig model_of(int64_t hidden, int64_t base,
                             recipe::Initialisation initialisation = recipe::Initialisation::kNormal) {
  recipe::ModelConfig config;
  config.layers = 3;
  config.mixers = {recipe::Mixer::kSoftmax, recipe::Mixer::kGla, recipe::Mixer::kMixture};
  config.hidden = hidden;
  config.heads = hidden / 16;
  config.softmax.kv_heads = hidden / 32;
  config.head_dim = 16;
  config.intermediate = 2 * hidden;
  config.experts = 4;
  config.shared_experts = 1;
  config.predict_ahead = 1;
  config.initialisation = initialisation;
  config.mup_base_hidden = base;
  return config;
}

std::map<std::string, ParameterSpec> named(const recipe::ModelConfig& config) {
  std::map<std::string, ParameterSpec> found;
  for (ParameterSpec& spec : parameters(config)) found.emplace(spec.tensor.name, spec);
  return found;
}

TEST(Width, WhichSideOfATensorGrows) {
  const auto specs = named(model_of(128, 32));
  const std::pair<const char*, Width> expected[] = {
      {"embedding.weight", Width::kInput},
      {"head.weight", Width::kHead},
      {"norm.weight", Width::kVector},
      {"layers.0.mixer.query.weight", Width::kHidden},
      {"layers.0.mixer.output.weight", Width::kHidden},
      {"layers.0.router.weight", Width::kHidden},
      {"layers.0.experts.3.down.weight", Width::kHidden},
      {"layers.0.shared.gate.weight", Width::kHidden},
      {"layers.1.mixer.forget_down.weight", Width::kHidden},
      {"layers.1.mixer.forget_up.weight", Width::kInput},
      {"layers.1.mixer.forget_up.bias", Width::kVector},
      {"layers.2.mixer.linear.forget_up.weight", Width::kInput},
      {"ahead.0.join.weight", Width::kHidden},
  };
  for (const auto& [name, width] : expected) {
    ASSERT_TRUE(specs.contains(name)) << name;
    EXPECT_EQ(specs.at(name).width, width) << name;
    EXPECT_EQ(specs.at(name).width_factor, 4) << name;
  }
}

TEST(Width, BeginningsAreThoseOfTheBaseScaledByTheTable) {
  const auto base = named(model_of(32, 32)), wide = named(model_of(128, 32)), plain = named(model_of(32, 0));
  for (const auto& [name, spec] : wide) {
    if (spec.init.kind != Init::Kind::kNormal || spec.width == Width::kVector) continue;
    const double m = spec.width == Width::kHidden ? std::sqrt(4.0) : 1;
    EXPECT_NEAR(spec.init.std, base.at(name).init.std / m, 1e-15) << name;
  }
  for (const auto& [name, spec] : base)
    EXPECT_EQ(spec.init.std, plain.at(name).init.std) << name << ": at the base nothing changes";
  // Xavier's standard deviations of hidden matrices fall with width by themselves, those of tables and of
  // what comes from a low rank must not.
  const auto kXavier = recipe::Initialisation::kXavierDeepnorm;
  const auto small = named(model_of(32, 32, kXavier)), large = named(model_of(128, 32, kXavier));
  for (const char* name : {"embedding.weight", "head.weight"})
    EXPECT_NEAR(large.at(name).init.std, small.at(name).init.std, 1e-15) << name;
  EXPECT_NEAR(large.at("layers.0.mixer.query.weight").init.std,
              small.at("layers.0.mixer.query.weight").init.std / 2, 1e-15);
  EXPECT_NEAR(large.at("layers.1.mixer.forget_up.weight").init.std,
              small.at("layers.1.mixer.forget_up.weight").init.std, 1e-15);
}

TEST(Width, LearningRatesFollowTheOptimizersRule) {
  const auto factor = [](Width width, recipe::OptimOptions optimizer) {
    return lr_factor_of_width(width, 4, optimizer);
  };
  for (const char* name : {"adamw", "lion", "came"}) {
    EXPECT_EQ(factor(Width::kHidden, {.name = name}), 0.25) << name;
    for (const Width width : {Width::kVector, Width::kInput, Width::kHead})
      EXPECT_EQ(factor(width, {.name = name}), 1) << name;
  }
  EXPECT_EQ(factor(Width::kHidden, {.name = "sgd"}), 1);
  for (const Width width : {Width::kVector, Width::kInput, Width::kHead})
    EXPECT_EQ(factor(width, {.name = "sgd"}), 4);
  EXPECT_EQ(factor(Width::kHidden, {.name = "muon"}), 0.5);
  EXPECT_EQ(factor(Width::kHidden, {.name = "muon", .muon_scale = recipe::MuonScale::kOriginal}), 1);
  EXPECT_EQ(factor(Width::kHidden, {.name = "adafactor", .scale_by_weights = false, .relative_step = false}),
            0.25);
}

TEST(Width, OptimizersWithoutARuleAreRefused) {
  recipe::Recipe recipe;
  recipe.model.mup_base_hidden = 128;
  const auto refused = [&](const char* name) {
    recipe.optim.name = name;
    for (const recipe::Problem& problem : recipe::problems(recipe)) {
      if (problem.reason.find("no published rule") != std::string::npos) return true;
    }
    return false;
  };
  for (const char* name : {"lamb", "sm3", "adafactor"}) EXPECT_TRUE(refused(name)) << name;
  for (const char* name : {"adamw", "lion", "came", "sgd", "muon"}) EXPECT_FALSE(refused(name)) << name;
  recipe.optim.name = "adamw";
  recipe.optim.groups = {{.tensors = {recipe::Role::kHead}, .name = "lamb"}};
  EXPECT_TRUE(refused("adamw")) << "of a group";
}

}  // namespace
}  // namespace longhaul::layout
