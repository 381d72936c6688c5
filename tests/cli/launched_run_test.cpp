// ctest: label=multi timeout=600
// Runs whose ranks are processes as a user sees them: what is said where a rank does not fit, never comes,
// dies or is asked to stop, with which exit codes, in every rank's log and in the launcher's summary. That
// losses are those of one process: tests/engines.
#include "cli/launched_run.h"

#include <map>

#include "base/machine/machine.h"
#include "detect/samples/sample_ring.h"

namespace longhaul::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(LaunchedRun, WhatToTypeNextIsTheLaunchThatWasTyped) {
  const ProcessResult typed = run_process(words({"launch", "-n", "2", "--threads-per-rank", "1"},
                                                {"train.steps=2", "optim.warmup_steps=1", "parallel.tp=2"}),
                                          {"NO_COLOR=1"}, 120);
  ASSERT_EQ(typed.status, 0) << typed.errors;
  const std::string recipe = (folder_ / "tiny.toml").string();
  EXPECT_THAT(typed.output, HasSubstr(" launch -n 2 --threads-per-rank 1 " + recipe + " data.source="));
  std::string as_typed;  // as the script does: under another name
  for (const std::string& word :
       words({"launch", "-n", "2"}, {"train.steps=4", "optim.warmup_steps=1", "parallel.tp=2"}))
    as_typed += " " + shell_quoted(word);
  const ProcessResult named =
      run_process({"bash", "-c", "exec -a ./my-longhaul" + as_typed}, {"NO_COLOR=1"}, 120);
  ASSERT_EQ(named.status, 0) << named.errors;
  EXPECT_THAT(named.output, HasSubstr("\n  ./my-longhaul launch -n 2 " + recipe));
  EXPECT_THAT(typed.output,
              HasSubstr(" optim.warmup_steps=1 parallel.tp=2 train.steps=4 --run " + run_.string()));
  EXPECT_THAT(typed.output, AllOf(Not(HasSubstr("train.threads")), Not(HasSubstr(" train " + recipe))));
}

// Checkpoints in memory, which `launch` brings, are a copy of the state beside the steps that follow.
TEST_F(LaunchedRun, CopiesForTheMemoryTierArePlanned) {
  const ProcessResult typed = run_process(
      words({"launch", "-n", "2", "--threads-per-rank", "1"}, {"train.steps=3"}), {"NO_COLOR=1"}, 120);
  ASSERT_EQ(typed.status, 0) << typed.errors;
  std::map<std::string, observe::MeasuredMemory> rows;
  for (const auto& row : events<observe::MeasuredMemory>()) rows[row.purpose] = row;
  EXPECT_GT(rows["checkpoint copy"].peak_bytes, 0);
  // Of two processes with a thread each the peak is that of so many cores, and not of more than there are.
  const auto starts = events<observe::RunStart>();
  ASSERT_EQ(starts.size(), 1u);
  const double cores = std::min(2.0, static_cast<double>(starts[0].cores.value()));
  Words alone = words({"train"}, {"train.steps=1", "train.threads=1"});
  alone.back() = (folder_ / "alone").string();
  ASSERT_EQ(run_process(alone, {"NO_COLOR=1"}, 120).status, 0);
  double of_one = 0;
  for (const auto& event : observe::read_events(folder_ / "alone/events.jsonl")) {
    if (const auto* start = std::get_if<observe::RunStart>(&event.body))
      of_one = start->peak_flops_per_second.value();
  }
  EXPECT_DOUBLE_EQ(starts[0].peak_flops_per_second.value(), cores * of_one);
  // Two sets of buffers are planned; whether the second one was needed is a matter of time.
  const double planned = static_cast<double>(rows["together"].planned_bytes.value()),
               peak = static_cast<double>(rows["together"].peak_bytes);
  const double copy = static_cast<double>(rows["checkpoint copy"].planned_bytes.value()) / 2;
  EXPECT_LT(peak, 1.1 * planned);
  EXPECT_GT(peak, 0.9 * (planned - copy));
  EXPECT_GE(static_cast<double>(rows["checkpoint copy"].peak_bytes), 0.95 * copy);
}

