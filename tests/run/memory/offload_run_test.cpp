// ctest: label=full timeout=300
// Whole runs that move what layers keep to the host, and from there to a file: the same losses on a disk that
// is full, and behind a kill in the middle of a step, which leaves no file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files/file.h"
#include "base/files/small_disk.h"
#include "run/language_run.h"
#include "run/run_fixture.h"
#include "run/tiny_run.h"
#include "support/child.h"
#include "support/places.h"

namespace longhaul::run {
namespace {

using Settings = std::vector<std::string>;

class OffloadRuns : public RunFixture {
 protected:
  OffloadRuns() {
    write_text([](int i) { return 60 + i % 7; });
    std::filesystem::create_directories(moved_to_);
  }
  Settings settings(const Settings& more) const {
    Settings all = tiny_run(folder_.path());
    for (const char* own :
         {"model.layers=4", "model.hidden=96", "train.sequence=192", "train.batch=4", "train.micro_batch=2",
          "train.steps=5", "train.checkpoint_every=2", "train.evaluate_every=0", "train.recompute=tokens"})
      all.emplace_back(own);
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  void train(const std::string& name, const Settings& more) const {
    run_training(
        {.recipe = recipe::load_defaults(settings(more)), .run_folder = folder_ / name, .quiet = true});
  }
  // One byte of the host: all that moves goes to the file.
  Settings to_file() const {
    return {"train.offload=host", "train.offload_memory=1", "train.offload_share=0.5",
            "train.offload_folder=" + moved_to_.string()};
  }
  std::vector<double> metric(const std::string& run, const std::string& name) const {
    std::vector<double> all;
    for (const auto& step : events<observe::StepReport>(run)) all.push_back(step.metrics.at(name));
    return all;
  }

  std::filesystem::path moved_to_ = folder_ / "moved";
};

TEST_F(OffloadRuns, StepsTellWhatMoved) {
  train("none", {});
  train("file", to_file());
  train("host", {"train.offload=host", "train.offload_share=auto"});
  EXPECT_EQ(losses("file"), losses("none"));
  EXPECT_EQ(losses("host"), losses("none"));
  for (size_t step = 0; step < 5; ++step) {
    EXPECT_GT(metric("file", "offload/moved_bytes")[step], 100'000);
    EXPECT_EQ(metric("file", "offload/moved_bytes")[step], metric("file", "offload/file_bytes")[step]);
    EXPECT_EQ(metric("file", "offload/stayed_bytes")[step], 0);
    EXPECT_GT(metric("host", "offload/moved_bytes")[step], 100'000);
    EXPECT_EQ(metric("host", "offload/file_bytes")[step], 0);
    EXPECT_GT(metric("host", "offload/host_bytes")[step], 100'000);
    EXPECT_GE(metric("host", "offload/waited_seconds")[step], 0);
  }
  const auto last = events<observe::StepReport>("host").back().metrics;
  for (const int64_t layer : {0, 1, 2, 3}) {
    const auto share = last.find("offload/share_layer_" + std::to_string(layer));
    ASSERT_NE(share, last.end()) << layer;
    EXPECT_GE(share->second, 0);
    EXPECT_LE(share->second, layer < 2 ? 1 : 0) << "the last two stay";
  }
  EXPECT_FALSE(events<observe::StepReport>("file").back().metrics.contains("offload/share_layer_0"));
  EXPECT_TRUE(std::filesystem::is_empty(moved_to_));
}

TEST_F(OffloadRuns, AFullDiskChangesNoLoss) {
  const SmallDisk disk(moved_to_, 128 << 10);
  if (!disk.usable()) GTEST_SKIP() << "this user may not mount";
  train("none", {});
  train("full", to_file());
  EXPECT_EQ(losses("full"), losses("none"));
  EXPECT_GT(metric("full", "offload/stayed_bytes").back(), 100'000);
  EXPECT_EQ(metric("full", "offload/file_bytes").back(), 0);
}

TEST_F(OffloadRuns, AKillLeavesNoFileAndTheRunGoesOn) {
  train("undisturbed", to_file());
  std::ofstream(folder_ / "empty.toml") << "";
  std::vector<std::string> words = {program_file(), "train", (folder_ / "empty.toml").string(), "--run",
                                    (folder_ / "killed").string()};
  for (const std::string& each : settings(to_file())) words.push_back(each);
  {
    Child child(words, {"NO_COLOR=1", "LONGHAUL_FAULTS=step.reduce:step=4 kill"}, folder_ / "output");
    EXPECT_EQ(child.wait(), 128 + SIGKILL) << child.output();
  }
  EXPECT_TRUE(std::filesystem::is_empty(moved_to_));
  EXPECT_EQ(losses("killed").size(), 3u);
  Child again(words, {"NO_COLOR=1"}, folder_ / "output");
  EXPECT_EQ(again.wait(), 0) << again.output();
  std::vector<double> steps = losses("killed");  // 1, 2, 3, and 3 to 5 behind the checkpoint of step 2
  ASSERT_EQ(steps.size(), 6u);
  EXPECT_EQ(steps[2], steps[3]);
  steps.erase(steps.begin() + 2);
  EXPECT_EQ(steps, losses("undisturbed"));
  EXPECT_TRUE(std::filesystem::is_empty(moved_to_));
}

}  // namespace
}  // namespace longhaul::run
