// A batch that follows the measured critical batch: by hand; in runs whose gradients have a known noise; in
// whole runs, stopped, resumed and on ranks.
#include "train/batch_ramp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <fstream>

#include "base/files/temporary_folder.h"
#include "base/random.h"
#include "run/language_run.h"
#include "run/run_fixture.h"
#include "run/tiny_run.h"
#include "storage/catalog.h"
#include "train/by_hand.h"
#include "train/trainer.h"

namespace longhaul::run {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using Growths = std::vector<std::pair<int64_t, int64_t>>;  // behind which step, to what

// |G|² = 4 and S = 96, so 24 tokens: E|G_b|² = 4 + 96 / b.
optim::NormOfBatch norm_of(double tokens) { return {tokens, std::sqrt(4 + 96 / tokens)}; }

// Steps of sequences of one token, all measured, from `first` on.
Growths grow(train::BatchRamp& ramp, int64_t first, int64_t last, int64_t batch) {
  Growths all;
  for (int64_t step = first; step <= last; ++step) {
    const auto grown = ramp.measured(step, batch, norm_of(2), norm_of(static_cast<double>(batch)));
    if (grown) all.emplace_back(step, batch = *grown);
  }
  return all;
}

TEST(BatchRamp, DoublesBehindTwentyMeasurementsUntilItHasCaughtUp) {
  train::BatchRamp ramp({.batch_growth = 1, .batch_most = 1000});
  EXPECT_THAT(grow(ramp, 1, 200, 4), ElementsAre(Pair(20, 8), Pair(40, 16), Pair(60, 32)));
  EXPECT_THAT(ramp.grown(),
              ElementsAre(optim::BatchGrowth{21, 8}, optim::BatchGrowth{41, 16}, optim::BatchGrowth{61, 32}));
  EXPECT_NEAR(*ramp.critical_batch(), 24, 1e-9);
  train::BatchRamp at_twice({.batch_growth = 2, .batch_most = 1000}),
      narrow({.batch_growth = 1, .batch_most = 31}), off({.batch_growth = 0, .batch_most = 1000});
  EXPECT_THAT(grow(at_twice, 1, 200, 4), ElementsAre(Pair(20, 8), Pair(40, 16)));
  EXPECT_THAT(grow(narrow, 1, 200, 4), ElementsAre(Pair(20, 8), Pair(40, 16)));
  EXPECT_THAT(grow(off, 1, 200, 4), ElementsAre());
}

TEST(BatchRamp, GoesOnFromWhatWasSaved) {
  const recipe::OptimOptions options{.batch_growth = 1, .batch_most = 1000};
  train::BatchRamp whole(options), first(options), second(options);
  EXPECT_EQ(first.facts(), nlohmann::json::object()) << "nothing is known";
  const Growths all = grow(whole, 1, 100, 4), before = grow(first, 1, 33, 4);
  ASSERT_THAT(before, ElementsAre(Pair(20, 8)));
  const nlohmann::json facts = nlohmann::json::parse(first.facts().dump());
  second.restore({facts, "a test"});
  EXPECT_EQ(second.facts(), first.facts());
  Growths both = before;
  for (const auto& each : grow(second, 34, 100, 8)) both.push_back(each);
  EXPECT_EQ(both, all);
  EXPECT_EQ(second.facts(), whole.facts()) << "to the bit";
  second.restore({facts, "a test"});  // as a rollback does
  EXPECT_THAT(second.grown(), ElementsAre(optim::BatchGrowth{21, 8}));
  second.restore({nlohmann::json::object(), "a test"});
  EXPECT_EQ(second.facts(), nlohmann::json::object());
  for (const char* bad :
       {"{}", "{\"gradient\": 1, \"noise\": 2, \"measurements\": 3, \"grown\": [[1]]}", "7"}) {
    try {
      second.restore({{{"batch_noise", nlohmann::json::parse(bad)}}, "manifest.json"});
      FAIL() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kCheckpoint);
      EXPECT_EQ(error.fields().where, "manifest.json");
    }
  }
}

// Sequences of 4 tokens, whose gradients are g, of length 1 in 192 dimensions, and noise whose covariance has
// the trace S: a critical batch of S tokens.
class NoisyTask final : public train::Task {
 public:
  static constexpr int64_t kDimensions = 192, kTokens = 4;
  static constexpr double kNoise = 90;

