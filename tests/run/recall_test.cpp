// ctest: label=full timeout=300
// The task of recall: which sequences a step has, whole runs that learn, resume to the bit, and are the same
// on two ranks.
#include "language/recall.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files/temporary_folder.h"
#include "evaluate/recall.h"
#include "observe/events/event_log.h"
#include "recipe/load.h"
#include "run/language_run.h"
#include "run/run_fixture.h"

namespace longhaul::run {
namespace {

std::vector<std::string> recall_words() {
  return {
      "model.layers=2",       "model.hidden=32",       "model.heads=2",          "model.kv_heads=2",
      "model.head_dim=16",    "model.vocabulary=16",   "model.mixers=softmax",   "model.intermediate=32",
      "model.rotary_dim=16",  "model.wiring=pre_norm", "train.task=recall",      "recall.kind=copy",
      "recall.pairs=3",       "train.sequence=8",      "train.batch=8",          "train.micro_batch=4",
      "train.steps=8",        "train.dtype=fp64",      "train.evaluate_every=4", "train.checkpoint_every=4",
      "recall.held_out=10",   "train.threads=1",       "optim.lr=0.01",          "optim.schedule=constant",
      "optim.warmup_steps=2", "sample.tokens=0",       "observe.report=false",   "observe.tensorboard=false"};
}

class RecallTask : public RunFixture {
 protected:
  RunRequest request(const std::string& name, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = recall_words();
    words.insert(words.end(), more.begin(), more.end());
    return {.recipe = recipe::load_defaults(words), .run_folder = folder_ / name, .quiet = true};
  }
};

// The loss of step 1, worked out from the rows that it should have: those of indexes 0 … 7.
TEST_F(RecallTask, StepsHaveTheirOwnSequences) {
  const recipe::Recipe recipe = recipe::load_defaults(recall_words()).recipe;
  parallel::Ranks alone;
  language::Recall task(recipe, at::kCPU, alone);
  task.parameters().initialise(0);
  for (const int64_t step : {int64_t{1}, int64_t{5}}) {
    const train::StepWork work = task.prepare(step);
    EXPECT_EQ(work.micro_batches, 2);
    EXPECT_EQ(work.weight, 8 * 3);
    EXPECT_EQ(work.tokens, 8 * 8);
    double nats = 0, expected = 0;
    for (int64_t m = 0; m < 2; ++m) {
      model::LocalOps ops;
      model::Context context(ops, task.precision());
      const at::NoGradGuard guard;
      nats += task.forward(context, m, {}).item<double>();
    }
    for (int64_t r = 0; r < 8; ++r) {
      const data::RecallRow row = data::recall_row(language::recall_shape(recipe), 0, 8 * (step - 1) + r);
      model::LocalOps ops;
      model::Context context(ops, task.precision());
      const at::NoGradGuard guard;
      const auto tensor = [](const std::vector<int64_t>& ids) {
        return at::tensor(at::ArrayRef<int64_t>(ids), at::kLong);
      };
      const Tensor logits =
          task.decoder().logits(task.decoder().hidden(context, tensor(row.inputs), layout::make_single(8)));
      for (size_t t = 0; t < 8; ++t) {
        if (row.labels[t] >= 0)
          expected -= logits[static_cast<int64_t>(t)].log_softmax(0)[row.labels[t]].item<double>();
      }
    }
    EXPECT_NEAR(nats, expected, 1e-9);
  }
}

TEST_F(RecallTask, LearnsToCopy) {
  const train::Outcome outcome = run_training(
      request("run", {"train.steps=300", "train.batch=16", "train.micro_batch=16", "train.evaluate_every=300",
                      "train.checkpoint_every=0", "recall.held_out=100", "train.dtype=fp32"}));
  EXPECT_EQ(outcome.reason, "finished");
  const auto evaluations = events<observe::Evaluation>("run");
  ASSERT_FALSE(evaluations.empty());
  EXPECT_GT(evaluations.back().metrics.at("accuracy"), 0.9);  // chance: 1/14
  EXPECT_LT(*evaluations.back().loss, 0.5);
}

TEST_F(RecallTask, GoesOnAsIfNobodyHadStoppedIt) {
  run_training(request("whole"));
  run_training(request("parts", {"train.steps=4"}));
  run_training(request("parts"));
  const auto whole = losses("whole");
  std::vector<double> parts;
  for (const auto& step : events<observe::StepReport>("parts")) parts.push_back(step.loss);
  ASSERT_EQ(whole.size(), 8u);
  EXPECT_EQ(parts, whole);
}

TEST_F(RecallTask, RefusesToGoOnWithOtherSequences) {
  run_training(request("run", {"train.steps=4"}));
  try {
    run_training(request("run", {"recall.pairs=2"}));
    ADD_FAILURE() << "it went on";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("recall"));
  }
}

// Sums in another order: not the same bits.
TEST_F(RecallTask, IsTheSameOnTwoRanks) {
  run_training(request("one"));
  run_training(request("two", {"parallel.ranks=2"}));
  run_training(request("split", {"parallel.cp=2"}));
  const auto one = losses("one"), two = losses("two"), split = losses("split");
  ASSERT_EQ(two.size(), one.size());
  ASSERT_EQ(split.size(), one.size());
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_NEAR(two[i], one[i], 1e-9);
    EXPECT_NEAR(split[i], one[i], 1e-9);
  }
  // Ranks judge the same held-out sequences, each its own part of them: as many as both go through.
  run_training(request("whole", {"recall.held_out=16"}));
  run_training(request("shared", {"recall.held_out=16", "parallel.ranks=2"}));
  const auto whole = events<observe::Evaluation>("whole"), shared = events<observe::Evaluation>("shared");
  ASSERT_EQ(shared.size(), whole.size());
  for (size_t e = 0; e < whole.size(); ++e) EXPECT_NEAR(*shared[e].loss, *whole[e].loss, 1e-9) << e;
}

