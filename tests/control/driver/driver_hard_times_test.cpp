// ctest: label=fault timeout=300
// What an operator's machines do to a driver: disks that take nothing or cannot be listed, daemons that a
// supervisor starts again, a driver that stands, a journal that is gone, strangers at its port. Processes as
// in driver_service_test.cpp.
#include <csignal>

#include "control/driver/driver_service_fixture.h"
#include "control/wire/channel.h"

namespace longhaul::control {
namespace {

using ::testing::HasSubstr;

class DriverHardTimes : public DriverServiceTest {
 protected:
  ~DriverHardTimes() override {
    for (const pid_t daemon : daemons_) {
      ::kill(daemon, SIGKILL);
      exit_of(daemon);
    }
  }
  // Two nodes that come by themselves, as systemd, pods and loops start them.
  void start_with_machines() {
    nodes(2, 0);
    options_.local_nodes = 0;
    options_.policy.restart_nodes = true;
    start();
    ASSERT_TRUE(
        until([&] { return fs::exists(run_ / "control/address") && fs::exists(run_ / "control/secret"); }));
    for (const char* name : {"m1", "m2"}) start_daemon(name);
  }
  pid_t start_daemon(const std::string& name) {
    return daemons_.emplace_back(
        start_child({.argv = {options_.program, "node", "--driver", run_ / "control/address", "--secret",
                              run_ / "control/secret", "--name", name, "--slots", "1"}}));
  }
  // A limit on the size of files stands for a disk that takes nothing more.
  void disk_is_full(bool full) {
    if (full) {
      ASSERT_EQ(::prlimit(driver_, RLIMIT_FSIZE, nullptr, &room_), 0);
      const rlimit none{.rlim_cur = 1, .rlim_max = room_.rlim_max};
      ASSERT_EQ(::prlimit(driver_, RLIMIT_FSIZE, &none, nullptr), 0);
    } else {
      ASSERT_EQ(::prlimit(driver_, RLIMIT_FSIZE, &room_, nullptr), 0);
    }
  }
  void whole_journal() const {
    const std::string text = read_text(run_ / "control/journal.jsonl");
    EXPECT_NO_THROW(journal_from_text(text, "the journal"));  // no entry is left out
    EXPECT_THAT(text, HasSubstr("run_ended"));
  }
  Endpoint address() const {
    std::string text = read_text(run_ / "control/address");
    text.pop_back();
    return parse_endpoint(text, "address");
  }
  rlimit room_{};
  std::vector<pid_t> daemons_;
};

TEST_F(DriverHardTimes, ADaemonThatItsSupervisorStartsAgainAtOnce) {
  add({"hold=12"});
  start_with_machines();
  ASSERT_GT(runs_at(12), 1) << status();
  const pid_t before = node("m2").value("pid", -1);
  ASSERT_EQ(before, daemons_[1]);
  ::kill(before, SIGKILL);
  int status_of_it = 0;
  ASSERT_EQ(::waitpid(before, &status_of_it, 0), before);
  const pid_t again = start_daemon("m2");
  ASSERT_TRUE(until([&] { return generation() == 2 && node("m2").value("state", "") == "active"; }))
      << status();
  EXPECT_EQ(node("m2").value("pid", -1), again);
  EXPECT_EQ(status().at("ranks").size(), 2U) << "the whole width";
  go();
  EXPECT_EQ(wait(), 0);
  EXPECT_EQ(losses().size(), 100u);
}

TEST_F(DriverHardTimes, ADriverThatStandsForLongerThanSilenceLasts) {
  options_.policy.node_silent_s = 2;
  nodes(2, 0);
  add({"steps=100000"});
  start();
  ASSERT_GT(runs_at(5), 1);
  for (int times = 0; times < 2; ++times) {  // the second used to evict
    ::kill(driver_, SIGSTOP);
    ::usleep(4'000'000);
    ::kill(driver_, SIGCONT);
    const double then = status().value("updated_wall_time", 0.0);
    ASSERT_TRUE(until([&] { return status().value("updated_wall_time", 0.0) > then + 2; }));
  }
  EXPECT_EQ(generation(), 1);
  EXPECT_TRUE(incident().empty()) << incident();
  EXPECT_EQ(node("node-1").value("state", ""), "active");
  ::kill(driver_, SIGTERM);
  EXPECT_EQ(wait(), 74);
}

TEST_F(DriverHardTimes, ANodeIsEvictedWhileTheDiskIsFull) {
  nodes(2, 1);
  ASSERT_GT(start_and_hold(), 1);
  ASSERT_TRUE(until([&] { return node("node-2").value("state", "") == "spare"; })) << status();
  disk_is_full(true);
  ask_driver(run_, EvictRequest{.target = "1", .reason = "fan is loud"});
  ASSERT_TRUE(until([&] { return fs::exists(run_ / "at-2-1"); })) << "the next generation runs";
  EXPECT_THAT(status_of_run(run_).text, HasSubstr("\"node-2\""));
  disk_is_full(false);
  ASSERT_TRUE(until([&] { return fs::exists(run_ / "control/blocked.json"); }))
      << "written when there was room again";
  EXPECT_THAT(read_text(run_ / "control/blocked.json"), HasSubstr("fan is loud"));
  go();
  EXPECT_EQ(wait(), 0);
  EXPECT_EQ(losses().size(), 100u);
  EXPECT_EQ(node("node-2").value("state", ""), "active");
  whole_journal();
}

// A file where the folder should be: listing it is an error, as EIO and ESTALE of a shared disk are.
TEST_F(DriverHardTimes, CheckpointsThatCannotBeListed) {
  std::ofstream(run_ / "checkpoints") << "no folder";
  ASSERT_GT(start_and_hold(), 1);
  const double then = status().value("updated_wall_time", 0.0);
  ASSERT_TRUE(until([&] { return status().value("updated_wall_time", 0.0) > then + 1.5; }))
      << "it was looked for several times";
  go();
  EXPECT_EQ(wait(), 0);
  EXPECT_EQ(losses().size(), 100u);
  EXPECT_EQ(generation(), 1);
}

TEST_F(DriverHardTimes, AJournalThatIsGone) {
  nodes(2, 0);
  const pid_t rank = start_and_hold();
  ASSERT_GT(rank, 1);
  ::kill(rank, SIGKILL);  // so that there is more than a first generation
  ASSERT_TRUE(until([&] { return generation() == 2 && rank_runs_at(12); }));
  ::kill(driver_, SIGKILL);
  EXPECT_EQ(wait(), 137);
  fs::rename(run_ / "control/journal.jsonl", run_ / "control/journal.old");
  start();
  ASSERT_TRUE(until([&] { return generation() == 3; })) << status();
  go();
  EXPECT_EQ(wait(), 0);
  EXPECT_EQ(losses().size(), 100u);
  whole_journal();
}

TEST_F(DriverHardTimes, WithoutJournalAndStatusTheNodesTellTheGeneration) {
  ASSERT_GT(start_and_hold(), 1);
  ::kill(driver_, SIGKILL);
  EXPECT_EQ(wait(), 137);
  fs::remove(run_ / "control/journal.jsonl");
  fs::remove(run_ / "control/status.json");
  start();
  ASSERT_TRUE(until([&] { return generation() == 2; })) << status();
  go();
  EXPECT_EQ(wait(), 0);
  EXPECT_EQ(losses().size(), 100u);
}

// An evicted machine's daemon that its supervisor starts again and again, two machines of one name, an old
// version.
TEST_F(DriverHardTimes, ManyRefusedNodesKeepNobodyOut) {
  add({"steps=100000"});
  start();
  ASSERT_GT(runs_at(5), 1);
  EventLoop loop;
  const Keys keys = node_keys(run_ / "control/secret", "old");
  for (int i = 0; i < 70; ++i) {
    std::shared_ptr<Channel> channel;
    bool over = false;
    channel = Channel::make(
        loop, Socket::connect(address()), Handshake(keys, own_identity("node", "old", "", 0), false),
        {.opened =
             [&](const Identity&) {
               channel->send(to_text(NodeMessage{NodeHello{.version = "0", .node = "old"}}));
             },
         .message = [](std::string_view) {},
         .closed =
             [&](const Channel::Closing&) {
               over = true;
               loop.stop();
             }});
    loop.run_for(5);
    ASSERT_TRUE(over) << i;
  }
  EXPECT_TRUE(status_of_run(run_).from_driver);
  ::kill(driver_, SIGTERM);
  EXPECT_EQ(wait(), 74);
}

TEST_F(DriverHardTimes, StrangersWhoSayNothingKeepNobodyOut) {
  add({"steps=100000"});
  start();
  ASSERT_GT(runs_at(5), 1);
  std::vector<Socket> idle;
  for (int i = 0; i < 200; ++i) idle.push_back(Socket::connect(address()));
  EXPECT_TRUE(status_of_run(run_).from_driver);
  EXPECT_THAT(json::parse(status_of_run(run_).text).at("state").get<std::string>(), "TRAIN");
  ::kill(driver_, SIGTERM);
  EXPECT_EQ(wait(), 74);
}

TEST_F(DriverHardTimes, NoMoreFilesMayBeOpened) {
  add({"steps=100000"});
  start();
  ASSERT_GT(runs_at(5), 1);
  rlimit files{};
  ASSERT_EQ(::prlimit(driver_, RLIMIT_NOFILE, nullptr, &files), 0);
  // fewer than it waits for would be an error of its own
  const fs::directory_iterator open(fmt::format("/proc/{}/fd", driver_));
  const rlimit none{.rlim_cur = static_cast<rlim_t>(std::distance(begin(open), end(open))),
                    .rlim_max = files.rlim_max};
  ASSERT_EQ(::prlimit(driver_, RLIMIT_NOFILE, &none, nullptr), 0);
  const Socket waits = Socket::connect(address());
  ::usleep(300'000);
  ASSERT_EQ(::prlimit(driver_, RLIMIT_NOFILE, &files, nullptr), 0);
  EXPECT_TRUE(until([&] { return status_of_run(run_).from_driver; })) << "it listens again";
  ::kill(driver_, SIGTERM);
  EXPECT_EQ(wait(), 74);
}

TEST_F(DriverHardTimes, OfARunThatFailedNothingStaysInMemoryThatTheDiskHas) {
  nodes(2, 0);
  add({"fault=1:7:64"});
  start();
  EXPECT_EQ(wait(), 64);
  EXPECT_FALSE(
      fs::exists(node_folder(job_name(run_, read_secret(run_ / "control/secret")), "node-0").parent_path()));
}

}  // namespace
}  // namespace longhaul::control
