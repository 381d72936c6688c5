// A Task of quite another kind through the whole Trainer: a straight line fitted to points that it draws
// itself, from a generator whose state nothing but the task knows. KilledUnsaved at any step and started
// again it ends with the same bits as when nobody stops it: what it keeps in checkpoints, what it measures
// and what it refuses to go on with are its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files/temporary_folder.h"
#include "language/tasks.h"
#include "recipe/load.h"
#include "storage/catalog.h"
#include "train/by_hand.h"
#include "train/trainer.h"

namespace longhaul::run {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Key;

constexpr int64_t kFeatures = 3, kPoints = 8;

// Draws points x and y = (1, −2, 0.5)·x + noise with a linear congruential generator, and keeps a mean of all
// x seen so far and how many there were: a tensor of integers, one of floats, and a fact.
class Regression final : public train::Task, public checkpoint::StateProvider {
 public:
  explicit Regression(int64_t points_of = 1) : points_of_(points_of) {
    parameter_ = &parameters_.add_stacked("line.weight", {"line.weight"});
    parameters_.allocate();
  }

  model::ParameterSet& parameters() override { return parameters_; }
  const Precision& precision() const override { return precision_; }

  train::StepWork prepare(int64_t) override {
    for (double& value : std::span(x_.mutable_data_ptr<double>(), static_cast<size_t>(x_.numel())))
      value = draw();
    const Tensor truth = at::tensor({1.0, -2.0, 0.5}, at::kDouble);
    y_ = x_.mv(truth);
    for (double& value : std::span(y_.mutable_data_ptr<double>(), kPoints)) value += 0.1 * draw();
    seen_ += kPoints;
    mean_.add_(x_.mean(0).sub(mean_).mul(static_cast<double>(kPoints) / static_cast<double>(seen_)));
    return {.micro_batches = 2, .weight = kPoints, .tokens = kPoints};
  }
  Tensor forward(model::Context&, int64_t micro_batch, const Tensor&) override {
    const int64_t half = kPoints / 2;
    const Tensor distance = (x_.sub(mean_).narrow(0, micro_batch * half, half).mv(parameter_->use()) -
                             y_.narrow(0, micro_batch * half, half));
    close_[static_cast<size_t>(micro_batch)] = (distance.detach().abs() < 1).sum().item<double>();
    return distance.square().sum();
  }
  std::map<std::string, train::Metric> step_metrics() override {
    return {{"close", {close_[0] + close_[1], kPoints}}, {"never", {0, 0}}};
  }
  std::optional<observe::Metrics> evaluate(bool whole, const std::function<bool()>&) override {
    return observe::Metrics{{"loss", 0.25}, {"whole", whole ? 1 : 0}};
  }

  std::vector<checkpoint::StateProvider*> state() override { return {this}; }
  std::vector<checkpoint::StateEntry> tensors() override {
    const auto entry = [](const char* name, const Tensor& view) {
      const layout::Shape shape = view.sizes().vec();
      return checkpoint::StateEntry{name, "task", "task", shape, layout::Rectangle::whole(shape), view};
    };
    return {entry("task.random", random_), entry("task.mean", mean_)};
  }
  nlohmann::json facts() override { return {{"points_seen", seen_}}; }
  void restore(const checkpoint::SavedFacts& facts) override { seen_ = facts.whole_number("points_seen"); }

  nlohmann::json data_position(int64_t step) const override {
    return {{"points_of", points_of_}, {"step", step}};
  }
  void require_same_data(const nlohmann::json& saved, int64_t step) const override {
    if (saved != data_position(step))
      throw Error({.code = ExitCode::kData, .what = "other points", .found = saved.dump()});
  }

 private:
  double draw() {
    auto* state = random_.mutable_data_ptr<int64_t>();
    *state =
        static_cast<int64_t>(static_cast<uint64_t>(*state) * 6364136223846793005u + 1442695040888963407u);
    return static_cast<double>(*state >> 33) / static_cast<double>(int64_t{1} << 30);
  }