// Two workers that meet behind every step of plain SGD are one process with the whole batch; they share out
// its sequences.
TEST_F(RecallTask, WorkersOfAnOuterLoopHaveSequencesOfTheirOwn) {
  const std::vector<std::string> sgd = {"optim.name=sgd", "optim.momentum=0", "optim.clip_norm=0",
                                        "optim.weight_decay=0", "recall.held_out=16"};
  std::vector<std::string> workers = sgd;
  workers.insert(workers.end(), {"optim.outer=local_sgd", "optim.outer_every=1", "parallel.ranks=2"});
  run_training(request("one", sgd));
  run_training(request("workers", workers));
  const auto one = events<observe::StepReport>("one"), first = events<observe::StepReport>("workers");
  std::vector<observe::StepReport> second;
  for (const auto& event : observe::read_events(folder_ / "workers" / "events" / "rank-1.jsonl")) {
    if (const auto* step = std::get_if<observe::StepReport>(&event.body)) second.push_back(*step);
  }
  ASSERT_EQ(first.size(), one.size());
  ASSERT_EQ(second.size(), one.size());
  for (size_t s = 0; s < one.size(); ++s) {
    EXPECT_NEAR((first[s].loss + second[s].loss) / 2, one[s].loss, 1e-9) << s;
    EXPECT_NE(first[s].loss, second[s].loss) << s;
    EXPECT_EQ(first[s].tokens, one[s].tokens) << s;
  }
  const auto judged = events<observe::Evaluation>("workers"), expected = events<observe::Evaluation>("one");
  ASSERT_EQ(judged.size(), expected.size());
  for (size_t e = 0; e < judged.size(); ++e) EXPECT_NEAR(*judged[e].loss, *expected[e].loss, 1e-9) << e;
}

// guard.replay_every: what another replica had of a step, and nothing of it stays.
TEST_F(RecallTask, GivesAnotherReplicasSequencesForAReplay) {
  const recipe::Recipe recipe = recipe::load_defaults(recall_words()).recipe;
  parallel::Ranks alone;
  language::Recall task(recipe, at::kCPU, alone);
  task.parameters().initialise(0);
  const auto loss = [&] {
    model::LocalOps ops;
    model::Context context(ops, task.precision());
    const at::NoGradGuard guard;
    return task.forward(context, 0, {}).item<double>();
  };
  task.prepare(2);
  const double expected = loss();
  task.prepare(1);
  ASSERT_NE(loss(), expected);
  ASSERT_TRUE(task.prepare_of(2, 0));
  EXPECT_EQ(loss(), expected);
}

TEST_F(RecallTask, SequencesMayComeAgain) {
  run_training(request("few", {"recall.examples=8", "optim.lr=1e-30"}));  // every step has the same eight
  const auto again = losses("few");
  for (const double loss : again) EXPECT_NEAR(loss, again.front(), 1e-9);
  EXPECT_DOUBLE_EQ(*events<observe::StepReport>("few").back().epoch, 8);
}

TEST_F(RecallTask, RefusesWhatCannotBeMade) {
  EXPECT_THROW(run_training(request("long", {"recall.pairs=5"})), Error);
  EXPECT_THROW(request("rows", {"recall.vocabulary=17"}), Error);
}

}  // namespace
}  // namespace longhaul::run
