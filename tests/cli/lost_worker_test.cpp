// ctest: label=fault timeout=600
// A worker of an outer loop that is lost in the middle of a round ends the round, not the run: under
// `longhaul launch` ranks begin again at what the memory of nodes has of the round before. Where as many
// workers come back every loss is that of a run to which nothing happened, in every bit; where fewer go on,
// that of a run that was stopped there and continued with so many: each has the optimizer's states of a
// worker that was, all begin at the weights that were agreed on, and what was on its way is dropped.
#include "cli/supervised_run.h"

namespace longhaul::cli {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kRound = 6, kMiddle = 3 * kRound + 3;  // of the fourth round: the first ones are in memory

class LostWorker : public SupervisedRun {
 protected:
  static Words outer(const std::string& method, int64_t steps) {
    return {fmt::format("train.steps={}", steps),
            "train.batch=12",
            "train.checkpoint_memory_every=1",
            "optim.warmup_steps=1",
            "optim.outer=" + method,
            fmt::format("optim.outer_every={}", kRound)};
  }
  observe::Resume resumed() const {
    const auto all = events<observe::Resume>();
    return all.empty() ? observe::Resume{} : all.back();
  }
};

TEST_F(LostWorker, ComesBackAndNothingButTheRoundIsDoneAgain) {
  for (const std::string method : {"co2", "delay_corrected"}) {
    const Words options = outer(method, 42);
    fs::remove_all(run_);
    const auto expected = undisturbed(options, 3);
    ASSERT_EQ(expected.size(), 42u);
    Child child(
        words({"launch", "-n", "3"}, options),
        {"NO_COLOR=1", fmt::format("LONGHAUL_FAULTS=step.passes:step={}:rank=1:generation=1 kill", kMiddle)},
        folder_ / "output");
    EXPECT_EQ(child.wait(), 0) << child.output();
    EXPECT_EQ(losses(run_), expected) << method;
    EXPECT_EQ(generation(), 2);
    EXPECT_EQ(resumed().source, "memory");
    EXPECT_GE(resumed().step, kRound) << method;
    // a save may be under way
    EXPECT_LE(last_incident().value("lost_steps", 100), 2 * kRound) << last_incident();
    EXPECT_EQ(last_incident().value("rank", -1), 1) << last_incident();
  }
}

TEST_F(LostWorker, TheOthersGoOnWithoutIt) {
  const Words options = outer("co2", 42);
  Words saved = options;
  saved.insert(saved.end(), {"train.checkpoint_every=1", "train.checkpoint_keep=0"});
  run_undisturbed(saved, 3);

  Child child(words({"launch", "-n", "3", "--nodes", "3", "--spares", "1"}, options),
              {"NO_COLOR=1", stops_at(kMiddle, 1)}, folder_ / "output");
  const auto lose = [&](const std::string& name) {
    pid_t daemon = -1;
    ASSERT_TRUE(child.wait_for([&] { return (daemon = node(name).value("pid", -1)) > 1; })) << child.output();
    ::kill(daemon, SIGKILL);
  };
  lose("node-3");  // nobody takes the place, and with spares no daemon is started again
  ASSERT_GT(stopped(child, 1), 1) << child.output();
  lose("node-1");
  EXPECT_EQ(child.wait(), 0) << child.output();
  const int64_t step = resumed().step;
  EXPECT_EQ(resumed().source, "memory");
  ASSERT_GE(step, kRound);  // of the rounds before one may still be saved when the node is lost
  // rank 0 speaks to the terminal
  EXPECT_THAT(child.output(), HasSubstr("the checkpoint is of 3 workers, and 2 go on"));

  // The run that was stopped at that step and continued by two.
  const fs::path again = folder_ / "undisturbed";
  for (const auto& entry : fs::directory_iterator(again / "checkpoints")) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("step-") && std::stoll(name.substr(5, 9)) > step) fs::remove_all(entry.path());
  }
  fs::remove(again / "checkpoints" / "latest");
  const auto expected = run_undisturbed(options, 2), found = losses(run_);
  ASSERT_EQ(found.size(), 42u);
  EXPECT_EQ(found, expected);
}

}  // namespace
}  // namespace longhaul::cli
