// ctest: label=fault timeout=600
// Runs that are brought through failures, as a user sees them: ranks that are killed or stopped, nodes that
// are lost, a driver that is killed and typed again. The losses afterwards are those of a run to which
// nothing happened, in every bit.
#include "cli/supervised_run.h"

#include <deque>

namespace longhaul::cli {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// What every step in memory is gone on from, where no checkpoint is near.
const Words kFarFromCheckpoints = {"train.steps=40", "train.batch=4", "train.checkpoint_every=1000",
                                   "train.checkpoint_memory_every=1000", "optim.warmup_steps=1"};

// Nodes have five seconds to tell where their ranks stand (Policy::evidence_s): on a machine busier than
// that, who does not end is all that is known.
bool nodes_had_time(const json& incident) { return incident.value("diagnosed_milliseconds", 1e9) < 4900; }

TEST_F(SupervisedRun, AKilledRankIsStartedAgainWithTheSameLosses) {
  const Words options = long_run(20);
  const auto expected = undisturbed(options, 2);
  ASSERT_EQ(expected.size(), 20u);
  Child child(
      words({"launch", "-n", "2"}, options),
      {"NO_COLOR=1", "SLURM_JWT=hush", "AWS_SECRET_ACCESS_KEY=hush", "SOME_TOKEN=hush", stops_at(8, 1)},
      folder_ / "output");
  const pid_t victim = stopped(child, 1);
  ASSERT_GT(victim, 1) << child.output();
  EXPECT_EQ(victim, process_of(child.pid(), 1));
  const std::string told = of_process(victim, "environ") + of_process(victim, "cmdline");
  EXPECT_THAT(told, AllOf(HasSubstr("LONGHAUL_GENERATION=1"), Not(HasSubstr("hush"))));
  std::string secret = read_text(run_ / "control/secret");
  secret.resize(secret.find_last_not_of("\n") + 1);
  EXPECT_GE(secret.size(), 32u);
  EXPECT_THAT(told, Not(HasSubstr(secret)));
  ::kill(victim, SIGKILL);
  EXPECT_EQ(child.wait(), 0) << child.output();
  EXPECT_EQ(losses(run_), expected);
  const json incident = last_incident();
  EXPECT_EQ(incident.value("rank", -1), 1) << incident;
  EXPECT_TRUE(incident.value("recovered", false)) << incident;
  EXPECT_LE(incident.value("detected_milliseconds", 1e9), 5000)
      << "no deadline was waited for (ten seconds): " << incident;
  EXPECT_LE(incident.value("lost_steps", 100), 5) << incident;
  EXPECT_EQ(generation(), 2);
  RecordProperty("incident", incident.dump());
  EXPECT_THAT(read_text(run_ / "logs/rank-1.log"), HasSubstr("generation 2"));
}

// The other replica is alive and has done the step: what it holds is gone on from. No checkpoint is near.
TEST_F(SupervisedRun, NoStepIsLostWhereAReplicaLives) {
  const auto expected = undisturbed(kFarFromCheckpoints, 2);
  for (const char* const fault :
       {"step.passes:step=20:rank=1:generation=1 kill", "step.reduce:step=20:rank=0:generation=1 segfault",
        "step.updated:step=20:rank=1:generation=1 kill"}) {
    run_ = folder_ / std::string(fault).substr(0, std::string(fault).find(':'));
    Child child(words({"launch", "-n", "2"}, kFarFromCheckpoints),
                {"NO_COLOR=1", fmt::format("LONGHAUL_FAULTS={}", fault)}, folder_ / "output");
    EXPECT_EQ(child.wait(), 0) << child.output();
    EXPECT_EQ(losses(run_), expected) << fault;
    EXPECT_EQ(last_incident().value("lost_steps", -1), 0) << last_incident();
    const auto resumed = events<observe::Resume>();
    ASSERT_EQ(resumed.size(), 1u) << fault;
    EXPECT_EQ(resumed.back().source, "memory");
    EXPECT_GE(resumed.back().step, 19) << fault;
    RecordProperty(fault, last_incident().dump());
  }
}

// Rank 0 is killed between its update and its report: the run goes on from the other rank's state, and the
// missing step is announced.
TEST_F(SupervisedRun, AStepThatRank0CouldNotTellOfIsSaidToBeMissing) {
  const auto expected = undisturbed(kFarFromCheckpoints, 2);
  Child child(words({"launch", "-n", "2"}, kFarFromCheckpoints),
              {"NO_COLOR=1", "LONGHAUL_FAULTS=step.updated:step=20:rank=0:generation=1 kill"},
              folder_ / "output");
  EXPECT_EQ(child.wait(), 0) << child.output();
  auto told = losses(run_);
  const bool missing = !told.contains(20);
  const auto alarms = events<observe::Alarm>();
  EXPECT_EQ(std::ranges::count(alarms, "events_lost", &observe::Alarm::kind), missing ? 1 : 0);
  if (missing) {
    const auto alarm = std::ranges::find(alarms, "events_lost", &observe::Alarm::kind);
    EXPECT_EQ(alarm->first_step, 20);
    EXPECT_EQ(alarm->last_step, 20);
    told[20] = expected.at(20);
  }
  EXPECT_EQ(told, expected);
}

// A rank that is stopped wakes nobody: it is named, and the others leave what they have.
TEST_F(SupervisedRun, NoStepIsLostWhereARankHangs) {
  const auto expected = undisturbed(kFarFromCheckpoints, 2);
  Child child(words({"launch", "-n", "2", "--hang-after", "4"}, kFarFromCheckpoints),
              {"NO_COLOR=1", stops_at(20, 1)}, folder_ / "output");
  EXPECT_EQ(child.wait(), 0) << child.output();
  EXPECT_EQ(generation(), 2);
  EXPECT_EQ(losses(run_), expected);
  EXPECT_EQ(last_incident().value("lost_steps", -1), 0) << last_incident();
  EXPECT_EQ(last_incident().value("rank", -1), 1) << last_incident();
  RecordProperty("incident", last_incident().dump());
}

// Where each rank has a share that nobody else has, with every step in memory: the step that was being copied
// at most.
TEST_F(SupervisedRun, WithSharesAStepAtMostIsLost) {
  const Words options{"train.steps=40",
                      "train.batch=4",
                      "train.checkpoint_every=1000",
                      "train.checkpoint_memory_every=1",
                      "optim.warmup_steps=1",
                      "parallel.zero=1"};
  const auto expected = undisturbed(options, 2);
  Child child(words({"launch", "-n", "2"}, options),
              {"NO_COLOR=1", "LONGHAUL_FAULTS=step.reduce:step=20:rank=1:generation=1 kill"},
              folder_ / "output");
  EXPECT_EQ(child.wait(), 0) << child.output();
  EXPECT_EQ(losses(run_), expected);
  EXPECT_LE(last_incident().value("lost_steps", 100), 1) << last_incident();
  RecordProperty("incident", last_incident().dump());
}

// A thread that writes a checkpoint hangs while steps go on: seen by its own deadline (ten seconds for this
// model), and told as what it is.
TEST_F(SupervisedRun, ASaveThatHangsIsNoticedByItsOwnDeadline) {
  Words options = long_run(20);
  const auto expected = undisturbed(options, 2);
  options.push_back("train.checkpoint_memory_every=0");
  Child child(words({"launch", "-n", "2", "--hang-after", "4"}, options),
              {"NO_COLOR=1", "LONGHAUL_FAULTS=checkpoint.write:step=5:rank=1:generation=1 hang"},
              folder_ / "output");
  EXPECT_EQ(child.wait(), 0) << child.output();
  EXPECT_EQ(generation(), 2);
  EXPECT_EQ(losses(run_), expected);
  const json incident = last_incident();
  EXPECT_EQ(incident.value("class", ""), "stuck_work") << incident;
  EXPECT_THAT(incident.at("suspects").dump(), HasSubstr("rank 1")) << incident;
  if (nodes_had_time(incident)) {
    EXPECT_EQ(incident.value("rank", -1), 1)
        << "rank 0 waits to commit what rank 1 does not write: " << incident;
  }
  EXPECT_THAT(incident.dump(), HasSubstr("'write checkpoint' does not end"));
  EXPECT_GE(incident.value("detected_milliseconds", 0.0), 10'000) << incident;
}

// On all ranks at once, in the threads that write and in those that train: all are named, with what they are
// at.
TEST_F(SupervisedRun, ASaveThatHangsOnAllRanksNamesThem) {
  const std::pair<const char*, const char*> places[] = {{"checkpoint.write", "write checkpoint"},
                                                        {"checkpoint.copied", "begin checkpoint"}};
  std::deque<Child> children;  // both at once: they wait, mostly
  for (const auto& [point, work] : places) {
    run_ = folder_ / point;
    children.emplace_back(
        words({"launch", "-n", "2", "--hang-after", "4"},
              {"train.steps=12", "train.checkpoint_every=5", "optim.warmup_steps=1",
               "train.checkpoint_memory_every=0"}),
        Words{"NO_COLOR=1", fmt::format("LONGHAUL_FAULTS={}:step=5:generation=1 hang", point)},
        folder_ / fmt::format("output-{}", point));
  }
  for (size_t i = 0; i < children.size(); ++i) {
    const auto& [point, work] = places[i];
    run_ = folder_ / point;
    EXPECT_EQ(children[i].wait(), 0) << children[i].output();
    const json incident = last_incident();
    EXPECT_EQ(incident.value("class", ""), "stuck_work") << incident;
    EXPECT_THAT(incident.dump(), HasSubstr(fmt::format("'{}' does not end on rank 0, 1", work))) << incident;
    if (nodes_had_time(incident)) {
      EXPECT_THAT(incident.dump(), HasSubstr("meet")) << "the function they are in: " << incident;
    }
    EXPECT_THAT(incident.at("suspects").dump(), AllOf(HasSubstr("rank 0"), HasSubstr("rank 1")));
    // what it is allowed: ten seconds, and some for its bytes
    EXPECT_GE(incident.value("detected_milliseconds", 0.0), 10'000);
    const auto told = events<observe::IncidentReport>("events/driver-0.jsonl");
    ASSERT_FALSE(told.empty());
    EXPECT_LE(told.back().overdue_milliseconds.value_or(1e9), 5000)
        << "a beat, and what a busy machine makes of it";
    EXPECT_TRUE(incident.value("recovered", false)) << incident;
    RecordProperty(point, incident.dump());
  }
}

// The others lose the rank and say so, some of them before it has ended: it is still the one that is named.
TEST_F(SupervisedRun, ACommunicationErrorIsLaidOnTheRankThatThrewIt) {
  for (const int thrower : {1, 2}) {
    run_ = folder_ / fmt::format("run-{}", thrower);
    Child child(words({"launch", "-n", "3"}, {"train.steps=12", "train.batch=3", "optim.warmup_steps=1"}),
                {"NO_COLOR=1",
                 fmt::format("LONGHAUL_FAULTS=step.reduce:step=6:rank={}:generation=1 fail=69", thrower)},
                folder_ / "output");
    EXPECT_EQ(child.wait(), 0) << child.output();
    EXPECT_EQ(last_incident().value("class", ""), "communication") << last_incident();
    EXPECT_EQ(last_incident().value("rank", -1), thrower) << last_incident();
  }
}

TEST_F(SupervisedRun, ASpareTakesThePlaceOfALostNode) {
  const Words options = long_run(20);
  const auto expected = undisturbed(options, 2);
  Child child(words({"launch", "-n", "2", "--nodes", "2", "--spares", "1"}, options),
              {"NO_COLOR=1", stops_at(8, 1)}, folder_ / "output");
  ASSERT_GT(stopped(child, 1), 1) << child.output();
  // The spare may come later than quick steps begin.
  ASSERT_TRUE(child.wait_for([&] { return node("node-2").value("state", "") == "spare"; }))
      << status() << child.output();
  const auto daemon = node("node-1").value("pid", pid_t{-1});
  ASSERT_GT(daemon, 1) << status();
  ::kill(daemon, SIGKILL);
  EXPECT_EQ(child.wait(), 0) << child.output();
  EXPECT_EQ(losses(run_), expected);
  EXPECT_EQ(node("node-2").value("state", ""), "active") << status();
  EXPECT_NE(node("node-1").value("state", ""), "active") << status();
}

// What a node computes takes a fifth of a second longer than at its peers, in each step: its rank is named,
// and its place goes to the spare at a checkpoint, so that no step is done again.
TEST_F(SupervisedRun, ASlowRankGivesItsPlaceToASpare) {
  Child child(words({"launch", "-n", "4", "--nodes", "4", "--spares", "1", "--replace-slow"},
                    {"train.checkpoint_every=5"}),
              {"NO_COLOR=1", "LONGHAUL_FAULTS=step.update:node=node-2 slow=0.2"}, folder_ / "output");
  const auto incidents = [&] { return events<observe::IncidentReport>("events/driver-0.jsonl"); };
  ASSERT_TRUE(child.wait_for([&] {
    return generation() == 2 && node("node-4").value("state", "") == "active";
  })) << status()
      << child.output();
  ASSERT_FALSE(incidents().empty());
  EXPECT_EQ(incidents()[0].fault, "fail_slow");
  EXPECT_EQ(incidents()[0].node, "node-2");
  EXPECT_EQ(incidents()[0].rank, 2);
  EXPECT_EQ(incidents()[0].lost_steps, 0);
  EXPECT_EQ(node("node-2").value("state", ""), "evicted") << status();
  const int64_t step = steps_done();
  EXPECT_TRUE(child.wait_for([&] { return steps_done() > step + 2; })) << child.output();
  child.send(SIGTERM);
  EXPECT_EQ(child.wait(), 74) << child.output();
}

TEST_F(SupervisedRun, ADriverThatWasKilledComesBackToARunThatWentOn) {
  const Words typed = words({"launch", "-n", "2"}, long_run(1'000'000));
  Child first(typed, {"NO_COLOR=1"}, folder_ / "output");
  pid_t rank = -1;
  ASSERT_TRUE(first.wait_for([&] { return steps_done() >= 7 && (rank = pid_of(1)) > 1; })) << first.output();
  first.send(SIGKILL);
  EXPECT_EQ(first.wait(), 137);
  const int64_t step = steps_done();
  const Stopwatch away;
  while (steps_done() < step + 5 && away.seconds() < 60) ::usleep(20'000);
  EXPECT_GE(steps_done(), step + 5) << "ranks go on without a driver";
  Child second(typed, {"NO_COLOR=1"}, folder_ / "output2");
  ASSERT_TRUE(second.wait_for([&] {
    return status().at("driver").at("pid") == second.pid() && pid_of(1) > 0;
  })) << second.output();
  EXPECT_EQ(pid_of(1), rank) << "the same process";
  const int64_t seen = steps_done();
  EXPECT_TRUE(second.wait_for([&] { return steps_done() >= seen + 5; })) << second.output();
  EXPECT_THAT(
      second.output(),
      HasSubstr(fmt::format(
          "found the ranks of node-0, which went on without a driver: 0 (process {}), 1 (process {}), "
          "at step ",
          pid_of(0), rank)));
  EXPECT_TRUE(second.wait_for([&] { return second.output().find("\ntrain ") != std::string::npos; }))
      << "steps are shown: " << second.output();
  second.send(SIGTERM);
  EXPECT_EQ(second.wait(), 74) << second.output();
  EXPECT_EQ(generation(), 1);
  EXPECT_EQ(std::ssize(losses(run_)), steps_done()) << "each step, from the first on";
}

// Rank 0 speaks to a terminal that is gone, so that the driver of the second command says where everything is
// and what to type.
TEST_F(SupervisedRun, ALaunchThatIsTypedAgainEndsWithWhatToTypeNext) {
  Words typed = words({"launch", "-n", "2"}, long_run(60));
  Child first(typed, {"NO_COLOR=1", "LONGHAUL_FAULTS=step.data slow=0.1"}, folder_ / "output");
  ASSERT_TRUE(first.wait_for([&] { return steps_done() >= 3 && pid_of(1) > 1; })) << first.output();
  first.send(SIGKILL);
  EXPECT_EQ(first.wait(), 137);
  Words named = {"bash", "-c", "exec -a ./my-longhaul \"$@\"", "bash"};
  named.insert(named.end(), typed.begin(), typed.end());
  Child second(named, {"NO_COLOR=1"}, folder_ / "output2");
  EXPECT_EQ(second.wait(), 0) << second.output();
  EXPECT_EQ(generation(), 1);
  EXPECT_THAT(second.output(), AllOf(HasSubstr("In " + run_.string()),
                                     HasSubstr("\nNext:\n  ./my-longhaul watch --once " + run_.string()),
                                     HasSubstr("\n  ./my-longhaul checkpoint list " + run_.string())));
}

// `launch … | head -1`: what is said to a terminal is nobody's result.
TEST_F(SupervisedRun, AReaderThatGoesAwayTakesNothingWithIt) {
  std::string command;
  for (const std::string& word :
       words({"launch", "-n", "2"}, {"train.steps=12", "train.checkpoint_every=4", "optim.warmup_steps=1"}))
    command += " " + shell_quoted(word);
  const ProcessResult typed =
      run_process({"bash", "-c", command + " | head -1; exit ${PIPESTATUS[0]}"}, {"NO_COLOR=1"}, 120);
  EXPECT_EQ(typed.status, 0) << typed.errors;
  EXPECT_EQ(status().value("state", ""), "DONE") << status();
  EXPECT_EQ(generation(), 1) << last_incident();
  EXPECT_EQ(losses(run_).size(), 12U);
}

TEST_F(SupervisedRun, StatusEvictionAndASecondDriver) {
  Child child(words({"launch", "-n", "2", "--nodes", "2", "--spares", "1"},
                    {"train.batch=4", "train.checkpoint_every=5"}),
              {"NO_COLOR=1"}, folder_ / "output");
  ASSERT_TRUE(child.wait_for([&] {
    return steps_done() >= 7 && node("node-2").value("state", "") == "spare";
  })) << child.output();
  const ProcessResult asked =
      run_process({program_file(), "launch", "status", run_.string(), "--json"}, {}, 60);
  ASSERT_EQ(asked.status, 0) << asked.errors;
  const json told = json::parse(asked.output);
  EXPECT_EQ(told.at("ranks").size(), 2u);
  EXPECT_EQ(told.at("nodes").size(), 3u);
  const ProcessResult shown = run_process({program_file(), "launch", "status", run_.string()}, {}, 60);
  EXPECT_THAT(shown.output, AllOf(HasSubstr("generation 1"), HasSubstr("rank 1"), HasSubstr("node-2")));

  const ProcessResult second = run_process(
      words({"launch", "-n", "2"}, {"train.batch=4", "train.checkpoint_every=5"}), {"NO_COLOR=1"}, 60);
  EXPECT_EQ(second.status, 64) << second.errors;
  EXPECT_THAT(second.errors, HasSubstr(fmt::format("held by process {}", child.pid())));

  const ProcessResult evicted = run_process({program_file(), "launch", "evict", run_.string(), "1"}, {}, 60);
  EXPECT_EQ(evicted.status, 0) << evicted.errors;
  ASSERT_TRUE(child.wait_for([&] { return generation() >= 2 && rank(1).value("node", "") == "node-2"; }))
      << child.output();
  EXPECT_EQ(node("node-1").value("state", ""), "evicted");
  // Before its first step a generation has nothing to save, and says so (75).
  ASSERT_TRUE(child.wait_for([&] { return generation() >= 2 && status().value("state", "") == "TRAIN"; }))
      << child.output();
  child.send(SIGTERM);
  EXPECT_EQ(child.wait(), 74) << child.output();
  const ProcessResult late = run_process({program_file(), "launch", "status", run_.string()}, {}, 60);
  EXPECT_EQ(late.status, 0);
  EXPECT_THAT(late.output, HasSubstr("no driver runs"));
  EXPECT_EQ(run_process({program_file(), "launch", "evict", run_.string(), "1"}, {}, 60).status, 69);
}

TEST_F(SupervisedRun, WhatIsRefused) {
  const Socket taken = Socket::listen({"127.0.0.1", 0});
  const auto type = [&](const Words& command) {
    return run_process(words(command, {"train.steps=2"}), {"NO_COLOR=1"}, 60);
  };
  const ProcessResult port =
      type({"launch", "-n", "2", "--listen", fmt::format("127.0.0.1:{}", taken.port())});
  EXPECT_EQ(port.status, 69);
  EXPECT_THAT(port.errors, HasSubstr(fmt::format("127.0.0.1:{}", taken.port())));
  fs::permissions(run_ / "control/secret", fs::perms::owner_read | fs::perms::group_read);
  const ProcessResult secret = type({"launch", "-n", "2"});
  EXPECT_EQ(secret.status, 64);
  EXPECT_THAT(secret.errors, AllOf(HasSubstr("mode 0440"), HasSubstr("chmod 600")));
  EXPECT_EQ(type({"launch", "-n", "3", "--nodes", "2"}).status, 64);
  EXPECT_EQ(run_process({program_file(), "launch", "status", folder_.path().string()}, {}, 60).status, 64);
}

}  // namespace
}  // namespace longhaul::cli