// A log on a disk that is full takes nobody's exit code with it: of a run that has ended well, of one that
// failed, and of words that are refused.
TEST_F(LaunchedRun, ExitCodesAreKeptWhereNothingCanBeSaid) {
  const auto unsaid = [](const char* where, const Words& typed, const Words& environment) {
    Words shell = {"bash", "-c", fmt::format("exec \"$@\" {}", where), "bash"};
    shell.insert(shell.end(), typed.begin(), typed.end());
    return run_process(shell, environment, 120).status;
  };
  const char* const nowhere = "> /dev/full 2>&1";
  EXPECT_EQ(unsaid(nowhere, launch_words(2, {"train.steps=3", "optim.warmup_steps=1"}), {"NO_COLOR=1"}), 0);
  EXPECT_EQ(steps_done(), 3);
  EXPECT_EQ(unsaid(nowhere, words({"launch", "-n", "3"}, {"train.batch=4"}), {"NO_COLOR=1"}), 64)
      << "three ranks do not share four sequences";
  run_ = folder_ / "killed";
  EXPECT_EQ(unsaid(nowhere,
                   words({"launch", "-n", "2", "--restarts", "0"}, {"train.steps=3", "optim.warmup_steps=1"}),
                   {"NO_COLOR=1", "LONGHAUL_FAULTS=step.update:step=2:rank=1 kill"}),
            137);
}

// A byte of the past that a disk has damaged is passed over with a warning: the run goes on from its
// checkpoint, and ends well.
TEST_F(LaunchedRun, ADamagedLineOfTheEventsEndsNoRun) {
  const auto launch = [&](const char* steps) {
    return run_process(launch_words(2, {steps, "optim.warmup_steps=1", "train.checkpoint_every=2"}),
                       {"NO_COLOR=1"}, 120);
  };
  ASSERT_EQ(launch("train.steps=4").status, 0);
  std::string text = read_text(run_ / "events.jsonl");
  const size_t second_step = text.find("\"step\":2");
  ASSERT_NE(second_step, std::string::npos);
  text[second_step + 3] = '\0';
  std::ofstream(run_ / "events.jsonl", std::ios::binary) << text;
  const ProcessResult again = launch("train.steps=6");
  EXPECT_EQ(again.status, 0) << again.errors;
  EXPECT_THAT(again.errors + again.output,
              HasSubstr("1 line cannot be read and is skipped, the first is line 3"));
  EXPECT_EQ(steps_done(), 6);
  std::vector<int64_t> steps;
  for (const auto& step : events<observe::StepReport>()) steps.push_back(step.step);
  EXPECT_EQ(steps, (std::vector<int64_t>{1, 3, 4, 5, 6})) << "the others are all there";
}

// Before a rank is started, and not after three starts of all of them.
TEST_F(LaunchedRun, TooFewOpenFilesAreRefusedAtOnce) {
  Words shell = {"bash", "-c", "ulimit -n 60; exec \"$@\"", "bash"};
  const Words typed = launch_words(2, {"train.steps=3"});
  shell.insert(shell.end(), typed.begin(), typed.end());
  const ProcessResult refused = run_process(shell, {"NO_COLOR=1"}, 120);
  EXPECT_EQ(refused.status, 64) << refused.errors;
  EXPECT_THAT(refused.errors,
              AllOf(HasSubstr("too few files may be open at once"), HasSubstr("66 for 2 ranks"),
                    HasSubstr("60"), HasSubstr("ulimit -n 4096")));
  EXPECT_FALSE(fs::exists(run_ / "control")) << "no driver began";
}

TEST_F(LaunchedRun, ARequestToStopReachesAllAtOneStep) {
  Child child(launch_words(3, {"train.batch=3"}), {"NO_COLOR=1"}, folder_ / "output");
  ASSERT_TRUE(child.wait_for([&] { return steps_done() >= 3; })) << child.output();
  child.send(SIGTERM);
  EXPECT_EQ(child.wait(), 74) << child.output();
  const auto newest = storage::find_newest_valid(storage::local_file_system(), run_ / "checkpoints").newest;
  ASSERT_TRUE(newest);
  EXPECT_EQ(newest->manifest().step, steps_done());
  for (const std::string file : {"events/rank-1.jsonl", "events/rank-2.jsonl"}) {
    ASSERT_FALSE(events<observe::StepReport>(file).empty());
    EXPECT_EQ(events<observe::StepReport>(file).back().step, steps_done()) << file;
  }
  EXPECT_THAT(child.output(), HasSubstr(" launch -n 3 "));
  EXPECT_THAT(child.output(), Not(HasSubstr("launch: rank"))) << "who was asked to stop has not failed";
}

