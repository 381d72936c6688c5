// ctest: label=full timeout=240
// train.distill: runs that learn beside a frozen model, which resume with the same bits, and what is refused.
#include <gmock/gmock.h>

#include <cmath>

#include "base/error.h"
#include "checkpoint/starting_point.h"
#include "language/decoder_plan.h"
#include "plan/flops.h"
#include "run/language_run.h"
#include "run/run_fixture.h"
#include "run/tiny_run.h"
#include "run/words.h"
#include "support/refused.h"

namespace longhaul::run {
namespace {

using longhaul::testing::refused;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Distill : public RunFixture {
 protected:
  Distill() {
    write_text([](int i) { return 10 + i; });
  }
  RunRequest request(const std::string& name, const Words& more) const {
    return {.recipe = recipe::load_defaults(tiny_run(folder_.path()) + more),
            .run_folder = folder_ / name,
            .quiet = true};
  }
  double held_out(const std::string& name) const {
    return events<observe::Evaluation>(name).back().loss.value();
  }
  Words from(const std::string& name, const Words& more = {}) const {
    return Words{"train.distill.from=" + (folder_ / name).string(), "train.distill.weight=0.75",
                 "train.distill.temperature=2"} +
           more;
  }
};

const Words kLarger = {"model.hidden=40",  "model.mixers=softmax", "model.experts=0", "model.intermediate=64",
                       "train.dtype=fp32", "train.steps=40",       "optim.lr=0.02"};

TEST_F(Distill, AModelOfAnotherShapeTeaches) {
  run_training(request("teacher", kLarger));
  const Words short_run = {"train.steps=6", "train.dtype=fp32"};
  run_training(request("alone", short_run));
  run_training(request("taught", from("teacher", short_run)));
  EXPECT_NE(losses("taught"), losses("alone"));
  EXPECT_EQ(losses("taught").size(), 6);
  EXPECT_TRUE(std::isfinite(held_out("taught")));
  EXPECT_LT(losses("taught").back(), losses("taught").front());
}

TEST_F(Distill, ARunThatGoesOnHasTheSameBits) {
  run_training(request("teacher", kLarger));
  const Words words = from("teacher", {"train.steps=6", "train.checkpoint_every=3"});
  run_training(request("whole", words));
  run_training(request("parts", words + Words{"train.steps=3"}));
  run_training(request("parts", words));
  EXPECT_EQ(losses("parts"), losses("whole"));
  EXPECT_EQ(held_out("parts"), held_out("whole"));
}

// Each of two data ranks has the whole teacher.
TEST_F(Distill, RanksLearnWhatOneProcessLearns) {
  run_training(request("teacher", kLarger));
  const Words words =
      from("teacher", {"train.steps=3", "train.dtype=fp64", "train.batch=4", "train.micro_batch=2"});
  run_training(request("one", words));
  run_training(request("two", words + Words{"parallel.ranks=2", "parallel.zero=2"}));
  ASSERT_EQ(losses("one").size(), 3);
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(losses("two")[i], losses("one")[i], 1e-12);
}

// The tiny model's own shape, trained on other texts' worth of steps.
const Words kEqual = {"train.dtype=fp32", "train.steps=4", "train.seed=7", "optim.lr=0.02"};
const Words kHidden = {"train.distill.hidden=0.3"};

// A loss is the sum of its parts: those that are told add up, with the weights of the recipe, to what is told
// of the step; the distance of the layers is apart from it, beside what the routers lose.
TEST_F(Distill, PartsOfTheLossAreTold) {
  run_training(request("teacher", kEqual));
  const Words words = {"train.steps=3", "train.dtype=fp64", "train.batch=4", "train.micro_batch=2",
                       "model.auxiliary_loss=0"};
  run_training(request("compared", from("teacher", words + kHidden)));
  run_training(request("apart", from("teacher", words)));
  const auto compared = events<observe::StepReport>("compared"), apart = events<observe::StepReport>("apart");
  ASSERT_EQ(compared.size(), 3);
  for (const observe::StepReport& step : compared) {
    const auto metric = [&](const char* name) { return step.metrics.at(name); };
    EXPECT_GT(metric("distill/distance"), 0);
    EXPECT_NEAR(step.loss, 0.25 * metric("distill/cross_entropy") + 0.75 * 4 * metric("distill/divergence"),
                1e-12);
    EXPECT_NEAR(step.auxiliary_loss.value(), 0.3 * metric("distill/distance"), 1e-12);
  }
  EXPECT_FALSE(apart[0].metrics.contains("distill/distance"));
  EXPECT_EQ(apart[0].loss, compared[0].loss) << "before the first update nothing differs";
  EXPECT_NE(apart[0].grad_norm, compared[0].grad_norm);
  EXPECT_GT(compared[0].metrics.at("distill/distance"), compared[2].metrics.at("distill/distance"));
}

// A model that begins as a copy of the other is at no distance of it, and the comparison changes nothing.
TEST_F(Distill, ACopyIsAtNoDistance) {
  run_training(request("teacher", kEqual));
  RunRequest copy = request("copy", from("teacher", Words{"train.steps=1", "train.dtype=fp32"} + kHidden));
  copy.from = checkpoint::StartingPoint::open((folder_ / "teacher").string(), "");
  run_training(std::move(copy));
  const observe::StepReport step = events<observe::StepReport>("copy").front();
  EXPECT_EQ(step.metrics.at("distill/distance"), 0);
  EXPECT_NEAR(step.metrics.at("distill/divergence"), 0, 1e-9);
}

TEST_F(Distill, LayersAreComparedOnAnyRanksAndAgain) {
  run_training(request("teacher", kEqual));
  const Words words = from("teacher", Words{"train.steps=4", "train.dtype=fp64", "train.batch=4",
                                            "train.micro_batch=2", "train.checkpoint_every=2"} +
                                          kHidden);
  run_training(request("one", words));
  run_training(request("two", words + Words{"parallel.ranks=2", "parallel.zero=2"}));
  run_training(request("again", words + Words{"train.recompute=full"}));
  run_training(request("parts", words + Words{"train.steps=2"}));
  run_training(request("parts", words));
  ASSERT_EQ(losses("one").size(), 4);
  EXPECT_EQ(losses("again"), losses("one"));
  EXPECT_EQ(losses("parts"), losses("one"));
  EXPECT_EQ(held_out("parts"), held_out("one"));
  const auto two = events<observe::StepReport>("two"), one = events<observe::StepReport>("one");
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(two[i].loss, one[i].loss, 1e-12);
    EXPECT_NEAR(two[i].metrics.at("distill/distance"), one[i].metrics.at("distill/distance"), 1e-12);
  }
}

// By hand, of the tiny model with a larger one: the frozen model's forward pass, a third of its FLOPs, and a
// product with each head, 2 · hidden · vocabulary.
TEST_F(Distill, TheOtherModelsWorkIsCountedAsDoneAgain) {
  run_training(request("teacher", kLarger));
  const recipe::Recipe alone = request("a", {}).recipe.recipe,
                       taught = request("b", from("teacher")).recipe.recipe,
                       teacher = request("c", kLarger).recipe.recipe;
  const double forward = plan::training_flops_per_token(teacher.model, 33).causal() / 3;
  EXPECT_DOUBLE_EQ(language::DecoderPlan(taught).flops_again(),
                   language::DecoderPlan(alone).flops_again() + forward + 2 * 257 * (40 + 24));
  EXPECT_EQ(language::DecoderPlan(taught).flops().causal(), language::DecoderPlan(alone).flops().causal());
}

TEST_F(Distill, RefusesWhatCannotTeach) {
  run_training(request("other", kLarger + Words{"model.vocabulary=300", "train.steps=1"}));
  EXPECT_THAT(refused([&] { run_training(request("a", from("other", {"train.steps=1"}))); }),
              HasSubstr("another vocabulary"));
  run_training(request("larger", kLarger + Words{"train.steps=1"}));
  EXPECT_THAT(
      refused([&] {
        run_training(request("h", from("larger", Words{"train.steps=1", "train.dtype=fp32"} + kHidden)));
      }),
      AllOf(HasSubstr("layers are compared one by one"), HasSubstr("model.layers = 2 and model.hidden = 24"),
            HasSubstr("2 and 40"), HasSubstr("train.distill.hidden=0")));
  EXPECT_THAT(refused([&] { run_training(request("b", from("nowhere", {"train.steps=1"}))); }),
              HasSubstr("nowhere"));
  for (const char* wrong :
       {"parallel.tp=2", "parallel.pp=2", "parallel.cp=2", "train.task=recall", "model.predict_ahead=1"}) {
    EXPECT_THAT(refused([&] { request("c", from("other", {wrong})); }), HasSubstr("train.distill")) << wrong;
  }
}

}  // namespace
}  // namespace longhaul::run
