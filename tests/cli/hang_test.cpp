// ctest: label=multi timeout=300
// `longhaul trace RUN --hang` on ranks that are processes and stand still: one that hangs in its optimizer,
// one that is stopped. Which one it is, in what, with its threads; and the mesh as a picture.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/files/temporary_folder.h"
#include "base/net/network.h"
#include "base/process/process.h"
#include "comm/placement.h"
#include "observe/board/rank_board.h"
#include "support/child.h"
#include "support/known_machine.h"
#include "support/places.h"

namespace longhaul::cli {
namespace {

using ::testing::HasSubstr;
using Words = std::vector<std::string>;

class HangingRun : public ::testing::Test {
 protected:
  static constexpr int kRanks = 4;

  HangingRun() {
    std::filesystem::create_directories(folder_ / "text");
    for (int i = 0; i < 20; ++i)
      std::ofstream(folder_ / "text" / (std::to_string(i) + ".txt")) << std::string(300, 'a') << i << "\n";
    std::ofstream(folder_ / "tiny.toml")
        << "version = 1\n[model]\nlayers = 2\nhidden = 32\nheads = 2\nkv_heads = 2\nhead_dim = 16\n"
           "vocabulary = 257\nmixers = [\"lightning\", \"softmax\"]\nintermediate = 32\nrotary_dim = 8\n"
           "[data]\ntokenizer = \"bytes\"\n[train]\nsteps = 1000000\ndtype = \"fp32\"\nbatch = 4\n"
           "micro_batch = 1\nsequence = 32\nevaluate_every = 0\ncheckpoint_every = 0\nthreads = "
           "1\n[optim]\nschedule = \"constant\"\n"
           "[sample]\ntokens = 0\n[observe]\ncompression_baseline = false\nreport = "
           "false\n[parallel]\njoin_timeout = 60\ntp = 2\n";
  }

  // As the daemon of a node starts them.
  void start(const std::string& faults) {
    const uint16_t port = free_port();
    for (int rank = 0; rank < kRanks; ++rank) {
      Words environment = comm::environment_of_rank(rank, kRanks, port);
      environment.insert(
          environment.end(),
          {"NO_COLOR=1", cache_variable(folder_ / "home"), "LONGHAUL_GENERATION=3", "LONGHAUL_NODE=n0",
           "LONGHAUL_BOARD=" + board(rank).string(), "LONGHAUL_FAULTS=" + faults});
      ranks_.push_back(std::make_unique<Child>(
          Words{program_file(), "train", (folder_ / "tiny.toml").string(),
                "data.source=" + (folder_ / "text").string(), "data.cache=" + (folder_ / "cache").string(),
                "--run", run().string()},
          environment, folder_ / fmt::format("rank-{}.log", rank)));
    }
  }
  std::filesystem::path run() const { return folder_ / "run"; }
  std::filesystem::path board(int rank) const { return folder_ / fmt::format("board-of-{}", rank); }
  observe::RankProgress progress(int rank) const {
    const auto reader = observe::BoardReader::open(board(rank));
    return reader ? reader->progress() : observe::RankProgress{.step = -1};
  }
  bool all_at(int64_t step) const {
    for (int rank = 0; rank < kRanks; ++rank) {
      if (progress(rank).step < step) return false;
    }
    return true;
  }
  // Until nobody has moved for a second.
  void wait_for_standstill() {
    const auto moved = [this] {
      int64_t last = 0;
      for (int rank = 0; rank < kRanks; ++rank) last = std::max(last, progress(rank).progress_ns);
      return last;
    };
    int64_t last = moved();
    Stopwatch since;
    ranks_[0]->wait_for([&] {
      if (const int64_t now = moved(); now != last) last = now, since = Stopwatch();
      return since.seconds() > 1;
    });
  }
  nlohmann::json told() const {
    const ProcessResult result =
        run_process({program_file(), "trace", run().string(), "--hang", "--json"}, {"NO_COLOR=1"}, 60);
    EXPECT_EQ(result.status, 0) << result.errors;
    return nlohmann::json::parse(result.output);
  }

  const TemporaryFolder folder_;
  std::vector<std::unique_ptr<Child>> ranks_;
};

TEST_F(HangingRun, OneThatHangsIsNamedWithTheFunctionItIsIn) {
  start("step.update:step=4:rank=2 hang");
  ASSERT_TRUE(ranks_[0]->wait_for([&] {
    return progress(2).step == 3 && progress(2).phase == observe::RankPhase::kOptimizer;
  })) << ranks_[2]->output();
  wait_for_standstill();
  const nlohmann::json report = told();
  EXPECT_EQ(report.at("kind"), "missing") << report.dump(1);
  ASSERT_EQ(report.at("suspects").size(), 1u) << report.dump(1);
  const nlohmann::json& suspect = report.at("suspects").at(0);
  EXPECT_EQ(suspect.at("rank"), 2);
  EXPECT_EQ(suspect.at("waiting"), 3);
  EXPECT_THAT(suspect.at("text").get<std::string>(), HasSubstr("in optimizer for "));
  EXPECT_THAT(suspect.at("text").get<std::string>(), HasSubstr("(src/train/step.cpp:"));
  EXPECT_THAT(suspect.at("threads").dump(), HasSubstr("longhaul::train::run_step")) << suspect.dump(1);
  EXPECT_THAT(suspect.at("threads").dump(), HasSubstr("fault_point")) << suspect.dump(1);
  const std::string picture = read_text(run() / "trace" / "hang.svg");
  EXPECT_THAT(picture, HasSubstr("class=\"field suspect\"><title>rank 2 never came to"));
  const observe::RankProgress now = progress(2);
  EXPECT_EQ(now.generation, 3);
  EXPECT_EQ(now.node, "n0");
  EXPECT_GT(now.loss, 0);
  EXPECT_GT(now.step_seconds, 0);
  EXPECT_GT(now.phase_seconds[static_cast<size_t>(observe::RankPhase::kForward)], 0);
  EXPECT_GT(now.phase_seconds[static_cast<size_t>(observe::RankPhase::kBackward)], 0);
  EXPECT_EQ(monotonic_ns() - now.beat_ns < 3'000'000'000, true);  // it is alive all the same
}

TEST_F(HangingRun, OneThatIsStoppedIsNamedWithoutItsHelp) {
  start("");
  ASSERT_TRUE(ranks_[0]->wait_for([&] { return all_at(2); })) << ranks_[0]->output();
  ranks_[1]->send(SIGSTOP);
  ::sleep(5);  // without a beat
  const nlohmann::json report = told();
  EXPECT_EQ(report.at("kind"), "frozen") << report.dump(1);
  ASSERT_EQ(report.at("suspects").size(), 1u) << report.dump(1);
  EXPECT_EQ(report.at("suspects").at(0).at("rank"), 1);
  EXPECT_THAT(report.at("suspects").at(0).at("threads").dump(), HasSubstr("(T, waits in ")) << report.dump(1);
  ranks_[1]->send(SIGCONT);
}

TEST_F(HangingRun, WhereNobodyTellsAnythingThatIsSaid) {
  std::filesystem::create_directories(run());
  const ProcessResult result =
      run_process({program_file(), "trace", run().string(), "--hang"}, {"NO_COLOR=1"}, 60);
  EXPECT_EQ(result.status, 64);
  EXPECT_THAT(result.errors, HasSubstr("nothing is known of the calls of this run's ranks"));
}

}  // namespace
}  // namespace longhaul::cli