  NoisyTask(const recipe::Recipe& recipe, std::vector<int64_t>& samples)
      : recipe_(recipe),
        samples_(samples),
        schedule_(recipe.optim, recipe.train),
        parameters_({optim::testing::spec("layers.0.vector", {kDimensions}, /*decay=*/false)}, precision_,
                    at::kCPU) {
    parameter_ = &parameters_.add_stacked("layers.0.vector", {"layers.0.vector"});
    parameters_.allocate();
    parameter_->value.detach().zero_();
  }
  model::ParameterSet& parameters() override { return parameters_; }
  const Precision& precision() const override { return precision_; }
  void set_growth(const std::vector<optim::BatchGrowth>& grown) override {
    schedule_ = optim::TrainSchedule(recipe_.optim, recipe_.train, grown);
  }
  train::StepWork prepare(int64_t step) override {
    first_ = schedule_.first_sample(step);
    const int64_t count = schedule_.first_sample(step + 1) - first_;
    for (int64_t i = 0; i < count; ++i) samples_.push_back(first_ + i);
    return {
        .micro_batches = count, .weight = static_cast<double>(count * kTokens), .tokens = count * kTokens};
  }
  Tensor forward(model::Context&, int64_t micro_batch, const Tensor&) override {
    const Tensor slope = at::empty({kDimensions}, at::kDouble);
    // of a mean over 4 tokens
    const double each = std::sqrt(kNoise / static_cast<double>(kDimensions * kTokens));
    for (int64_t i = 0; i < kDimensions; ++i) {
      slope.mutable_data_ptr<double>()[i] =
          1 / std::sqrt(static_cast<double>(kDimensions)) +
          each * random_.normal(static_cast<uint64_t>((first_ + micro_batch) * kDimensions + i));
    }
    return (parameter_->use() * slope).sum() * static_cast<double>(kTokens);
  }
  nlohmann::json data_position(int64_t step) const override {
    return {{"first_sample", schedule_.first_sample(step)}};
  }
  void require_same_data(const nlohmann::json& saved, int64_t step) const override {
    EXPECT_EQ(saved, data_position(step));
  }

 private:
  recipe::Recipe recipe_;
  std::vector<int64_t>& samples_;  // that steps were given
  optim::TrainSchedule schedule_;
  Precision precision_ = Precision::named("fp64");
  model::ParameterSet parameters_;
  model::Parameter* parameter_ = nullptr;
  RandomStream random_{11, "noise of sequences"};
  int64_t first_ = 0;
};

class NoisyRun : public RunFixture {
 protected:
  // As a process of its own: until a signal behind step `until`, or the end.
  void start(const std::string& name, int64_t until = 0) {
    const train::TrainerOptions options{
        .recipe = recipe::load_defaults(
            {"train.steps=110", "train.batch=4", "train.micro_batch=1", "train.sequence=4",
             "train.dtype=fp64", "train.checkpoint_every=0", "train.evaluate_every=0", "optim.name=sgd",
             "optim.lr=1e-3", "optim.clip_norm=0", "optim.warmup_steps=0", "optim.schedule=constant",
             "observe.batch_noise_every=1", "optim.batch_growth=1", "optim.batch_most=1024"}),
        .run_folder = folder_ / name};
    NoisyTask task(options.recipe.recipe, samples_[name]);
    const auto optimizer =
        optim::make_optimizer(options.recipe.recipe.optim, task.parameters(), task.precision());
    observe::EventWriter events({.path = folder_ / name / "events.jsonl"});
    train::testing::ScriptedControl control;
    parallel::Ranks alone;
    train::Trainer* running = nullptr;
    control.stop = [&] { return until > 0 && running != nullptr && running->step() >= until ? SIGTERM : 0; };
    train::Trainer trainer(task, *optimizer, alone, events, files_, control, options);
    running = &trainer;
    trainer.resume();
    trainer.run();
  }
  storage::LocalFileSystem files_;
  std::map<std::string, std::vector<int64_t>> samples_;
};

// Batches of 16, 32 and 64 tokens lie below the critical batch of 90, one of 128 does not.
TEST_F(NoisyRun, GrowsToTheKnownCriticalBatchAndNoFurther) {
  start("whole");
  Growths grown;
  for (const auto& growth : events<observe::BatchGrowth>("whole")) {
    EXPECT_EQ(growth.batch, 2 * growth.batch_before);
    EXPECT_GT(growth.critical_batch_tokens, static_cast<double>(growth.batch_before * NoisyTask::kTokens));
    grown.emplace_back(growth.step, growth.batch);
  }
  EXPECT_THAT(grown, ElementsAre(Pair(20, 8), Pair(40, 16), Pair(60, 32)));
  const auto steps = events<observe::StepReport>("whole");
  ASSERT_EQ(steps.size(), 110u);
  EXPECT_NEAR(steps.back().metrics.at("critical_batch_tokens"), NoisyTask::kNoise, 0.2 * NoisyTask::kNoise);
  EXPECT_EQ(steps[19].metrics.at("batch_sequences"), 4);
  EXPECT_EQ(steps[20].metrics.at("batch_sequences"), 8);
  EXPECT_EQ(steps.back().tokens, NoisyTask::kTokens * (20 * 4 + 20 * 8 + 20 * 16 + 50 * 32));
  // Every sequence once, in order: the growth moved no sample.
  const std::vector<int64_t>& given = samples_["whole"];
  ASSERT_EQ(given.size(), 20u * 4 + 20 * 8 + 20 * 16 + 50 * 32);
  for (size_t i = 0; i < given.size(); ++i) ASSERT_EQ(given[i], static_cast<int64_t>(i));

  // Stopped between two measurements that count together, and behind a growth: the same to the bit.
  for (const int64_t until : {33, 40}) {
    const std::string name = std::to_string(until);
    start(name, until);
    ASSERT_EQ(events<observe::StepReport>(name).size(), static_cast<size_t>(until));
    start(name);
    EXPECT_EQ(samples_[name], given);
    const auto again = events<observe::StepReport>(name);
    ASSERT_EQ(again.size(), steps.size());
    for (size_t s = 0; s < steps.size(); ++s) {
      EXPECT_EQ(again[s].loss, steps[s].loss) << s;
      EXPECT_EQ(again[s].grad_norm, steps[s].grad_norm) << s;
      EXPECT_EQ(again[s].metrics, steps[s].metrics) << s;
    }
    EXPECT_EQ(events<observe::BatchGrowth>(name).size(), 3u);
  }
}

