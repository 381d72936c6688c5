// ctest: label=fault timeout=600
// Runs that are brought through failures, as a user sees them: ranks that are killed or stopped, nodes that are lost, a driver that is killed
// and typed again. The losses afterwards are those of a run to which nothing happened, in every bit.
#include "cli/launched_run.h"

namespace longhaul::cli {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class SupervisedRun : public LaunchedRun {
 protected:
  ~SupervisedRun() override {
    // Whatever failed: nothing of this run stays.
    const json now = status();
    for (const char* what : {"nodes", "ranks"}) {
      for (const json& one : now.value(what, json::array())) {
        if (const int64_t pid = one.value("pid", int64_t{0}); pid > 1 && is_ours(pid)) ::kill(static_cast<pid_t>(pid), SIGKILL);
      }
    }
  }
  static bool is_ours(int64_t pid) {
    std::ifstream file(fmt::format("/proc/{}/cmdline", pid));
    const std::string words{std::istreambuf_iterator<char>(file), {}};
    return words.starts_with(program_file());
  }

  json status() const {
    const fs::path file = run_ / "control/status.json";
    return fs::exists(file) ? json::parse(read_text(file)) : json::object();
  }
  json rank(int64_t number) const {
    for (const json& one : status().value("ranks", json::array())) {
      if (one.at("rank") == number) return one;
    }
    return json::object();
  }
  pid_t pid_of(int64_t number) const { return static_cast<pid_t>(rank(number).value("pid", int64_t{-1})); }
  json node(const std::string& name) const {
    for (const json& one : status().value("nodes", json::array())) {
      if (one.at("node") == name) return one;
    }
    return json::object();
  }
  json last_incident() const {
    const json all = status().value("incidents", json::array());
    return all.empty() ? json::object() : all.back();
  }
  int64_t generation() const { return status().value("generation", int64_t{0}); }

