// The ring of samples that a node daemon writes while its ranks run.
#include <cmath>

#include "base/machine/machine.h"
#include "control/node/node_daemon_fixture.h"
#include "detect/samples/sample_ring.h"

namespace longhaul::control {
namespace {

class NodeSamples : public NodeDaemonTest {};

// The ring of the node: while ranks run a row at each full second, the end when they have ended, and on from
// there by the next daemon.
TEST_F(NodeSamples, SamplesOfTheMachineWhileRanksRun) {
  const fs::path ring = folder_ / "run/samples/node-0.ring";
  const auto rows = [&] {
    return fs::exists(ring) ? detect::read_ring(ring).rows : std::vector<detect::RingRow>();
  };
  start_daemon("echo here; exec sleep 60");
  ASSERT_TRUE(until([&] { return !hellos_.empty(); }));
  loop_.run_for(0.5);
  EXPECT_FALSE(fs::exists(ring)) << "an idle machine is no peer of those that work";
  start_ranks(1, {0});
  ASSERT_TRUE(until([&] { return rows().size() >= 3; }));
  const size_t cpu = detect::metric_named("cpu_usage", ""), memory = detect::metric_named("memory_usage", ""),
               gpu = detect::metric_named("gpu_duty_cycle", "");
  const std::vector<detect::RingRow> measured = rows();
  EXPECT_TRUE(std::isnan(measured[0].values[cpu])) << "the first look has no second before it";
  int on_time = 0;  // at the same moment on all machines; a busy one is late now and then
  for (size_t i = 1; i < measured.size(); ++i) {
    EXPECT_GT(measured[i].time_s - measured[i - 1].time_s, 0.1);
    on_time += std::abs(measured[i].time_s - std::round(measured[i].time_s)) < 0.4;
    EXPECT_GE(measured[i].values[cpu], 0);
    EXPECT_LE(measured[i].values[cpu], 100);
    EXPECT_GT(measured[i].values[memory], 0);
    EXPECT_TRUE(std::isnan(measured[i].values[gpu]));
  }
  EXPECT_GT(on_time, 0);
  EXPECT_EQ(detect::read_ring(ring).owner.host, machine().host);
  send(StopRanks{.generation = 1});
  ASSERT_TRUE(until([&] { return rows().back().ended; }));
  const auto open_files = [&] {
    int64_t open = 0;
    for (const auto& file : fs::directory_iterator(fmt::format("/proc/{}/fd", daemon_))) {
      std::error_code gone;
      open += fs::read_symlink(file.path(), gone) == ring;
    }
    return open;
  };
  EXPECT_TRUE(until([&] { return open_files() == 0; })) << "its file is closed";
  const size_t ended = rows().size();
  start_ranks(2, {0});
  ASSERT_TRUE(until([&] { return rows().size() >= ended + 1; }));
  EXPECT_EQ(open_files(), 1);
  ::kill(daemon_, SIGKILL);
  wait_for_daemon();
  EXPECT_FALSE(rows().back().ended) << "who dies says nothing";
  const size_t before = rows().size();
  hellos_.clear();
  start_daemon("echo here; exec sleep 60");
  start_ranks(3, {0});
  ASSERT_TRUE(until([&] { return rows().size() > before; })) << "the next one goes on in the same ring";
  send(Release{.reason = "done"});
  EXPECT_EQ(wait_for_daemon(), 0);
  EXPECT_TRUE(rows().back().ended);
}

TEST_F(NodeSamples, SamplesOfRanksWhereNodesShareAMachine) {
  const fs::path ring = folder_ / "run/samples/node-0.ring";
  start_daemon("while :; do :; done", [](NodeOptions& options) { options.shares_machine = true; });
  start_ranks(1, {0});
  ASSERT_TRUE(until([&] { return fs::exists(ring) && detect::read_ring(ring).rows.size() >= 3; }));
  const detect::SampleRing read = detect::read_ring(ring);
  EXPECT_TRUE(read.owner.ranks_alone);
  const detect::SampleValues& last = read.rows.back().values;
  EXPECT_GT(last[detect::metric_named("cpu_usage", "")], 0) << "it does nothing else";
  EXPECT_TRUE(std::isnan(last[detect::metric_named("disk_usage", "")])) << "that is the machine's";
}

// Training does not end where samples cannot be written.
TEST_F(NodeSamples, RanksRunWhereNoSamplesCanBeKept) {
  start_daemon("echo here; exec sleep 60");
  make_folders(folder_ / "run");
  std::ofstream(folder_ / "run/samples") << "a file where the folder should be";
  start_ranks(1, {0});
  ASSERT_GT(running(1), 0);
  loop_.run_for(2.5);
  EXPECT_TRUE(exits_.empty());
  send(Release{.reason = "done"});
  EXPECT_EQ(wait_for_daemon(), 0);
}

}  // namespace
}  // namespace longhaul::control