// ---- whole runs of a model

class BatchRampRuns : public RunFixture {
 protected:
  BatchRampRuns() {
    write_text([](int i) { return 40 + i % 7; });
  }
  struct Seen {
    std::vector<double> losses, rates, critical;
    std::vector<int64_t> tokens;
    Growths grown;
  };
  // Critical batches of a first few steps are small: the batch doubles at any.
  Seen run(const std::string& name, int64_t steps, std::vector<std::string> more = {}) const {
    std::vector<std::string> all = tiny_run(folder_.path());
    for (const char* own :
         {"train.dtype=fp64", "train.batch=4", "train.micro_batch=1", "train.evaluate_every=0",
          "train.checkpoint_every=0", "observe.batch_noise_every=1", "optim.batch_growth=1e-3",
          "optim.batch_most=8", "optim.batch_lr_power=0.5"})
      all.emplace_back(own);
    all.push_back("train.steps=" + std::to_string(steps));
    all.insert(all.end(), more.begin(), more.end());
    run_training({.recipe = recipe::load_defaults(all), .run_folder = folder_ / name, .quiet = true});
    Seen seen;
    for (const auto& event : observe::read_events(folder_ / name / "events.jsonl")) {
      if (const auto* step = std::get_if<observe::StepReport>(&event.body)) {
        seen.losses.push_back(step->loss);
        seen.rates.push_back(step->learning_rate);
        seen.tokens.push_back(step->tokens);
        const auto critical = step->metrics.find("critical_batch_tokens");
        seen.critical.push_back(critical != step->metrics.end() ? critical->second : -1);
      }
      if (const auto* growth = std::get_if<observe::BatchGrowth>(&event.body))
        seen.grown.emplace_back(growth->step, growth->batch);
    }
    return seen;
  }
};

TEST_F(BatchRampRuns, AModelsBatchGrowsResumesToTheBitAndIsThatOfRanks) {
  const Seen whole = run("whole", 25);
  EXPECT_THAT(whole.grown, ElementsAre(Pair(20, 8)));
  ASSERT_EQ(whole.tokens.size(), 25u);
  EXPECT_EQ(whole.tokens[19], 20 * 4 * 33);
  EXPECT_EQ(whole.tokens[24], (20 * 4 + 5 * 8) * 33);
  EXPECT_DOUBLE_EQ(whole.rates[19], 0.01);
  EXPECT_DOUBLE_EQ(whole.rates[20], 0.01 * std::sqrt(2.0));

  run("resumed", 13);
  const Seen resumed = run("resumed", 25);
  EXPECT_EQ(resumed.losses, whole.losses);
  EXPECT_EQ(resumed.critical, whole.critical);
  EXPECT_EQ(resumed.grown, whole.grown);
  // What has grown stays, also where it follows no longer.
  run("off", 22);
  const Seen off = run("off", 25, {"optim.batch_growth=0"});
  EXPECT_EQ(off.losses, whole.losses);
  EXPECT_EQ(off.tokens, whole.tokens);

  for (const char* ranks : {"parallel.ranks=2", "parallel.pp=2"}) {
    const Seen both = run(ranks, 25, {ranks});
    EXPECT_EQ(both.grown, whole.grown);
    EXPECT_EQ(both.tokens, whole.tokens);
    ASSERT_EQ(both.losses.size(), whole.losses.size());
    for (size_t s = 0; s < whole.losses.size(); ++s)
      EXPECT_NEAR(both.losses[s], whole.losses[s], 1e-9) << ranks << " " << s;
  }
}

}  // namespace
}  // namespace longhaul::run