  // Steps that take some time each, so that faults hit the middle of one.
  Words long_run(int64_t steps, int64_t batch = 4) const {
    return {fmt::format("train.steps={}", steps), fmt::format("train.batch={}", batch), "train.checkpoint_every=5", "optim.warmup_steps=1"};
  }
  std::map<int64_t, double> losses(const fs::path& run) const {  // of each step the last time that it was done
    std::map<int64_t, double> all;
    for (const auto& event : observe::read_events(run / "events.jsonl")) {
      if (const auto* step = std::get_if<observe::StepReport>(&event.body)) all[step->step] = step->loss;
    }
    return all;
  }
  std::map<int64_t, double> undisturbed(const Words& options, int ranks) const {
    Words typed = words({"launch", "-n", std::to_string(ranks)}, options);
    typed.back() = (folder_ / "undisturbed").string();
    const ProcessResult result = run_process(typed, {"NO_COLOR=1"}, 120);
    EXPECT_EQ(result.status, 0) << result.errors;
    return losses(folder_ / "undisturbed");
  }
};

TEST_F(SupervisedRun, AKilledRankIsStartedAgainWithTheSameLosses) {
  const Words options = long_run(60);
  const auto expected = undisturbed(options, 4);
  ASSERT_EQ(expected.size(), 60u);
  Child child(words({"launch", "-n", "4"}, options), {"NO_COLOR=1"}, folder_ / "output");
  ASSERT_TRUE(child.wait_for([&] { return steps_done() >= 7 && pid_of(2) > 0; })) << child.output();
  const pid_t victim = pid_of(2);
  EXPECT_EQ(victim, process_of(child.pid(), 2));
  ::kill(victim, SIGKILL);
  EXPECT_EQ(child.wait(), 0) << child.output();
  EXPECT_EQ(losses(run_), expected);
  const json incident = last_incident();
  EXPECT_EQ(incident.value("rank", -1), 2) << incident;
  EXPECT_TRUE(incident.value("recovered", false)) << incident;
  EXPECT_LE(incident.value("detected_milliseconds", 1e9), 1000) << incident;
  EXPECT_LE(incident.value("lost_steps", 100), 5) << incident;
  EXPECT_EQ(generation(), 2);
  RecordProperty("incident", incident.dump());
  EXPECT_THAT(read_text(run_ / "logs/rank-1.log"), HasSubstr("generation 2"));
}

TEST_F(SupervisedRun, AStoppedRankIsNamedAndTheRunGoesOn) {
  const Words options = long_run(60);
  const auto expected = undisturbed(options, 2);
  Child child(words({"launch", "-n", "2", "--hang-after", "4"}, options), {"NO_COLOR=1"}, folder_ / "output");
  ASSERT_TRUE(child.wait_for([&] { return steps_done() >= 7 && pid_of(1) > 0; })) << child.output();
  ::kill(pid_of(1), SIGSTOP);
  const Stopwatch watch;
  ASSERT_TRUE(child.wait_for([&] { return generation() >= 2; })) << child.output();
  EXPECT_LT(watch.seconds(), 30);
  EXPECT_EQ(child.wait(), 0) << child.output();
  EXPECT_EQ(losses(run_), expected);
  EXPECT_EQ(last_incident().value("rank", -1), 1) << last_incident();
  RecordProperty("incident", last_incident().dump());
}

TEST_F(SupervisedRun, ASpareTakesThePlaceOfALostNode) {
  const Words options = long_run(60);
  const auto expected = undisturbed(options, 2);
  Child child(words({"launch", "-n", "2", "--nodes", "2", "--spares", "1"}, options), {"NO_COLOR=1"}, folder_ / "output");
  ASSERT_TRUE(child.wait_for([&] { return steps_done() >= 7 && node("node-1").value("pid", 0) > 0; })) << child.output();
  EXPECT_EQ(node("node-2").value("state", ""), "spare");
  ::kill(node("node-1").at("pid").get<pid_t>(), SIGKILL);
  EXPECT_EQ(child.wait(), 0) << child.output();
  EXPECT_EQ(losses(run_), expected);
  EXPECT_EQ(node("node-2").value("state", ""), "active") << status();
  EXPECT_NE(node("node-1").value("state", ""), "active") << status();
}

TEST_F(SupervisedRun, ADriverThatWasKilledComesBackToARunThatWentOn) {
  const Words typed = words({"launch", "-n", "2"}, long_run(400));
  Child first(typed, {"NO_COLOR=1"}, folder_ / "output");
  ASSERT_TRUE(first.wait_for([&] { return steps_done() >= 7 && pid_of(1) > 0; })) << first.output();
  const pid_t rank = pid_of(1);
  first.send(SIGKILL);
  EXPECT_EQ(first.wait(), 137);
  const int64_t step = steps_done();
  const Stopwatch away;
  while (steps_done() < step + 5 && away.seconds() < 60) ::usleep(20'000);
  EXPECT_GE(steps_done(), step + 5) << "ranks go on without a driver";
  Child second(typed, {"NO_COLOR=1"}, folder_ / "output2");
  ASSERT_TRUE(second.wait_for([&] { return status().at("driver").at("pid") == second.pid() && pid_of(1) > 0; })) << second.output();
  EXPECT_EQ(pid_of(1), rank) << "the same process";
  EXPECT_EQ(second.wait(), 0) << second.output();
  EXPECT_EQ(generation(), 1);
  EXPECT_EQ(losses(run_).size(), 400u);
}

TEST_F(SupervisedRun, StatusEvictionAndASecondDriver) {
  Child child(words({"launch", "-n", "2", "--nodes", "2", "--spares", "1"}, {"train.batch=4", "train.checkpoint_every=5"}), {"NO_COLOR=1"},
              folder_ / "output");
  ASSERT_TRUE(child.wait_for([&] { return steps_done() >= 7; })) << child.output();
  const ProcessResult asked = run_process({program_file(), "launch", "status", run_.string(), "--json"}, {}, 60);
  ASSERT_EQ(asked.status, 0) << asked.errors;
  const json told = json::parse(asked.output);
  EXPECT_EQ(told.at("ranks").size(), 2u);
  EXPECT_EQ(told.at("nodes").size(), 3u);
  const ProcessResult shown = run_process({program_file(), "launch", "status", run_.string()}, {}, 60);
  EXPECT_THAT(shown.output, AllOf(HasSubstr("generation 1"), HasSubstr("rank 1"), HasSubstr("node-2")));

  const ProcessResult second = run_process(words({"launch", "-n", "2"}, {"train.batch=4", "train.checkpoint_every=5"}), {"NO_COLOR=1"}, 60);
  EXPECT_EQ(second.status, 64) << second.errors;
  EXPECT_THAT(second.errors, HasSubstr(fmt::format("held by process {}", child.pid())));

  const ProcessResult evicted = run_process({program_file(), "launch", "evict", run_.string(), "1"}, {}, 60);
  EXPECT_EQ(evicted.status, 0) << evicted.errors;
  ASSERT_TRUE(child.wait_for([&] { return generation() >= 2 && rank(1).value("node", "") == "node-2"; })) << child.output();
  EXPECT_EQ(node("node-1").value("state", ""), "evicted");
  // Before its first step a generation has nothing to save, and says so (75).
  ASSERT_TRUE(child.wait_for([&] { return generation() >= 2 && status().value("state", "") == "TRAIN"; })) << child.output();
  child.send(SIGTERM);
  EXPECT_EQ(child.wait(), 74) << child.output();
  const ProcessResult late = run_process({program_file(), "launch", "status", run_.string()}, {}, 60);
  EXPECT_EQ(late.status, 0);
  EXPECT_THAT(late.output, HasSubstr("no driver runs"));
  EXPECT_EQ(run_process({program_file(), "launch", "evict", run_.string(), "1"}, {}, 60).status, 69);
}

TEST_F(SupervisedRun, WhatIsRefused) {
  const Socket taken = Socket::listen({"127.0.0.1", 0});
  const auto type = [&](const Words& command) { return run_process(words(command, {"train.steps=2"}), {"NO_COLOR=1"}, 60); };
  const ProcessResult port = type({"launch", "-n", "2", "--listen", fmt::format("127.0.0.1:{}", taken.port())});
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
