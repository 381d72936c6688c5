// ctest: label=fault timeout=300
// The driver with its daemons and ranks as processes; the ranks pretend to train (pretended_run/main.cpp).
// What a person sees of a run whose ranks are killed or stopped, whose nodes are lost, whose driver is killed
// and typed again. With ranks that train: tests/cli.
#include "control/driver/driver_service_fixture.h"

namespace longhaul::control {
namespace {

using ::testing::HasSubstr;

TEST_F(DriverServiceTest, ARunToWhichNothingHappens) {
  start();
  EXPECT_EQ(wait(), 0);
  EXPECT_EQ(losses().size(), 100u);
  EXPECT_EQ(status().at("state"), "DONE");
  EXPECT_EQ(generation(), 1);
  EXPECT_FALSE(
      fs::exists(node_folder(job_name(run_, read_secret(run_ / "control/secret")), "node-0").parent_path()))
      << "nothing is left in memory";
}

TEST_F(DriverServiceTest, AKilledRank) {
  const pid_t victim = start_and_hold();
  ASSERT_GT(victim, 1);
  ::kill(victim, SIGKILL);
  go();
  EXPECT_EQ(wait(), 0);
  EXPECT_EQ(losses().size(), 100u);
  EXPECT_EQ(generation(), 2);
  const json what = incident();
  EXPECT_EQ(what.value("rank", -1), 1) << what;
  EXPECT_EQ(what.value("recovered", false), true) << what;
  EXPECT_LE(what.value("detected_milliseconds", 1e9), 5000)
      << "no deadline was waited for (ten seconds): " << what;
  EXPECT_LE(what.value("lost_steps", 100), 5) << what;
  std::cout << what.dump() << "\n";
}

TEST_F(DriverServiceTest, AStoppedRank) {
  options_.policy.rank_silent_s = 2;
  options_.policy.evidence_s = 1;
  const pid_t victim = start_and_hold();
  ASSERT_GT(victim, 1);
  ::kill(victim, SIGSTOP);
  const Stopwatch watch;
  ASSERT_TRUE(until([&] { return generation() == 2; }));
  EXPECT_LT(watch.seconds(), 10);
  go();
  EXPECT_EQ(wait(), 0);
  EXPECT_EQ(losses().size(), 100u);
  EXPECT_EQ(incident().value("rank", -1), 1) << incident();
  std::cout << incident().dump() << "\n";
}

TEST_F(DriverServiceTest, ALostNodeAndASpare) {
  nodes(2, 1);
  ASSERT_GT(start_and_hold(), 1);
  ASSERT_TRUE(until([&] { return node("node-2").value("state", "") == "spare"; })) << status();
  const pid_t daemon = node("node-1").value("pid", -1);
  ASSERT_GT(daemon, 1);
  ::kill(daemon, SIGKILL);
  go();
  EXPECT_EQ(wait(), 0);
  EXPECT_EQ(losses().size(), 100u);
  EXPECT_EQ(node("node-2").value("state", ""), "active") << status();
  std::cout << incident().dump() << "\n";
}

TEST_F(DriverServiceTest, ADaemonThatDiedIsStartedAgain) {
  ASSERT_GT(start_and_hold(), 1);
  const pid_t before = node("node-0").value("pid", -1);
  ASSERT_GT(before, 1);
  ::kill(before, SIGKILL);
  go();
  EXPECT_EQ(wait(), 0);
  EXPECT_EQ(losses().size(), 100u);
  EXPECT_NE(node("node-0").at("pid").get<pid_t>(), before);
}

TEST_F(DriverServiceTest, ADriverThatComesBack) {
  add({"steps=100000"});
  start();
  const pid_t before = runs_at(5);
  ASSERT_GT(before, 1);
  ::kill(driver_, SIGKILL);
  EXPECT_EQ(wait(), 137);
  const int64_t step = steps_done();
  ASSERT_TRUE(until([&] { return steps_done() >= step + 10; })) << "ranks go on without a driver";
  start();
  ASSERT_TRUE(until([&] {
    return status().value("driver", json::object()).value("pid", 0) == driver_ && pid_of(1) > 0;
  })) << status();
  EXPECT_EQ(pid_of(1), before) << "the same process";
  const int64_t seen = steps_done();
  EXPECT_TRUE(until([&] { return steps_done() >= seen + 5; }));
  ::kill(driver_, SIGTERM);
  EXPECT_EQ(wait(), 74);
  EXPECT_EQ(generation(), 1);
  EXPECT_EQ(std::ssize(losses()), steps_done()) << "each step, from the first on";
}

// All that happened while nobody looked.
TEST_F(DriverServiceTest, ADriverThatComesBackToARankThatDied) {
  const pid_t before = start_and_hold();
  ASSERT_GT(before, 1);
  ::kill(driver_, SIGKILL);
  EXPECT_EQ(wait(), 137);
  ::kill(before, SIGKILL);
  ::usleep(300'000);
  go();
  start();
  EXPECT_EQ(wait(), 0);
  EXPECT_EQ(generation(), 2);
  EXPECT_EQ(losses().size(), 100u);
}

TEST_F(DriverServiceTest, AskedToStopAllSave) {
  ASSERT_GT(start_and_hold(), 1);
  ::kill(driver_, SIGTERM);
  EXPECT_EQ(wait(), 74);
  EXPECT_LT(steps_done(), 100);
  driver_ = -1;
  go();
  start();  // typed again it goes on
  EXPECT_EQ(wait(), 0);
  EXPECT_EQ(losses().size(), 100u);
}

TEST_F(DriverServiceTest, WithoutRestartsTheFirstFailureIsTheCode) {
  options_.policy.restarts = 0;
  add({"fault=1:7:71"});
  start();
  EXPECT_EQ(wait(), 71);
}

TEST_F(DriverServiceTest, AMistakeOfTheUserEndsTheRun) {
  add({"fault=1:7:64"});
  start();
  EXPECT_EQ(wait(), 64);
  EXPECT_EQ(generation(), 1);
}

TEST_F(DriverServiceTest, StatusAndEvictionBySomebodyWithTheSecret) {
  nodes(2, 1);
  add({"steps=100000"});
  start();
  ASSERT_GT(runs_at(5), 1);
  const RunStatus told = status_of_run(run_);
  EXPECT_TRUE(told.from_driver);
  EXPECT_EQ(json::parse(told.text).at("ranks").size(), 2u);
  EXPECT_THAT(status_for_people(told.text), HasSubstr("rank 1"));
  EXPECT_THROW(ask_driver(run_, EvictRequest{.target = "no such node"}), Error);
  ask_driver(run_, EvictRequest{.target = "1", .reason = "fan is loud"});
  ASSERT_TRUE(until([&] { return generation() == 2 && rank(1).value("node", "") == "node-2"; })) << status();
  EXPECT_EQ(node("node-1").value("state", ""), "evicted");
  const int64_t step = steps_done();
  ASSERT_TRUE(until([&] { return steps_done() > step + 5; }));
  EXPECT_THAT(read_text(run_ / "control/blocked.json"), HasSubstr("fan is loud"));
  ::kill(driver_, SIGTERM);
  EXPECT_EQ(wait(), 74);
  EXPECT_FALSE(status_of_run(run_).from_driver);
}

// Slurm, played: `sinfo` says which nodes answer, `srun` runs what follows its options here.
TEST_F(DriverServiceTest, AnEngineBringsAMachineForOneThatIsEvicted) {
  nodes(2, 0);
  options_.local_nodes = 0;
  options_.listen = fmt::format("127.0.0.1:{}", free_port());
  options_.policy.replacement_s = 40;
  options_.host_history = folder_ / "hosts.jsonl";
  add({"steps=100000"});
  fs::create_directories(folder_ / "bin");
  std::ofstream(folder_ / "bin/srun")
      << "#!/bin/sh\nwhile [ \"${1#--}\" != \"$1\" ]; do shift; done\nexec \"$@\"\n";
  fs::permissions(folder_ / "bin/srun", fs::perms::owner_all);
  const std::string typed = folder_ / "typed";
  options_.make_engine = [this, typed] {
    ::setenv("PATH", fmt::format("{}:{}", (folder_ / "bin").string(), ::getenv("PATH")).c_str(), 1);
    const auto job = [](const std::string& name) -> std::optional<std::string> {
      if (name == "SLURM_JOB_ID") return "77";
      if (name == "SLURM_JOB_NODELIST") return "n[1-3]";
      return std::nullopt;
    };
    return find_engine(job, [typed](const std::vector<std::string>& words) -> ProcessResult {
      std::ofstream(typed, std::ios::app) << fmt::format("{}\n", fmt::join(words, " "));
      return {.status = 0, .output = words[0] == "sinfo" ? "n1 alloc\nn2 alloc\nn3 idle\n" : ""};
    });
  };
  start();
  ASSERT_TRUE(until([&] { return fs::exists(run_ / "control/address"); }));
  std::vector<pid_t> daemons;
  for (const char* name : {"n1", "n2"}) {
    daemons.push_back(
        start_child({.argv = {options_.program, "node", "--driver", run_ / "control/address", "--secret",
                              run_ / "control/secret", "--name", name, "--slots", "1"}}));
  }
  const auto ended = [](pid_t& process) {
    if (process > 0 && exit_of(process)) process = 0;
    return process == 0;
  };
  ASSERT_GT(runs_at(5), 1) << status();
  // At first no log of a daemon can be written: the driver asks for a machine again, and goes on.
  fs::remove_all(run_ / "logs");
  std::ofstream(run_ / "logs") << "no folder";
  ask_driver(run_, EvictRequest{.target = "n1", .reason = "fan is loud"});
  const auto times_asked = [&] {
    const std::string so_far = fs::exists(typed) ? read_text(typed) : "";
    int64_t times = 0;
    for (size_t at = so_far.find("sinfo"); at != std::string::npos; at = so_far.find("sinfo", at + 1))
      ++times;
    return times;
  };
  ASSERT_TRUE(until([&] { return times_asked() >= 2; }, 35)) << status();
  fs::remove(run_ / "logs");
  ASSERT_TRUE(until([&] { return generation() == 2 && node("n3").value("state", "") == "active"; }))
      << status();
  const int64_t step = steps_done();
  EXPECT_TRUE(until([&] { return steps_done() > step + 5; }));
  EXPECT_TRUE(until([&] { return ended(daemons[0]); })) << "the evicted daemon ends";
  EXPECT_THAT(read_text(folder_ / "hosts.jsonl"), HasSubstr("excluded"));
  ::kill(driver_, SIGTERM);
  EXPECT_EQ(wait(), 74);
  EXPECT_TRUE(until([&] { return ended(daemons[1]); }));
  const std::string asked = read_text(typed);
  EXPECT_THAT(asked, HasSubstr("sinfo --noheader"));
  EXPECT_THAT(asked, HasSubstr("scontrol update NodeName=n1 State=DRAIN Reason=longhaul job 77: "));
  EXPECT_THAT(asked, HasSubstr("scontrol requeue 77"))
      << "it was the engine that ended the job: it is to come again";
}

TEST_F(DriverServiceTest, ASecondDriverOfARunIsRefused) {
  add({"steps=100000"});
  start();
  ASSERT_GT(runs_at(5), 1);
  const pid_t first = std::exchange(driver_, -1);
  start();
  EXPECT_EQ(wait(), 64);
  EXPECT_THAT(read_text(run_ / "error"), HasSubstr(fmt::format("process {}", first)));
  driver_ = first;
}

TEST_F(DriverServiceTest, APortInUse) {
  const Socket taken = Socket::listen({"127.0.0.1", 0});
  options_.listen = fmt::format("127.0.0.1:{}", taken.port());
  start();
  EXPECT_EQ(wait(), 69);
}

// The disk takes nothing more (a limit on the size of files stands for it): the run goes on to its end, the
// journal waits in memory.
TEST_F(DriverServiceTest, AFullJournalDiskStopsNoRun) {
  const pid_t victim = start_and_hold();
  ASSERT_GT(victim, 1);
  rlimit before{};
  ASSERT_EQ(::prlimit(driver_, RLIMIT_FSIZE, nullptr, &before), 0);
  const rlimit full{.rlim_cur = 1, .rlim_max = before.rlim_max};
  ASSERT_EQ(::prlimit(driver_, RLIMIT_FSIZE, &full, nullptr), 0);
  ::kill(victim, SIGKILL);
  ASSERT_TRUE(until([&] { return fs::exists(run_ / "at-2-1"); })) << "the next generation runs";
  go();
  ASSERT_EQ(::prlimit(driver_, RLIMIT_FSIZE, &before, nullptr), 0);
  EXPECT_EQ(wait(), 0);
  EXPECT_EQ(losses().size(), 100u);
  EXPECT_THAT(read_text(run_ / "control/journal.jsonl"), HasSubstr("run_ended"))
      << "written when there was room again";
}

}  // namespace
}  // namespace longhaul::control
