// The entries of optimizers: what the options, the states and the plan of memory take from them, beside
// numbers written by hand.
#include "recipe/optimizers/optimizers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "recipe/check.h"
#include "recipe/options/option.h"
#include "recipe/sections/optim_groups.h"

namespace longhaul::recipe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const OptimizerOption& option_named(std::string_view optimizer, std::string_view name) {
  for (const OptimizerOption* option : optimizer_entry(optimizer).options) {
    if (option->name == name) return *option;
  }
  throw std::out_of_range(std::string(name));
}

// Of a matrix [10, 30] and a vector [10], with the published momentum and with none: elements of first
// moments, of second moments, and numbers of rows and columns.
TEST(Optimizers, KeepWhatTheirPublicationsSay) {
  struct Kept {
    StateElements matrix, vector, without;
  };
  const std::map<std::string, Kept> expected = {{"adamw", {{300, 300, 0}, {10, 10, 0}, {300, 300, 0}}},
                                                {"lamb", {{300, 300, 0}, {10, 10, 0}, {300, 300, 0}}},
                                                {"came", {{300, 0, 80}, {10, 10, 0}, {300, 0, 80}}},
                                                {"adafactor", {{0, 0, 40}, {0, 10, 0}, {0, 0, 40}}},
                                                {"lion", {{300, 0, 0}, {10, 0, 0}, {300, 0, 0}}},
                                                {"sm3", {{300, 0, 40}, {10, 10, 0}, {0, 0, 40}}},
                                                {"muon", {{300, 0, 0}, {10, 0, 0}, {300, 0, 0}}},
                                                {"sgd", {{300, 0, 0}, {10, 0, 0}, {0, 0, 0}}}};
  ASSERT_EQ(optimizers().size(), expected.size());
  const auto numbers = [](const StateElements& each) {
    return std::vector{each.first, each.second, each.factors};
  };
  for (const auto& [name, kept] : expected) {
    EXPECT_EQ(numbers(state_elements({.name = name}, {10, 30})), numbers(kept.matrix)) << name;
    EXPECT_EQ(numbers(state_elements({.name = name}, {10})), numbers(kept.vector)) << name;
    EXPECT_EQ(numbers(state_elements({.name = name, .momentum = 0}, {10, 30})), numbers(kept.without))
        << name;
  }
  EXPECT_EQ(state_elements({.name = "adafactor", .momentum = 0.9}, {10, 30}).first, 300);
}

TEST(Optimizers, MomentaAreThePublishedOnesUnlessARecipeSaysOtherwise) {
  const std::map<std::string, double> published = {
      {"sgd", 0.9}, {"sm3", 0.9}, {"muon", 0.95}, {"adafactor", 0}};
  for (const auto& [name, momentum] : published) {
    EXPECT_EQ(momentum_of({.name = name}), momentum) << name;
    EXPECT_EQ(momentum_of({.name = name, .momentum = 0.25}), 0.25) << name;
    EXPECT_EQ(momentum_of({.name = name, .momentum = 0}), 0) << name;
  }
}

// Every option of an entry is one of [optim], bound to the field that the entry names, with its range.
TEST(Optimizers, OptionsOfEntriesAreThoseOfRecipes) {
  Recipe recipe;
  const OptionSet options = options_of(recipe);
  for (const OptimizerEntry* entry : optimizers()) {
    std::set<std::string_view> once;
    for (const OptimizerOption* option : entry->options) {
      SCOPED_TRACE(std::string(entry->name) + " " + std::string(option->name));
      EXPECT_TRUE(once.insert(option->name).second);
      const Option* declared = options.find("optim." + std::string(option->name));
      ASSERT_NE(declared, nullptr);
      const std::string before = declared->get().toml();
      if (declared->kind == Kind::kEnum) {
        EXPECT_EQ(option->most, static_cast<double>(declared->choices.size()) - 1);
      } else if (declared->kind == Kind::kBool) {
        EXPECT_EQ(option->most, 1);
      } else {
        EXPECT_EQ(declared->minimum, option->published ? -1 : option->least);
        EXPECT_EQ(declared->maximum, option->most);
        EXPECT_EQ(declared->minimum_allowed, !option->above);
      }
      const double initial = number_of(recipe.optim, *option);
      set_number(recipe.optim, *option, option->most);
      EXPECT_EQ(number_of(recipe.optim, *option), option->most);
      if (initial != option->most) {
        EXPECT_NE(declared->get().toml(), before) << "another field";
      }
      set_number(recipe.optim, *option, initial);
      EXPECT_EQ(declared->get().toml(), before);
    }
  }
}

TEST(Optimizers, SentencesNameWhoReadsAnOption) {
  Recipe recipe;
  const OptionSet options = options_of(recipe);
  const auto help = [&](const char* name) { return options.find(name)->help; };
  EXPECT_THAT(help("optim.momentum"), ::testing::StartsWith("adafactor, sm3, muon, sgd"));
  EXPECT_THAT(
      help("optim.momentum"),
      HasSubstr(": decay of the momentum per step, 0: none is kept; -1: as published (adafactor 0, sm3 "
                "0.9, muon 0.95, sgd 0.9"));
  EXPECT_THAT(help("optim.sign_fade"), ::testing::StartsWith("lion: size below"));
  EXPECT_THAT(help("optim.weight_decay"), ::testing::StartsWith("Decoupled")) << "all read it";
  EXPECT_THAT(help("optim.name"), HasSubstr("; sgd keeps one momentum"));
}

