// ctest: label=full timeout=240
// Runs whose sequences get longer on the way (optim.stages): what their steps read, stopped and gone on with
// on either side of a stage, over ranks, and continued with a stage that came later.
#include <gmock/gmock.h>

#include "base/error.h"
#include "plan/flops.h"
#include "run/language_run.h"
#include "run/run_fixture.h"
#include "run/tiny_run.h"
#include "run/words.h"
#include "support/refused.h"

namespace longhaul::run {
namespace {

using longhaul::testing::refused;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Three steps of 4 sequences of 33 tokens (132 a step, 396 in all), then two sequences of 99 (198 a step).
const Words kShort = {"train.sequence=33", "train.batch=4", "train.micro_batch=2", "train.dtype=fp64",
                      "train.steps=6"};
const Words kStages = kShort + Words{"optim.stages=[{from_step=4, batch=2, sequence=99}]"};
const Words kLong = {"train.sequence=99", "train.batch=2", "train.micro_batch=2", "train.dtype=fp64",
                     "train.steps=5"};

class Stages : public RunFixture {
 protected:
  Stages() {
    write_text([](int i) { return 10 + i; });
  }
  RunRequest request(const std::string& name, const Words& more) const {
    return {.recipe = recipe::load_defaults(tiny_run(folder_.path()) + more),
            .run_folder = folder_ / name,
            .quiet = true};
  }
  void run(const std::string& name, const Words& more) const { run_training(request(name, more)); }
  std::vector<double> held_out(const std::string& name) const {
    std::vector<double> all;
    for (const auto& each : events<observe::Evaluation>(name)) all.push_back(each.loss.value());
    return all;
  }
};

// With a rate that changes nothing, each step's loss is that of what it reads. 396 tokens are four sequences
// of 99, so step 4 reads the fifth and the sixth of their order: what step 3 reads in a run with these alone.
TEST_F(Stages, StepsReadOnWhereTheTokensAre) {
  const Words still = {"optim.lr=1e-300"};
  run("stages", kStages + still);
  run("short", kShort + still);
  run("long", kLong + still);
  const std::vector<double> found = losses("stages"), of_short = losses("short"), of_long = losses("long");
  ASSERT_EQ(found.size(), 6);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(found[i], of_short[i]) << "step " << i + 1;
  for (size_t i = 3; i < 6; ++i) EXPECT_EQ(found[i], of_long[i - 1]) << "step " << i + 1;
  const auto steps = events<observe::StepReport>("stages");
  std::vector<int64_t> tokens;
  for (const observe::StepReport& step : steps) tokens.push_back(step.tokens);
  EXPECT_THAT(tokens, ElementsAre(132, 264, 396, 594, 792, 990));
  // Evaluations behind steps 2, 4 and 6: with the length of the step.
  EXPECT_EQ(held_out("stages")[0], held_out("short")[0]);
  EXPECT_EQ(held_out("stages")[1], held_out("long")[0]);
  EXPECT_EQ(held_out("stages").back(), held_out("long").back());
  EXPECT_NE(held_out("short").back(), held_out("long").back());
}

TEST_F(Stages, AStepIsJudgedByTheWorkOfItsLength) {
  run("stages", kStages);
  const recipe::ModelConfig model = request("", kStages).recipe.recipe.model;
  for (const observe::StepReport& step : events<observe::StepReport>("stages")) {
    const int64_t sequence = step.step < 4 ? 33 : 99;
    EXPECT_EQ(step.metrics.at("sequence_tokens"), sequence);
    EXPECT_NEAR(step.model_flops_per_second.value() / step.tokens_per_second,
                plan::training_flops_per_token(model, sequence).causal(), 1e-6);
  }
}

TEST_F(Stages, GoOnWithTheSameBitsOnEitherSide) {
  const Words often = kStages + Words{"train.checkpoint_every=1"};
  run("whole", often);
  for (const char* stop : {"2", "3", "4", "5"}) {
    const std::string name = std::string("stopped at ") + stop;
    run(name, often + Words{std::string("train.steps=") + stop});
    run(name, often);
    EXPECT_EQ(losses(name), losses("whole")) << name;
    EXPECT_EQ(held_out(name).back(), held_out("whole").back()) << name;
  }
}

// A short run that is continued with a stage that nobody thought of when it began is the run that had it all
// along; where the stage would change what was read before, it is refused.
TEST_F(Stages, AStageMayComeLater) {
  run("whole", kStages);
  run("parts", kShort + Words{"train.steps=3"});
  run("parts", kStages);
  EXPECT_EQ(losses("parts"), losses("whole"));
  run("late", kShort + Words{"train.steps=4"});
  EXPECT_THAT(refused([&] { run("late", kStages); }), HasSubstr("the sequence length changed"));
  run("two", kShort + Words{"optim.stages=[{from_step=3, sequence=99}]", "train.steps=4"});
  EXPECT_THAT(refused([&] { run("two", kShort + Words{"optim.stages=[{from_step=2, sequence=99}]"}); }),
              HasSubstr("sequences had other lengths before the checkpoint was written"));
}

TEST_F(Stages, OverRanks) {
  run("one", kStages);
  const std::vector<Words> layouts = {{"parallel.ranks=2", "parallel.zero=1", "train.micro_batch=1"},
                                      {"parallel.cp=2"},
                                      {"parallel.tp=2"},
                                      {"parallel.pp=2", "train.micro_batch=1"}};
  for (const Words& layout : layouts) {
    run(layout[0], kStages + layout);
    ASSERT_EQ(losses(layout[0]).size(), 6) << layout[0];
    for (size_t i = 0; i < 6; ++i)
      EXPECT_NEAR(losses(layout[0])[i], losses("one")[i], 1e-10) << layout[0] << ", step " << i + 1;
  }
}

TEST_F(Stages, AreShownBeforeTheFirstStep) {
  RunRequest shown = request("shown", kStages);
  shown.quiet = false;
  ::testing::internal::CaptureStdout();
  run_training(std::move(shown));
  const std::string text = ::testing::internal::GetCapturedStdout();
  EXPECT_THAT(text, HasSubstr("stages (optim.stages)"));
  EXPECT_THAT(text, HasSubstr("396")) << "tokens before the second";
  EXPECT_THAT(text, HasSubstr("198")) << "tokens of its steps";
}

TEST_F(Stages, ThatCannotBeDealtOutAreRefused) {
  const Words odd =
      kShort + Words{"optim.stages=[{from_step=4, batch=3, sequence=99}]", "train.micro_batch=1"};
  EXPECT_THAT(refused([&] { run("a", odd + Words{"parallel.ranks=2"}); }), HasSubstr("optim.stages"));
  EXPECT_THAT(refused([&] { request("b", kStages + Words{"train.task=recall"}); }),
              HasSubstr("one length of sequences"));
}

}  // namespace
}  // namespace longhaul::run