// Nodes that are machines are checked before their first ranks. One of them is told by its kernel that a GPU
// has fallen off the bus: it is put out, and the run goes on with the ranks of its spare.
TEST_F(LaunchedRun, WhatAMachineTellsOfItsGpuTakesItsNodeOut) {
  const std::string address = fmt::format("127.0.0.1:{}", free_port());
  Child driver(words({"launch", "-n", "2", "--nodes", "2", "--spares", "1", "--listen", address},
                     {"train.checkpoint_every=5"}),
               {"NO_COLOR=1", cache_variable(folder_ / "cache-of-user")}, folder_ / "output");
  const fs::path control = run_ / "control";
  ASSERT_TRUE(driver.wait_for([&] { return fs::exists(control / "address"); })) << driver.output();
  // One of them has a key of its own, and with it its name.
  const std::string key = (folder_ / "b.key").string();
  ASSERT_EQ(
      run_process({program_file(), "launch", "key", run_.string(), "b", "--out", key}, {"NO_COLOR=1"}, 60)
          .status,
      0);
  const ProcessResult other = run_process(
      {program_file(), "node", "--driver", (control / "address").string(), "--secret", key, "--name", "a"},
      {"NO_COLOR=1"}, 60);
  EXPECT_EQ(other.status, 64) << other.errors;
  EXPECT_THAT(other.errors, HasSubstr("the secret is the key of another node"));
  std::vector<std::unique_ptr<Child>> nodes;
  for (const std::string name : {"a", "b", "spare"}) {
    const fs::path machine = folder_ / name;
    fs::create_directories(machine / "dev");
    std::ofstream{machine / "dev/kmsg"};
    Words typed = {program_file(),   "node",
                   "--driver",       (control / "address").string(),
                   "--secret",       name == "b" ? key : (control / "secret").string(),
                   "--slots",        "1",
                   "--machine-root", machine.string()};
    if (name != "b") typed.insert(typed.end(), {"--name", name});
    if (name == "spare") typed.push_back("--spare");
    nodes.push_back(std::make_unique<Child>(typed, Words{"NO_COLOR=1"}, folder_ / (name + ".log")));
  }
  const auto journal = [&] {
    return fs::exists(control / "journal.jsonl") ? read_text(control / "journal.jsonl") : "";
  };
  ASSERT_TRUE(driver.wait_for([&] { return steps_done() >= 6; })) << driver.output() << log_of(1);
  EXPECT_THAT(journal(), HasSubstr("\"CHECK\""));
  std::ofstream(folder_ / "b/dev/kmsg", std::ios::app)
      << "4,7,7,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n";
  const auto incidents = [&] { return events<observe::IncidentReport>("events/driver-0.jsonl"); };
  ASSERT_TRUE(driver.wait_for([&] { return !incidents().empty(); })) << driver.output();
  EXPECT_EQ(incidents()[0].fault, "device");
  EXPECT_EQ(incidents()[0].node, "b");
  EXPECT_EQ(incidents()[0].action, "evict_node");
  EXPECT_THAT(incidents()[0].evidence.front(), HasSubstr("xid 79 of GPU 0000:3b:00"));
  EXPECT_TRUE(incidents()[0].recovered);
  driver.send(SIGTERM);
  EXPECT_EQ(driver.wait(), 74) << driver.output();
}

