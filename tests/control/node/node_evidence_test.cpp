// What a node daemon tells of ranks that hang, and that it stays alive for its driver while it finds out.
#include "base/process/diagnostics.h"
#include "base/process/process.h"
#include "base/process/process_threads.h"
#include "control/node/node_daemon_fixture.h"
#include "observe/board/rank_board.h"

namespace longhaul::control {
namespace {

using ::testing::HasSubstr;

class NodeEvidence : public NodeDaemonTest {
 protected:
  // A program named addr2line, found in front of the system's: it answers once `go_on` is there.
  void put_slow_addr2line() {
    fs::create_directories(folder_ / "bin");
    std::ofstream(folder_ / "bin/addr2line")
        << "#!/bin/sh\n: > " << (folder_ / "asked").string() << "\nwhile [ ! -e "
        << (folder_ / "go_on").string()
        << " ]; do sleep 0.02; done\necho waits_for_data\necho src/loader.cpp:12\n";
    fs::permissions(folder_ / "bin/addr2line", fs::perms::owner_all);
    const char* const path = std::getenv("PATH");
    ::setenv("PATH", ((folder_ / "bin").string() + ":" + (path != nullptr ? path : "")).c_str(), 1);
    path_before_ = path != nullptr ? path : "";
  }
  ~NodeEvidence() override { ::setenv("PATH", path_before_.c_str(), 1); }

  // What a rank that was asked for its stacks leaves on its board; a shell script cannot.
  void leave_stacks_on_board_of_rank_0() {
    const fs::path board = node_folder(run_, "node-0") / "boards/rank-0";
    const pid_t rank = ::fork();
    if (rank == 0) {
      ::setenv("LONGHAUL_BOARD", board.c_str(), 1);
      install_diagnostics();
      set_diagnostics_file(folder_ / "diagnostics");
      const auto writer = observe::BoardWriter::from_environment(0);
      const auto reader = observe::BoardReader::open(board);
      ask_for_diagnostics(::getpid());
      for (const Stopwatch watch; watch.seconds() < 10 && reader->stack_answers() == 0;) pause_briefly();
      ::_exit(reader->stack_answers() > 0 ? 0 : 1);
    }
    int status = 0;
    ::waitpid(rank, &status, 0);
    ASSERT_EQ(status, 0);
  }

  std::string path_before_;
};

// Symbols of large libraries take seconds to read. Without a beat in that time the driver would take the node
// for lost, and ranks whose lease nobody renews would end themselves.
TEST_F(NodeEvidence, BeatsGoOnWhileStacksAreResolved) {
  put_slow_addr2line();
  start_daemon("trap '' USR2; sleep 60");
  start_ranks(1, {0});
  ASSERT_GT(running(1), 0);
  leave_stacks_on_board_of_rank_0();
  send(GatherEvidence{.generation = 1});
  ASSERT_TRUE(until([&] { return fs::exists(folder_ / "asked"); })) << "nobody looked addresses up";
  const size_t before = beats_.size();
  EXPECT_TRUE(until([&] { return beats_.size() >= before + 5; }));
  EXPECT_TRUE(evidence_.empty()) << "the addresses are still being looked up";
  std::ofstream(folder_ / "go_on") << "";
  ASSERT_TRUE(until([&] { return !evidence_.empty(); }));
  EXPECT_THAT(evidence_[0].calls, HasSubstr("waits_for_data at src/loader.cpp:12"));
  EXPECT_TRUE(evidence_.back().last);
}

}  // namespace
}  // namespace longhaul::control
