#include "run/start_warnings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recipe/mixers.h"

namespace longhaul::run {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

recipe::Recipe usual() {
  recipe::Recipe recipe;
  recipe.train.steps = 1000;
  recipe.train.batch = 4;
  recipe.train.sequence = 512;
  recipe.optim.lr = 1e-3;
  recipe.optim.warmup_steps = 100;
  return recipe;
}

TEST(StartWarnings, NothingIsSaidOfAnOrdinaryRun) {
  EXPECT_THAT(start_warnings(usual(), {.training_tokens = 2048}), IsEmpty());
  EXPECT_THAT(start_warnings(usual(), {.training_tokens = 1'000'000, .resume_step = 600, .earlier = usual()}),
              IsEmpty());
}

TEST(StartWarnings, TextThatIsShorterThanASequenceOrAStep) {
  EXPECT_THAT(
      start_warnings(usual(), {.training_tokens = 13}),
      ElementsAre(AllOf(StartsWith("the corpus has 13 training tokens, fewer than one sequence of 512"),
                        HasSubstr("padding"), HasSubstr("data.source"))));
  EXPECT_THAT(
      start_warnings(usual(), {.training_tokens = 2047}),
      ElementsAre(AllOf(StartsWith("the corpus has 2,047 training tokens, fewer than the 2,048 of one step"),
                        HasSubstr("train.batch"))));
}

TEST(StartWarnings, MoreThreadsThanCores) {
  recipe::Recipe recipe = usual();
  recipe.train.threads = 1000;
  EXPECT_THAT(start_warnings(recipe, {.training_tokens = 1'000'000, .cores = 2}),
              ElementsAre(AllOf(HasSubstr("train.threads is 1,000"), HasSubstr("2 cores"),
                                HasSubstr("train.threads=0"))));
  EXPECT_THAT(start_warnings(recipe, {.training_tokens = 1'000'000, .cores = 1000}), IsEmpty());
  recipe.train.threads = 0;  // all cores
  EXPECT_THAT(start_warnings(recipe, {.training_tokens = 1'000'000, .cores = 2}), IsEmpty());
}

TEST(StartWarnings, AWarmUpThatDoesNotEndInTheRun) {
  recipe::Recipe recipe = usual();
  recipe.train.steps = 100;
  EXPECT_THAT(start_warnings(recipe, {.training_tokens = 9999}),
              ElementsAre(AllOf(HasSubstr("optim.warmup_steps is 100"), HasSubstr("train.steps 100"))));
  recipe.train.steps = 101;
  EXPECT_THAT(start_warnings(recipe, {.training_tokens = 9999}), IsEmpty());
}

TEST(StartWarnings, LambBesideFactorsOfItsLearningRate) {
  recipe::Recipe recipe = usual();
  recipe.optim.groups = {{.tensors = {recipe::Role::kEmbedding}, .name = "lamb", .lr_factor = 0.5}};
  EXPECT_THAT(
      start_warnings(recipe, {.training_tokens = 9999}),
      ElementsAre(AllOf(StartsWith("lamb already makes"), HasSubstr("gives embedding a lr_factor of 0.5"))));
  recipe.optim.groups[0].name = "";
  EXPECT_THAT(start_warnings(recipe, {.training_tokens = 9999}), IsEmpty()) << "adamw's";
  recipe.optim.name = "lamb";
  EXPECT_EQ(start_warnings(recipe, {.training_tokens = 9999}).size(), 1u);
  recipe.optim.groups[0].lr_factor = 1;
  EXPECT_THAT(start_warnings(recipe, {.training_tokens = 9999}), IsEmpty());
}

TEST(StartWarnings, ALearningRateThatRisesAgain) {
  recipe::Recipe longer = usual();
  longer.train.steps = 2000;
  // The cosine had come down to a tenth at step 1,000; over 2,000 steps it stands at 58 % there.
  EXPECT_THAT(
      start_warnings(longer, {.training_tokens = 9999, .resume_step = 1000, .earlier = usual()}),
      ElementsAre(AllOf(StartsWith("the learning rate rises again, from 0.0001 at step 1,000 to 0.000586"),
                        HasSubstr("train.steps=1000"), HasSubstr("stretched to 2000"),
                        HasSubstr("optim.schedule=constant optim.lr=0.0001"))));
  // Before its end a schedule may be stretched without a word, and what it advises brings no warning.
  EXPECT_THAT(start_warnings(longer, {.training_tokens = 9999, .resume_step = 999, .earlier = usual()}),
              IsEmpty());
  longer.optim.schedule = recipe::Schedule::kConstant;
  longer.optim.lr = 1e-4;
  EXPECT_THAT(start_warnings(longer, {.training_tokens = 9999, .resume_step = 1000, .earlier = usual()}),
              IsEmpty());
}

// Restarts are meant to raise the rate; a cycle has no warm-up, and is stretched by more steps.
TEST(StartWarnings, CyclesOfTheLearningRate) {
  recipe::Recipe ended = usual();
  ended.optim.schedule = recipe::Schedule::kCosineRestarts, ended.optim.restart_steps = 300;
  recipe::Recipe longer = ended;
  longer.train.steps = 2000;
  EXPECT_THAT(start_warnings(longer, {.training_tokens = 9999, .resume_step = 1000, .earlier = ended}),
              IsEmpty());
  for (recipe::Recipe* const each : {&ended, &longer}) {
    each->optim.schedule = recipe::Schedule::kOneCycle;
    each->optim.warmup_steps = 3000;
  }
  EXPECT_THAT(start_warnings(longer, {.training_tokens = 9999, .resume_step = 1000, .earlier = ended}),
              ElementsAre(StartsWith("the learning rate rises again, from 4e-09 at step 1,000 to")));
}

TEST(StartWarnings, OptionsThatNothingReads) {
  EXPECT_THAT(
      start_warnings(usual(), {.training_tokens = 9999,
                               .unread = {"optim.beta3 (read by came)", "optim.nesterov (read by sgd)"}}),
      ElementsAre(
          HasSubstr("does not read: optim.beta3 (read by came); optim.nesterov (read by sgd). Leave out")));
}

TEST(StartWarnings, ProductsThatNobodyChecks) {
  recipe::Recipe recipe = usual();
  recipe.guard.products_every = 10;
  recipe.parallel.ranks = 4;
  recipe.parallel.zero = 2;
  EXPECT_THAT(start_warnings(recipe, {.training_tokens = 9999}), IsEmpty());
  recipe.parallel.zero = 3;
  EXPECT_THAT(start_warnings(recipe, {.training_tokens = 9999}), ElementsAre(HasSubstr("parallel.zero = 3")));
  recipe.parallel.tp = 4;  // alone with its shares
  EXPECT_THAT(start_warnings(recipe, {.training_tokens = 9999}), IsEmpty());
  recipe.train.device = "cuda:0";
  EXPECT_THAT(start_warnings(recipe, {.training_tokens = 9999}), ElementsAre(HasSubstr("on a GPU")));
  recipe.train.device = "cpu";
  recipe.train.dtype = recipe::Dtype::kFp64;
  EXPECT_THAT(start_warnings(recipe, {.training_tokens = 9999}), ElementsAre(HasSubstr("fp64")));
}

// One of three steps of a warm-up was done: the rate goes on to rise, as it was meant to, and no schedule was
// at its end.
TEST(StartWarnings, AWarmUpThatWasCutGoesOn) {
  for (const recipe::Schedule schedule : {recipe::Schedule::kConstant, recipe::Schedule::kCosine}) {
    recipe::Recipe shorter = usual(), longer = usual();
    for (recipe::Recipe* const each : {&shorter, &longer})
      each->optim.schedule = schedule, each->optim.warmup_steps = 300;
    shorter.train.steps = 100;
    EXPECT_THAT(start_warnings(longer, {.training_tokens = 9999, .resume_step = 100, .earlier = shorter}),
                IsEmpty());
  }
  recipe::Recipe constant = usual(), raised = usual();
  constant.optim.schedule = raised.optim.schedule = recipe::Schedule::kConstant;
  raised.train.steps = 2000, raised.optim.lr = 2 * constant.optim.lr;
  EXPECT_THAT(start_warnings(raised, {.training_tokens = 9999, .resume_step = 1000, .earlier = constant}),
              IsEmpty())
      << "by hand";
}

TEST(StartWarnings, NothingIsSaidWhenNoStepIsLeft) {
  recipe::Recipe recipe = usual();
  recipe.optim.warmup_steps = 5000;
  EXPECT_THAT(start_warnings(recipe, {.training_tokens = 13, .resume_step = 1000, .earlier = usual()}),
              IsEmpty());
}

}  // namespace
}  // namespace longhaul::run