TEST(Optimizers, WhatStandsBesideAnOptimizerIsReadToo) {
  EXPECT_TRUE(reads(optimizer_entry("muon"), "eps")) << "adamw's";
  EXPECT_FALSE(reads(optimizer_entry("muon"), "beta3"));
  EXPECT_THAT(readers_of(option_named("adamw", "eps")), ElementsAre("adamw", "lamb"));
}

TEST(Optimizers, NumbersOfOptionsAreFlagsAndPlacesInEnumerations) {
  OptimOptions options;
  set_number(options, option_named("lamb", "lamb_decay"), 1);
  set_number(options, option_named("adafactor", "adafactor_form"), 2);
  set_number(options, option_named("muon", "muon_iterations"), 7);
  set_number(options, option_named("muon", "nesterov"), 0);
  set_number(options, option_named("adamw", "eps"), 0.25);
  EXPECT_EQ(options.lamb_decay, LambDecay::kL2);
  EXPECT_EQ(options.adafactor_form, AdafactorForm::kBigVision);
  EXPECT_EQ(options.muon_iterations, 7);
  EXPECT_FALSE(options.nesterov);
  EXPECT_EQ(options.eps, 0.25);
  EXPECT_EQ(number_of(options, option_named("adafactor", "adafactor_form")), 2);
}

std::vector<std::string> keys_refused(const OptimOptions& optim) {
  Recipe recipe;
  recipe.optim = optim;
  std::vector<std::string> keys;
  for (const Problem& problem : problems(recipe)) keys.push_back(problem.keys.front() + " " + problem.hint);
  return keys;
}

TEST(Optimizers, SchedulesAreRefusedWithoutWhatTheyNeed) {
  EXPECT_THAT(keys_refused({.schedule = Schedule::kCosineRestarts}),
              ElementsAre(::testing::StartsWith("optim.schedule optim.restart_steps=")));
  EXPECT_THAT(keys_refused({.schedule = Schedule::kCosineRestarts, .restart_steps = 1}), IsEmpty());
  OptimOptions cycle{.schedule = Schedule::kOneCycle, .cycle_rise = 0.6};
  EXPECT_THAT(keys_refused(cycle), IsEmpty());
  cycle.cycle_symmetric = true;
  EXPECT_THAT(keys_refused(cycle), ElementsAre("optim.cycle_rise optim.cycle_rise=0.45"));
  cycle.cycle_rise = 0.5;
  EXPECT_THAT(keys_refused(cycle), IsEmpty());
  EXPECT_THAT(keys_refused({.cycle_rise = 0.6, .cycle_symmetric = true}), IsEmpty()) << "cosine has no cycle";
}

TEST(Optimizers, RecipesAreRefusedWhoseNumbersAnOptimizerCannotTake) {
  EXPECT_THAT(keys_refused({.name = "lamb", .lamb_min_ratio = 2, .lamb_max_ratio = 1}),
              ElementsAre("optim.lamb_min_ratio optim.lamb_min_ratio=0"));
  EXPECT_THAT(keys_refused({.name = "lamb", .lamb_min_ratio = 2}), IsEmpty()) << "0 is no bound";
  EXPECT_THAT(keys_refused({.name = "lamb", .lamb_min_ratio = 2, .lamb_max_ratio = 2}), IsEmpty());
  EXPECT_THAT(keys_refused({.name = "adafactor", .momentum = 0.5, .adafactor_form = AdafactorForm::kTorch}),
              ElementsAre("optim.momentum optim.momentum=0"));
  EXPECT_THAT(keys_refused({.momentum = 0.5, .adafactor_form = AdafactorForm::kTorch}), IsEmpty())
      << "adamw reads neither";
  EXPECT_THAT(keys_refused({.momentum = 0.5,
                            .adafactor_form = AdafactorForm::kTorch,
                            .groups = {{.tensors = {Role::kEmbedding}, .name = "adafactor"}}}),
              ElementsAre("optim.momentum optim.momentum=0"));
}

// An optimizer of whole matrices has those of layers; the tensors that are none go to the one beside it.
TEST(Optimizers, TensorsThatAreNoMatricesGoToTheOneBeside) {
  const OptimOptions muon{.name = "muon"}, lion{.name = "lion"};
  const auto name_for = [](const OptimOptions& optim, Role role, int64_t layer, std::vector<int64_t> shape) {
    return optim_rule(optim, rule_of(optim, role, layer, shape)).options.name;
  };
  EXPECT_EQ(name_for(muon, Role::kQuery, 0, {4, 6}), "muon");
  EXPECT_EQ(name_for(muon, Role::kRouter, 0, {4, 6}), "adamw");
  EXPECT_EQ(name_for(muon, Role::kNorm, 0, {4}), "adamw");
  EXPECT_EQ(name_for(muon, Role::kEmbedding, -1, {4, 6}), "adamw");
  EXPECT_EQ(name_for(lion, Role::kNorm, 0, {4}), "lion");
}

}  // namespace
}  // namespace longhaul::recipe
