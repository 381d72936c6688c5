// ctest: label=fault timeout=600 Runs whose ranks are processes on nodes with memory tiers, killed in each
// phase of a step and of a checkpoint: the next start goes on from memory, with at most the step that was
// under way lost, and every loss and every bit of the last checkpoint is that of the run that nobody
// disturbed. A node that is lost with its folder, and copies that are damaged, are made up for by the others.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <deque>
#include <fstream>
#include <set>

#include "base/files/temporary_folder.h"
#include "base/net/network.h"
#include "checkpoint/run_difference.h"
#include "comm/placement.h"
#include "observe/events/event_log.h"
#include "support/child.h"
#include "support/known_machine.h"
#include "support/nightly.h"
#include "support/places.h"

namespace longhaul::cli {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// One folder for all tests: what nobody disturbed is run once for all that compare with it.
class MemoryTierRun : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { shared_ = std::make_unique<TemporaryFolder>(); }
  static void TearDownTestSuite() { shared_.reset(); }
  MemoryTierRun() {
    fs::create_directories(folder_ / "text");
    for (int i = 0; i < 20; ++i)
      std::ofstream(folder_ / "text" / (std::to_string(i) + ".txt")) << std::string(300, 'a') << i << "\n";
    std::ofstream(folder_ / "tiny.toml")
        << "version = 1\n[model]\nlayers = 2\nhidden = 32\nheads = 2\nkv_heads = 2\nhead_dim = 16\n"
           "vocabulary = 257\nmixers = [\"lightning\", \"softmax\"]\nintermediate = 32\nrotary_dim = 8\n"
           "[data]\ntokenizer = \"bytes\"\n[train]\nsteps = 8\ndtype = \"bf16\"\nbatch = 4\n"
           "micro_batch = 1\nsequence = 32\nevaluate_every = 0\ncheckpoint_every = "
           "0\ncheckpoint_memory_every = 1\nthreads = 1\n"
           "[optim]\nschedule = \"constant\"\nwarmup_steps = 2\n[parallel]\nzero = 1\njoin_timeout = 30\n"
           "[sample]\ntokens = 0\n[observe]\ncompression_baseline = false\nreport = false\ntensorboard = "
           "false\n";
  }
  ~MemoryTierRun() override {
    for (const std::string name : {"a", "b", "c", "z"}) fs::remove_all(tier(name));
  }

  // In the machine's memory, as they are.
  fs::path tier(const std::string& node) const {
    return fs::path("/dev/shm") / (folder_.filename().string() + "-" + node);
  }

  // The run that nobody disturbs, on so many nodes.
  void run_whole(const Words& nodes, const Words& more = {}) {
    whole_ = fmt::format("whole-{}{}", nodes.size(), more.empty() ? "" : "-" + more[0]);
    if (!fs::exists(folder_ / whole_)) {
      EXPECT_THAT(start(whole_, nodes, "", more), ::testing::Each(0)) << log(whole_);
    }
  }

  // All ranks, one on each of the nodes. Their exit codes.
  std::vector<int> start(const std::string& run, const Words& nodes, const std::string& faults = "",
                         const Words& more = {}) {
    const uint16_t port = free_port();
    const auto size = static_cast<int64_t>(nodes.size());
    std::vector<std::unique_ptr<Child>> ranks;
    for (int64_t rank = 0; rank < size; ++rank) {
      std::vector<std::string>& environment =
          environments_.emplace_back(comm::environment_of_rank(rank, size, port));
      const std::string& node = nodes[static_cast<size_t>(rank)];
      environment.insert(environment.end(),
                         {"LONGHAUL_MEMORY_TIER=" + tier(node).string(), "LONGHAUL_NODE=" + node,
                          "OMP_WAIT_POLICY=passive", cache_variable(folder_ / "cache")});
      if (!faults.empty()) environment.push_back("LONGHAUL_FAULTS=" + faults);
      Words words{program_file(), "train", (folder_ / "tiny.toml").string(),
                  "data.source=" + (folder_ / "text").string(), "data.cache=" + (folder_ / "cache").string()};
      words.insert(words.end(), more.begin(), more.end());
      words.insert(words.end(), {"--run", (folder_ / run).string()});
      ranks.push_back(
          std::make_unique<Child>(words, environment, folder_ / fmt::format("{}-{}.log", run, rank)));
    }
    std::vector<int> codes;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      codes.push_back(ranks[rank]->wait());
      // As the node's daemon does it: nobody waits for what will not come.
      for (size_t other = rank + 1; codes.back() != 0 && other < ranks.size(); ++other)
        ranks[other]->send(SIGKILL);
    }
    return codes;
  }
  std::string log(const std::string& run, int64_t rank = 0) const {
    return read_text(folder_ / fmt::format("{}-{}.log", run, rank));
  }

  template <class Type>
  std::vector<Type> events(const std::string& run) const {
    std::vector<Type> found;
    for (const auto& event : observe::read_events(folder_ / run / "events.jsonl")) {
      if (const auto* body = std::get_if<Type>(&event.body)) found.push_back(*body);
    }
    return found;
  }

  // Every loss and norm, also those of steps that were done twice; every tensor of the last checkpoint.
  void expect_undisturbed(const std::string& run) const {
    const auto whole = events<observe::StepReport>(whole_);
    for (const auto& step : events<observe::StepReport>(run)) {
      EXPECT_EQ(step.loss, whole[static_cast<size_t>(step.step - 1)].loss) << run << " step " << step.step;
      EXPECT_EQ(step.grad_norm, whole[static_cast<size_t>(step.step - 1)].grad_norm)
          << run << " step " << step.step;
    }
    const auto found = checkpoint::compare_runs(folder_ / run, folder_ / whole_, 0);
    EXPECT_EQ(found.equal_steps, (std::vector<int64_t>{8})) << run;
    for (const std::string node : {"a", "b", "c", "z"}) {
      if (!fs::exists(tier(node))) continue;
      for (const auto& left : fs::directory_iterator(tier(node)))
        ADD_FAILURE() << run << ": left behind in memory: " << left.path();
    }
  }
  int64_t resumed_at(const std::string& run) const {
    const auto resumed = events<observe::Resume>(run);
    if (resumed.empty()) return -1;
    EXPECT_EQ(resumed.back().source, "memory") << run;
    return resumed.back().step;
  }

  static inline std::unique_ptr<TemporaryFolder> shared_;
  const fs::path folder_ = shared_->path();
  std::string whole_;
  std::deque<std::vector<std::string>> environments_;
};