// What four nodes of one machine leave: a ring each, of their own ranks, that detect learns from and looks
// at.
TEST_F(LaunchedRun, NodesLeaveSamplesThatDetectReads) {
  // A step now and then is enough: what is waited for is time.
  Child child(words({"launch", "-n", "4", "--nodes", "4"}, {}),
              {"NO_COLOR=1", "LONGHAUL_FAULTS=step.passes slow=0.2"}, folder_ / "output");
  const auto rows = [&](int node) -> size_t {
    const fs::path ring = run_ / fmt::format("samples/node-{}.ring", node);
    return fs::exists(ring) ? detect::read_ring(ring).rows.size() : 0;
  };
  ASSERT_TRUE(child.wait_for(
      [&] {
        return std::min({rows(0), rows(1), rows(2), rows(3)}) >= 14;
      },
      120))
      << child.output();
  // The heartbeats carry the last sample, and what tensors of each rank hold.
  const ProcessResult asked =
      run_process({program_file(), "launch", "status", run_.string(), "--json"}, {"NO_COLOR=1"}, 60);
  ASSERT_EQ(asked.status, 0) << asked.errors;
  const nlohmann::json status = nlohmann::json::parse(asked.output);
  for (const auto& node : status.at("nodes")) EXPECT_GE(node.at("machine").at("memory_usage"), 0) << node;
  for (const auto& rank : status.at("ranks")) EXPECT_GT(rank.at("device_bytes"), 100'000) << rank;
  child.send(SIGTERM);
  EXPECT_EQ(child.wait(), 74) << child.output();
  for (int node = 0; node < 4; ++node) {
    const fs::path ring = run_ / fmt::format("samples/node-{}.ring", node);
    EXPECT_TRUE(child.wait_for([&] { return detect::read_ring(ring).rows.back().ended; }, 10)) << node;
  }
  const std::string models = (folder_ / "models").string();
  const ProcessResult trained =
      run_process({program_file(), "detect", "train", run_.string(), "--metrics", "cpu_usage,memory_usage",
                   "--steps", "20", "--batch", "32", "--out", models},
                  {"NO_COLOR=1"}, 60);
  ASSERT_EQ(trained.status, 0) << trained.errors;
  const ProcessResult looked = run_process(
      {program_file(), "detect", "run", run_.string(), "--models", models, "--continuity", "4", "--json"},
      {"NO_COLOR=1"}, 60);
  ASSERT_EQ(looked.status, 0) << looked.errors;
  const nlohmann::json report = nlohmann::json::parse(looked.output);
  EXPECT_EQ(report["machines"], 4);
  EXPECT_GE(report["seconds"], 13);
  const ProcessResult page =
      run_process({program_file(), "detect", "run", run_.string(), "--models", models, "--continuity", "4",
                   "--suspect", machine().host + "/node-2", "--page", (folder_ / "page.html").string()},
                  {"NO_COLOR=1"}, 60);
  EXPECT_EQ(page.status, 0) << page.errors;
  EXPECT_THAT(read_text(folder_ / "page.html"), HasSubstr(machine().host + "/node-2"));
}

// Processes over Gloo, then one process that goes on: in every bit what one process does alone.
TEST_F(LaunchedRun, AnElasticRunHasTheBitsOfOneProcess) {
  const Words same{"train.elastic=true", "train.checkpoint_every=2", "optim.warmup_steps=1"};
  const auto run = [&](const Words& command, const fs::path& folder, Words more) {
    more.insert(more.end(), same.begin(), same.end());
    Words all = words(command, more);
    all.back() = folder.string();
    const ProcessResult result = run_process(all, {"NO_COLOR=1"}, 120);
    ASSERT_EQ(result.status, 0) << result.errors;
  };
  run({"train"}, folder_ / "alone", {"train.steps=4"});
  run({"launch", "-n", "2"}, run_, {"train.steps=4", "parallel.zero=1"});
  run({"launch", "-n", "4"}, folder_ / "continued", {"train.steps=2"});
  run({"train"}, folder_ / "continued", {"train.steps=4"});
  for (const fs::path& other : {run_, folder_ / "continued"}) {
    const ProcessResult compared = run_process(
        {program_file(), "compare", (folder_ / "alone").string(), other.string()}, {"NO_COLOR=1"}, 60);
    EXPECT_EQ(compared.status, 0) << other << "\n" << compared.output;
    EXPECT_THAT(compared.output, HasSubstr("are equal in every bit"));
  }
}

TEST_F(LaunchedRun, TheOthersLeaveARankThatDied) {
  Child child(launch_words(3, {"train.batch=3", "--restarts", "0"}), {"NO_COLOR=1"}, folder_ / "output");
  ASSERT_TRUE(child.wait_for([&] { return steps_done() >= 3; })) << child.output();
  const pid_t victim = process_of(child.pid(), 1);
  ASSERT_GT(victim, 0);
  ::kill(victim, SIGKILL);
  const Stopwatch watch;
  EXPECT_EQ(child.wait(), 137) << child.output();
  EXPECT_LT(watch.seconds(), 10);
  const std::string named = "rank 1 has died", operation = " waited for it in ";
  EXPECT_THAT(child.output(), AllOf(HasSubstr(named), HasSubstr(operation)));
  EXPECT_THAT(log_of(2), AllOf(HasSubstr(named), HasSubstr(operation)));
  EXPECT_THAT(child.output(), HasSubstr("\nlaunch: rank 1 of 3 was ended by signal 9; its messages: " +
                                        (run_ / "logs/rank-1.log").string()));
  // The flight recorders of those that saw it, and what they say together.
  EXPECT_THAT(child.output(), HasSubstr("The last calls of 2 ranks lie in " + (run_ / "trace").string()));
  for (const int rank : {0, 2})
    EXPECT_TRUE(fs::exists(run_ / fmt::format("trace/calls-{}.json", rank))) << rank;
}

TEST_F(LaunchedRun, ProofsOnProcesses) {
  // What was asked for and cannot be tried is no success: two heads on four or three ranks, experts of a
  // model without.
  for (const Words& asked : {Words{"--layouts", "tp4"}, Words{"--layouts", "ep2"}, Words{"parallel.tp=3"}}) {
    Words refused = {program_file(), "prove", (folder_ / "tiny.toml").string()};
    refused.insert(refused.end(), asked.begin(), asked.end());
    EXPECT_EQ(run_process(refused, {}, 120).status, 64) << asked.back();
  }
  const Words typed = {program_file(), "prove",         (folder_ / "tiny.toml").string(),
                       "--layouts",    "tp2-processes", "--json"};
  const ProcessResult proved = run_process(typed, {}, 120);
  ASSERT_EQ(proved.status, 0) << proved.errors;
  const auto proof = nlohmann::json::parse(proved.output);
  EXPECT_EQ(proof.at("status"), "tried");
  EXPECT_TRUE(proof.at("holds"));
  EXPECT_LE(proof.at("worst"), 1e-12);
  EXPECT_NE(proof.at("tensor"), "");
  // They are processes indeed, and what one says is heard.
  const ProcessResult failed = run_process(typed, {"GLOO_SOCKET_IFNAME=nowhere"}, 120);
  EXPECT_EQ(failed.status, 69) << failed.output;
  EXPECT_THAT(failed.errors, HasSubstr("the ranks cannot be connected"));
}

TEST_F(LaunchedRun, SizesThatDoNotMultiplyToTheWorld) {
  const ProcessResult typed = run_process(launch_words(3, {"parallel.tp=2"}), {"NO_COLOR=1"}, 120);
  EXPECT_EQ(typed.status, 64);
  EXPECT_THAT(typed.errors, AllOf(HasSubstr("do not fit on 3 ranks"), HasSubstr("3 is not a multiple of it"),
                                  HasSubstr("\nlaunch: rank "), Not(HasSubstr("\\x0a"))));
  for (const int rank : {1, 2}) EXPECT_THAT(log_of(rank), HasSubstr("do not fit on 3 ranks"));
  EXPECT_FALSE(fs::exists(run_ / "events.jsonl"));
}

TEST_F(LaunchedRun, ARankWithAnotherRecipe) {
  const uint16_t port = free_port();
  std::vector<std::unique_ptr<Child>> ranks;
  for (int r = 0; r < 3; ++r) ranks.push_back(rank(r, 3, port, {r == 2 ? "optim.lr=0.5" : "optim.lr=0.25"}));
  expect_all(ranks, 64,
             AllOf(HasSubstr("rank 2 has another recipe than rank 0"),
                   HasSubstr("expected  on rank 0: optim.lr = 0.25\n"),
                   HasSubstr("found     on rank 2: optim.lr = 0.5\n"),
                   HasSubstr("of 3 (RANK and WORLD_SIZE), at the start")));
}

TEST_F(LaunchedRun, ARankWithAnotherProgram) {
  const fs::path other = folder_ / "longhaul";
  fs::copy_file(program_file(), other);
  std::ofstream(other, std::ios::app) << "one byte more";
  const uint16_t port = free_port();
  std::vector<std::unique_ptr<Child>> ranks;
  for (int r = 0; r < 2; ++r)
    ranks.push_back(rank(r, 2, port, {}, r == 1 ? other : fs::path(program_file())));
  expect_all(ranks, 64, HasSubstr("rank 1 has another program than rank 0"));
}

// As two machines have it, each with its own disk: the recipe is the same to the letter, and ~ and what lies
// there is not.
TEST_F(LaunchedRun, ARankWithOtherTokens) {
  write_texts("home-0/text", 'a');
  write_texts("home-1/text", 'b');
  const uint16_t port = free_port();
  std::vector<std::unique_ptr<Child>> ranks;
  for (int r = 0; r < 2; ++r) ranks.push_back(rank(r, 2, port, {"data.source=~/text", "data.cache=~/cache"}));
  expect_all(ranks, 65,
             AllOf(HasSubstr("rank 1 has other token files than rank 0"),
                   HasSubstr("data.source and data.cache, on rank ")));
}

TEST_F(LaunchedRun, ARankThatNeverJoins) {
  const uint16_t port = free_port();
  std::vector<std::unique_ptr<Child>> ranks;
  for (const int r : {0, 2}) ranks.push_back(rank(r, 4, port, {"parallel.join_timeout=3"}));
  expect_all(ranks, 69,
             AllOf(HasSubstr("2 of 4 ranks did not join"), HasSubstr("ranks 1, 3 missing"),
                   HasSubstr("within 3 s")));
}

// The limit is that of rank 1 alone: rank 0 cannot know why no connection comes, and sends its reader there.
TEST_F(LaunchedRun, ARankThatMayOpenTooFewFilesNamesTheLimit) {
  const fs::path limited = folder_ / "limited";
  // Files that whoever started the tests left open would count against the limit.
  std::ofstream(limited)
      << "#!/bin/bash\nfor f in /proc/self/fd/*; do n=${f##*/}; ((n > 2)) && eval \"exec $n>&-\"; done\n"
      << "ulimit -n 6; exec " << shell_quoted(program_file()) << " \"$@\"\n";
  fs::permissions(limited, fs::perms::owner_all);
  const uint16_t port = free_port();
  const auto waits = rank(0, 2, port, {"parallel.join_timeout=5"}),
             joins = rank(1, 2, port, {"parallel.join_timeout=5"}, limited);
  EXPECT_EQ(joins->wait(), 69);
  EXPECT_THAT(joins->output(),
              AllOf(HasSubstr("the ranks cannot be connected"), HasSubstr("Too many open files"),
                    HasSubstr("ulimit -n 4096"), Not(HasSubstr("GLOO_SOCKET_IFNAME"))));
  EXPECT_EQ(waits->wait(), 69);
  EXPECT_THAT(waits->output(),
              AllOf(HasSubstr("look at what the other ranks said"), HasSubstr("GLOO_SOCKET_IFNAME")));
}

TEST_F(LaunchedRun, ARequestToStopWhileARankIsMissing) {
  const uint16_t port = free_port();
  std::vector<std::unique_ptr<Child>> ranks;
  for (const int r : {0, 2}) ranks.push_back(rank(r, 3, port, {"parallel.join_timeout=3600"}));
  {
    comm::Wire store({.port = port, .prefix = "/longhaul/attempt_0"});
    for (const char* const announced : {"rank/0", "rank/2"})
      ASSERT_TRUE(store.wait_for(announced, std::chrono::minutes(1)));
  }
  for (const auto& each : ranks) each->send(SIGINT);
  expect_all(ranks, 75,
             AllOf(HasSubstr("stopped while the ranks were joining"), HasSubstr("; rank 1 missing")));
}

TEST_F(LaunchedRun, APortInUse) {
  const comm::Wire taken({.serves = true});
  const auto first = rank(0, 2, taken.port());
  EXPECT_EQ(first->wait(), 69);
  EXPECT_THAT(first->output(),
              AllOf(HasSubstr(fmt::format("cannot open port {} for the other ranks", taken.port())),
                    HasSubstr("MASTER_PORT")));
}

TEST_F(LaunchedRun, ProcessesThatNobodyStarted) {
  const ProcessResult typed = run_process(words({"train"}, {"parallel.backend=gloo"}), {"NO_COLOR=1"}, 60);
  EXPECT_EQ(typed.status, 64);
  EXPECT_THAT(typed.errors, AllOf(HasSubstr("this process was started alone"), HasSubstr(" launch -n 2 ")));
  EXPECT_FALSE(fs::exists(run_));
}

}  // namespace
}  // namespace longhaul::cli
