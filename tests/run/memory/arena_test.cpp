// ctest: label=full timeout=300
// Whole runs whose passes have planned addresses (train.arena): every number has the bits that it has
// without, in memory that is NaN before it is written, and a later start has the plan of the first.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files/file.h"
#include "checkpoint/run_difference.h"
#include "run/language_run.h"
#include "run/run_fixture.h"
#include "run/tiny_run.h"
#include "support/tensors.h"
#include "train/step_arena.h"

namespace longhaul::run {
namespace {

using Settings = std::vector<std::string>;

class ArenaRuns : public RunFixture {
 protected:
  ArenaRuns() {
    write_text([](int i) { return 60 + i % 7; });
  }
  void train(const std::string& name, const Settings& more) const {
    Settings all = tiny_run(folder_.path());
    for (const char* own : {"model.hidden=96", "model.intermediate=128", "train.sequence=192",
                            "train.batch=4", "train.micro_batch=2", "train.steps=4",
                            "train.checkpoint_every=2", "train.checkpoint_keep=0", "train.evaluate_every=0"})
      all.emplace_back(own);
    all.insert(all.end(), more.begin(), more.end());
    run_training({.recipe = recipe::load_defaults(all), .run_folder = folder_ / name, .quiet = true});
  }
  void expect_equal(const std::string& name, const std::string& reference) const {
    // A run that was stopped has done some steps twice.
    const std::vector<double> own = losses(name), of_reference = losses(reference);
    EXPECT_EQ(std::vector(own.end() - 2, own.end()), std::vector(of_reference.end() - 2, of_reference.end()));
    EXPECT_EQ(own[0], of_reference[0]);
    const auto checkpoints = checkpoint::compare_runs(folder_ / reference, folder_ / name, 0);
    EXPECT_EQ(checkpoints.equal_steps, (std::vector<int64_t>{2, 4})) << name;
  }
  std::vector<std::filesystem::path> plans_of(const std::string& run) const {
    std::vector<std::filesystem::path> plans = list_files(folder_ / run / "arena");
    std::erase_if(plans, [](const auto& path) { return path.extension() != ".json"; });
    return plans;
  }
  std::vector<double> metric(const std::string& run, const std::string& name) const {
    std::vector<double> all;
    for (const auto& step : events<observe::StepReport>(run)) all.push_back(step.metrics.at(name));
    return all;
  }
};

TEST_F(ArenaRuns, AddressesChangeNoBit) {
  const testing::PoisonFreshMemory poison;
  int64_t i = 0;
  for (const Settings& way :
       {Settings{}, Settings{"train.recompute=selective", "train.dtype=fp32"},
        Settings{"train.recompute=full"}, Settings{"train.recompute=tokens", "train.offload=host"},
        Settings{"model.experts=0", "train.recompute=tokens"}}) {
    const std::string name = std::to_string(i++), planned = name + " planned";
    Settings with = way;
    train(name, with);
    with.emplace_back("train.arena=true");
    train(planned, with);
    expect_equal(planned, name);
  }
  // Experts have other rows in each step, and documents other lengths; nothing else is missed.
  for (const double bytes : metric("4 planned", "memory/arena_missed_bytes"))
    EXPECT_LT(bytes, 0.25 * metric("4 planned", "memory/arena_live_bytes")[0]);
  for (size_t step = 0; step < 4; ++step) {
    EXPECT_LE(metric("4 planned", "memory/arena_bytes")[step],
              1.02 * metric("4 planned", "memory/arena_live_bytes")[step]);
    EXPECT_GE(metric("4 planned", "memory/arena_bytes")[step],
              metric("4 planned", "memory/arena_live_bytes")[step]);
  }
}

// Every step asks for the same: nothing is missed, and after the second step the heap takes nothing more.
TEST_F(ArenaRuns, AlikeStepsMissNothing) {
  const Settings alike = {"model.experts=0", "model.mixers=softmax", "train.steps=6", "train.arena=true",
                          "train.checkpoint_every=0"};
  train("alike", alike);
  EXPECT_THAT(metric("alike", "memory/arena_missed"), ::testing::Each(0));
  const std::vector<double> held = metric("alike", "memory/held_bytes");
  for (size_t step = 2; step < held.size(); ++step) EXPECT_EQ(held[step], held[1]) << step;
}

TEST_F(ArenaRuns, AStartFromACheckpointHasThePlanOfTheFirst) {
  train("whole", {});
  const Settings planned = {"train.arena=true"};
  train("stopped", planned);
  const auto plans = plans_of("stopped");
  ASSERT_EQ(plans.size(), 1u);
  EXPECT_THAT(read_text(std::filesystem::path(plans[0]).replace_extension(".svg")),
              ::testing::HasSubstr("<rect class=\"kept\""));
  const auto path = plans_of("stopped")[0];
  train::KeptPlan plan = train::read_plan(path);
  plan.live_bytes = 12345;  // to be known again
  train::write_plan(path, plan);
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "stopped" / "checkpoints")) {
    if (entry.path().filename().string().find('4') != std::string::npos)
      std::filesystem::remove_all(entry.path());
  }
  train("stopped", planned);
  EXPECT_EQ(metric("stopped", "memory/arena_live_bytes").back(), 12345);
  expect_equal("stopped", "whole");
}

TEST_F(ArenaRuns, RanksHaveTheirOwn) {
  for (const Settings& layout : {Settings{"parallel.ranks=2", "parallel.zero=3", "train.micro_batch=1"},
                                 Settings{"parallel.ranks=2", "parallel.pp=2"}}) {
    const std::string name = layout[1].substr(9);
    train(name, layout);
    Settings with = layout;
    with.emplace_back("train.arena=true");
    train(name + " planned", with);
    EXPECT_EQ(losses(name + " planned"), losses(name));
    EXPECT_EQ(plans_of(name + " planned").size(), 2u);
  }
}

}  // namespace
}  // namespace longhaul::run