  int64_t points_of_;
  Precision precision_ = Precision::named("fp64");
  model::ParameterSet parameters_{
      {optim::testing::spec("line.weight", {kFeatures}, /*decay=*/false)}, precision_, at::kCPU};
  model::Parameter* parameter_ = nullptr;
  Tensor random_ = at::full({1}, 42, at::kLong), mean_ = at::zeros({kFeatures}, at::kDouble);
  int64_t seen_ = 0;
  Tensor x_ = at::empty({kPoints, kFeatures}, at::kDouble), y_;
  double close_[2] = {};
};

struct KilledUnsaved {};  // thrown where a process is to end without a word, and without a save

class OwnState : public ::testing::Test {
 protected:
  struct Start {
    train::Outcome outcome;
    Tensor weights, random, mean;
  };
  static Start start(const std::filesystem::path& folder, train::testing::ScriptedControl control = {},
                     int64_t points_of = 1) {
    Regression task(points_of);
    const train::TrainerOptions options{
        .recipe =
            recipe::load_defaults({"train.steps=9", "train.checkpoint_every=2", "train.evaluate_every=4",
                                   "optim.lr=0.1", "optim.warmup_steps=3", "train.dtype=fp64"}),
        .run_folder = folder};
    const auto optimizer =
        optim::make_optimizer(options.recipe.recipe.optim, task.parameters(), task.precision());
    observe::EventWriter events({.path = folder / "events.jsonl"});
    parallel::Ranks alone;
    train::Trainer trainer(task, *optimizer, alone, events, storage::local_file_system(), control, options);
    trainer.resume();
    Start result;
    try {
      result.outcome = trainer.run();
    } catch (const KilledUnsaved&) {
    }
    result.weights = task.parameters().all()[0]->value.detach().clone();
    result.random = task.tensors()[0].view.clone();
    result.mean = task.tensors()[1].view.clone();
    return result;
  }
};

TEST_F(OwnState, GoesOnWithTheSameBitsWhereverTheRunIsStopped) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "whole");
  const Start whole = start(folder / "whole");
  EXPECT_EQ(whole.outcome.step, 9);
  for (int64_t stop_after = 1; stop_after < 9; ++stop_after) {
    const auto run = folder / ("stopped-" + std::to_string(stop_after));
    std::filesystem::create_directories(run);
    // Every process does so many steps, however often that is.
    for (int64_t starts = 0; starts < 9; ++starts) {
      train::testing::ScriptedControl control;
      const bool killed = starts % 2 == 1 && stop_after > 2;  // not before a checkpoint is due
      control.stop = [asked = int64_t{0}, stop_after, killed]() mutable {
        if (++asked <= stop_after) return 0;
        return killed ? throw KilledUnsaved() : 15;
      };
      const Start part = start(run, control);
      if (part.outcome.step < 9) continue;
      EXPECT_TRUE(at::equal(part.weights, whole.weights)) << "stopped after every " << stop_after;
      EXPECT_TRUE(at::equal(part.random, whole.random));
      EXPECT_TRUE(at::equal(part.mean, whole.mean));
      break;
    }
  }
}

TEST_F(OwnState, StandsInTheCheckpointBesideTheWeights) {
  const TemporaryFolder folder;
  const Start run = start(folder.path());
  const auto saved =
      storage::open_checkpoint(storage::local_file_system(), folder.path(), storage::Depth::kContents);
  EXPECT_THAT(saved.manifest().tensors, Contains(Key("task.random")));
  EXPECT_EQ(saved.manifest().tensors.at("task.mean").role, "task");
  EXPECT_EQ(saved.manifest().state.at("points_seen"), 9 * kPoints);
  EXPECT_EQ(saved.manifest().data_position, (nlohmann::json{{"points_of", 1}, {"step", 10}}));
  std::vector<std::string> files;
  for (const auto& file : saved.manifest().files) files.push_back(file.name);
  EXPECT_THAT(files,
              ::testing::ElementsAre("model.safetensors", "optimizer.safetensors", "task.safetensors"));
}

TEST_F(OwnState, WhatItMeasuresIsInTheEventsUnderItsNames) {
  const TemporaryFolder folder;
  start(folder.path());
  int64_t steps = 0;
  std::vector<double> evaluations;
  for (const auto& event : observe::read_events(folder / "events.jsonl")) {
    if (const auto* step = std::get_if<observe::StepReport>(&event.body)) {
      ++steps;
      ASSERT_EQ(step->metrics.size(), 1u) << "of no weight is not known";
      const double close = step->metrics.at("close") * kPoints;
      EXPECT_EQ(close, std::round(close));
      EXPECT_LE(close, kPoints);
    } else if (const auto* evaluation = std::get_if<observe::Evaluation>(&event.body)) {
      EXPECT_EQ(evaluation->loss, 0.25);
      EXPECT_FALSE(evaluation->bits_per_byte);
      evaluations.push_back(evaluation->metrics.at("whole"));
    }
  }
  EXPECT_EQ(steps, 9);
  EXPECT_THAT(evaluations, ::testing::ElementsAre(0, 0, 1));
}

TEST_F(OwnState, OtherDataAreRefusedByTheTask) {
  const TemporaryFolder folder;
  start(folder.path());
  try {
    start(folder.path(), {}, /*points_of=*/2);
    ADD_FAILURE() << "it went on with other points";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kData);
    EXPECT_THAT(error.what(), HasSubstr("other points"));
  }
}

TEST(Tasks, TheOptionAndTheListNameTheSame) {
  for (const train::TaskEntry& task : language::tasks()) {
    const std::string name(task.name);
    EXPECT_EQ(recipe::load_defaults({"train.task=" + name}).recipe.train.task, name);
  }
  try {
    train::task_named(language::tasks(), "none");
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    for (const train::TaskEntry& task : language::tasks())
      EXPECT_THAT(error.what(), HasSubstr(std::string(task.name)));
  }
}

}  // namespace
}  // namespace longhaul::run