TEST_F(MemoryTierRun, KilledInEachPhaseItGoesOnFromMemory) {
  const Words nodes{"a", "b"};
  run_whole(nodes);
  const char* const points[] = {"step.passes",        "step.update",      "step.updated",
                                "memory.write",       "memory.replicate", "memory.before_commit",
                                "memory.after_commit"};
  const std::set<std::string> at_night = {"step.passes", "step.updated"};  // by day SupervisedRun kills there
  int64_t rank = 0;
  for (const std::string point : points) {
    if (at_night.contains(point) && !longhaul::testing::takes_all()) continue;
    rank = 1 - rank;
    const std::string run = "killed-" + point;
    EXPECT_THAT(start(run, nodes, fmt::format("{}:step=5:rank={} kill", point, rank)),
                ::testing::Contains(128 + SIGKILL))
        << log(run);
    EXPECT_THAT(start(run, nodes), ::testing::Each(0)) << log(run);
    // The step before was whole in memory when this one ended; its own save may have been under way.
    EXPECT_THAT(resumed_at(run), ::testing::AllOf(::testing::Ge(3), ::testing::Le(5))) << run;
    if (!point.starts_with("step.")) {
      EXPECT_GE(resumed_at(run), 4) << run;
    }
    expect_undisturbed(run);
  }
}

// While a start puts together what is left, ranks are killed again; and again.
TEST_F(MemoryTierRun, KilledWhileItRecovers) {
  const Words nodes{"a", "b"};
  run_whole(nodes);
  EXPECT_THAT(start("recovers", nodes, "step.update:step=5:rank=0 kill"), ::testing::Contains(128 + SIGKILL));
  fs::remove_all(tier("a"));
  for (const char* point : {"start.inventory", "start.fetch", "start.load"}) {
    EXPECT_THAT(start("recovers", {"z", "b"}, std::string(point) + ":rank=0 kill"),
                ::testing::Contains(128 + SIGKILL))
        << log("recovers");
  }
  EXPECT_THAT(start("recovers", {"z", "b"}), ::testing::Each(0)) << log("recovers");
  EXPECT_GE(resumed_at("recovers"), 3);
  expect_undisturbed("recovers");
}

// The node goes with its rank and its memory; a spare takes its place. Three nodes, replicas go around.
TEST_F(MemoryTierRun, ANodeIsLostAndASpareTakesItsPlace) {
  run_whole({"a", "b", "c", "z"});
  EXPECT_THAT(start("spare", {"a", "b", "c", "z"}, "memory.write:step=6:rank=1 kill"),
              ::testing::Contains(128 + SIGKILL));
  fs::remove_all(tier("b"));
  EXPECT_THAT(start("spare", {"a", "y", "c", "z"}), ::testing::Each(0)) << log("spare");
  EXPECT_EQ(resumed_at("spare"), 5);
  EXPECT_THAT(log("spare"), ::testing::HasSubstr("came from other nodes' memory"));
  fs::remove_all(tier("y"));
  expect_undisturbed("spare");
}

// On fewer ranks: data parallelism shrinks to the nodes that are left. Sums of gradients are taken in another
// order unless train.elastic.
TEST_F(MemoryTierRun, FewerRanksGoOnWithTheSameBits) {
  const Words elastic{"train.elastic=true"};
  run_whole({"a", "b"}, elastic);
  EXPECT_THAT(start("fewer", {"a", "b"}, "step.passes:step=6:rank=1 kill", elastic),
              ::testing::Contains(128 + SIGKILL));
  fs::remove_all(tier("b"));
  EXPECT_THAT(start("fewer", {"a"}, "", elastic), ::testing::Each(0)) << log("fewer");
  EXPECT_GE(resumed_at("fewer"), 4);
  expect_undisturbed("fewer");
}

// Bytes that rot in memory: the replica is taken, and the log says so.
TEST_F(MemoryTierRun, DamagedMemoryIsMadeUpFor) {
  run_whole({"a", "b"});
  EXPECT_THAT(start("damaged", {"a", "b"}, "step.passes:step=6:rank=0 kill"),
              ::testing::Contains(128 + SIGKILL));
  int damaged = 0;
  for (const auto& entry : fs::recursive_directory_iterator(tier("a"))) {
    if (entry.path().filename() != "optimizer-00001-of-00002.safetensors") continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-9, std::ios::end);
    file.put('!');
    ++damaged;
  }
  EXPECT_GE(damaged, 1);
  EXPECT_THAT(start("damaged", {"a", "b"}), ::testing::Each(0)) << log("damaged");
  EXPECT_GE(resumed_at("damaged"), 4);
  EXPECT_THAT(log("damaged"), ::testing::HasSubstr("in the memory of node a"));
  expect_undisturbed("damaged");
}

}  // namespace
}  // namespace longhaul::cli
