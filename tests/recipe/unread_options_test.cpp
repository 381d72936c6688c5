#include "recipe/sections/unread_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/files/temporary_folder.h"
#include "recipe/options/option.h"
#include "recipe/write.h"

namespace longhaul::recipe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<std::string> unread(std::vector<std::string> words) {
  return unread_options(load_defaults(words));
}

TEST(UnreadOptions, NothingIsSaidOfWhatIsRead) {
  EXPECT_THAT(unread({}), IsEmpty());
  EXPECT_THAT(
      unread({"optim.beta1=0.8", "optim.beta2=0.99", "optim.eps=1e-6", "optim.final_lr_fraction=0.2"}),
      IsEmpty());
  EXPECT_THAT(
      unread({"optim.name=muon", "optim.momentum=0.9", "optim.beta2=0.99", "optim.muon_iterations=3"}),
      IsEmpty())
      << "adamw beside it";
  EXPECT_THAT(unread({"optim.momentum=-1", "optim.nesterov=true"}), IsEmpty()) << "the defaults";
  EXPECT_THAT(unread({R"(optim.group=[{ tensors = ["embedding"], name = "sgd" }])", "optim.momentum=0.5"}),
              IsEmpty())
      << "a group's";
  EXPECT_THAT(
      unread({"optim.outer=co2", "optim.outer_every=4", "optim.outer_clip=0.5", "parallel.workers=2"}),
      IsEmpty());
}

TEST(UnreadOptions, NumbersOfWhatTheRecipeDoesNotHaveAreNamed) {
  EXPECT_THAT(unread({"optim.momentum=0.3"}),
              ElementsAre(HasSubstr("optim.momentum (read by adafactor, sm3, muon, sgd")));
  EXPECT_THAT(unread({"optim.name=sgd", "optim.beta1=0.8"}),
              ElementsAre(HasSubstr("optim.beta1 (read by adamw, lamb, came, lion, muon")));
  EXPECT_THAT(
      unread({"optim.momentum=0.3", "optim.nesterov=false", "optim.beta3=0.5", "optim.muon_iterations=3",
              "optim.lamb_decay=l2", "optim.adafactor_form=torch", "optim.outer_momentum=0.5",
              "optim.outer_gap_value=4", "guard.rollbacks=9", "optim.decay_power=3"}),
      SizeIs(10));
  EXPECT_THAT(
      unread({"optim.outer=slowmo", "optim.outer_every=4", "optim.outer_clip=0.5", "parallel.workers=2"}),
      ElementsAre("optim.outer_clip (read where optim.outer = co2)"));
  EXPECT_THAT(unread({R"(optim.group=[{ tensors = ["embedding"], name = "sgd", beta2 = 0.9 }])"}),
              ElementsAre("beta2 of optim.group, entry 1 (sgd has none)"));
}

TEST(UnreadOptions, OfSchedules) {
  EXPECT_THAT(unread({"optim.schedule=one_cycle", "optim.warmup_steps=7", "optim.warmup_from=0.5",
                      "optim.final_lr_fraction=0.5", "optim.decay_steps=7", "optim.restart_steps=7"}),
              ElementsAre(HasSubstr("optim.warmup_steps"), HasSubstr("optim.warmup_from"),
                          HasSubstr("optim.decay_steps"), HasSubstr("optim.final_lr_fraction"),
                          HasSubstr("optim.restart_steps")));
  EXPECT_THAT(unread({"optim.schedule=one_cycle", "optim.cycle_rise=0.2", "optim.cycle_symmetric=true"}),
              IsEmpty());
  EXPECT_THAT(unread({"optim.schedule=cosine_restarts", "optim.restart_steps=7", "optim.restart_factor=2",
                      "optim.warmup_steps=7", "optim.warmup_from=0.5", "optim.final_lr_fraction=0.5"}),
              IsEmpty());
  EXPECT_THAT(unread({"optim.schedule=cosine_restarts", "optim.restart_steps=7", "optim.decay_steps=7",
                      "optim.cycle_rise=0.2"}),
              ElementsAre(HasSubstr("optim.decay_steps"), HasSubstr("optim.cycle_rise")));
}

// Stages of one training build on the first one's recipe, and have other schedules.
TEST(UnreadOptions, WhatARecipeBuildsOnIsForOthersToo) {
  const longhaul::TemporaryFolder folder;  // a neighbour has one of this name
  std::ofstream(folder / "first.toml")
      << "[optim]\nschedule = \"wsd\"\ndecay_steps = 5\nfinal_lr_fraction = 0.3\n";
  std::ofstream(folder / "second.toml")
      << "base = \"first.toml\"\n[optim]\nschedule = \"constant\"\nmomentum = 0.5\n";
  EXPECT_THAT(unread_options(load(folder / "first.toml")), IsEmpty());
  EXPECT_THAT(unread_options(load(folder / "second.toml")), ElementsAre(HasSubstr("optim.momentum")));
}

// A run goes on from its own recipe.toml, in which every value stands: only what somebody had said counts.
TEST(UnreadOptions, ARecipeThatWasWrittenByARunSaysNoMoreThanItsAuthorDid) {
  EXPECT_THAT(unread_options(load_text(to_toml(load_defaults({})), "recipe.toml")), IsEmpty());
  EXPECT_THAT(unread_options(load_text(to_toml(load_defaults({"optim.momentum=0.3"})), "recipe.toml")),
              SizeIs(1));
}

}  // namespace
}  // namespace longhaul::recipe
