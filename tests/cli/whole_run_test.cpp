// ctest: label=full timeout=600
// `longhaul train` as a process that things happen to: signals, a deadline, a disk that fills up, a folder
// that may not be written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/process/process.h"
#include "observe/events/event_log.h"
#include "storage/catalog.h"
#include "support/child.h"
#include "support/known_machine.h"
#include "support/places.h"

namespace longhaul::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class WholeRun : public ::testing::Test {
 protected:
  WholeRun()
      : folder_(fs::temp_directory_path() / ("longhaul-run-" + std::to_string(::getpid()))),
        run_(folder_ / "run") {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "text");
    for (int i = 0; i < 20; ++i)
      std::ofstream(folder_ / "text" / (std::to_string(i) + ".txt")) << std::string(300, 'a') << i << "\n";
    std::ofstream(folder_ / "tiny.toml")
        << "version = 1\n[model]\nlayers = 2\nhidden = 32\nheads = 2\nkv_heads = 1\nhead_dim = 16\n"
           "vocabulary = 257\nmixers = [\"lightning\", \"softmax\"]\nintermediate = 32\nrotary_dim = 8\n"
           "[data]\ntokenizer = \"bytes\"\n[train]\nsteps = 1000000\ndtype = \"fp32\"\nbatch = 2\n"
           "micro_batch = 1\nsequence = 32\nevaluate_every = 0\nthreads = 1\n[optim]\nschedule = "
           "\"constant\"\n"
           "[sample]\ntokens = 0\n[observe]\ncompression_baseline = false\n";
  }
  ~WholeRun() override { fs::remove_all(folder_); }

  std::vector<std::string> words(const std::vector<std::string>& more) const {
    std::vector<std::string> words{program_file(),
                                   "train",
                                   (folder_ / "tiny.toml").string(),
                                   "data.source=" + (folder_ / "text").string(),
                                   "--run",
                                   run_.string()};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::vector<std::string> environment() const { return {cache_variable(folder_ / "cache"), "NO_COLOR=1"}; }
  Child start(const std::vector<std::string>& more = {}) const {
    return Child(words(more), environment(), folder_ / "output");
  }
  ProcessResult train(const std::vector<std::string>& more) const {
    return run_process(words(more), environment(), 180);
  }
  // With a limit on the size of every file it writes.
  ProcessResult train_limited(int kib, const std::vector<std::string>& more) const {
    std::vector<std::string> shell{"bash", "-c", "ulimit -f " + std::to_string(kib) + "; exec \"$@\"",
                                   "bash"};
    for (const std::string& word : words(more)) shell.push_back(word);
    return run_process(shell, environment(), 180);
  }

  template <class Type>
  std::vector<Type> events() const {
    std::vector<Type> found;
    if (!fs::exists(run_ / "events.jsonl")) return found;
    for (const auto& event : observe::read_events(run_ / "events.jsonl")) {
      if (const auto* body = std::get_if<Type>(&event.body)) found.push_back(*body);
    }
    return found;
  }
  int64_t steps_done() const {
    const auto steps = events<observe::StepReport>();
    return steps.empty() ? 0 : steps.back().step;
  }
  int64_t newest_checkpoint() const {
    const auto search = storage::find_newest_valid(storage::local_file_system(), run_ / "checkpoints");
    return search.newest ? search.newest->manifest().step : 0;
  }
  bool reaches(Child& child, int64_t step) const {
    return child.wait_for([&] { return steps_done() >= step; });
  }

  fs::path folder_, run_;
};

TEST_F(WholeRun, Usr1SavesAndUsr2TellsWhileTrainingGoesOn) {
  Child child = start({"train.checkpoint_every=0"});
  ASSERT_TRUE(reaches(child, 2)) << child.output();
  EXPECT_TRUE(events<observe::CheckpointSaved>().empty());

  child.send(SIGUSR1);
  ASSERT_TRUE(child.wait_for([&] { return !events<observe::CheckpointSaved>().empty(); })) << child.output();
  const int64_t saved = events<observe::CheckpointSaved>()[0].step;
  EXPECT_EQ(newest_checkpoint(), saved);
  EXPECT_TRUE(reaches(child, saved + 3));

  child.send(SIGUSR2);
  ASSERT_TRUE(child.wait_for([&] {
    return fs::exists(run_ / "diagnostics.txt") &&
           read_text(run_ / "diagnostics.txt").find("end of diagnostics") != std::string::npos;
  })) << child.output();
  const std::string diagnostics = read_text(run_ / "diagnostics.txt");
  EXPECT_THAT(diagnostics, HasSubstr("\"longhaul\""));    // the main thread
  EXPECT_THAT(diagnostics, HasSubstr("\"checkpoint\""));  // its writer
  EXPECT_THAT(diagnostics, HasSubstr("main"));
  EXPECT_THAT(diagnostics, Not(HasSubstr("no answer")));
  EXPECT_TRUE(reaches(child, steps_done() + 3));

  child.send(SIGTERM);
  EXPECT_EQ(child.wait(), 74) << child.output();
  EXPECT_EQ(events<observe::End>().back().reason, "signal");
  EXPECT_EQ(newest_checkpoint(), steps_done());
}

// What is said to a terminal is no result of training: the run is done when its last state is committed.
TEST_F(WholeRun, ARunThatIsSavedEndsWellWhereNothingCanBeSaid) {
  const auto train_into = [&](const std::string& streams, const std::string& steps) {
    std::vector<std::string> shell{"bash", "-c", streams, "bash"};
    for (const std::string& word : words({"train.steps=" + steps})) shell.push_back(word);
    return run_process(shell, environment(), 180).status;
  };
  EXPECT_EQ(train_into("exec \"$@\" > /dev/full 2>&1", "3"), 0);
  EXPECT_EQ(newest_checkpoint(), 3);
  EXPECT_EQ(events<observe::End>().back().reason, "finished");
  // The reader has gone before the first line.
  EXPECT_EQ(train_into("\"$@\" 2>&1 | exec 0<&-; exit ${PIPESTATUS[0]}", "6"), 0);
  EXPECT_EQ(newest_checkpoint(), 6);
}

TEST_F(WholeRun, AnInterruptIsHeardAndSaves) {
  Child child = start({"train.checkpoint_every=0"});
  ASSERT_TRUE(reaches(child, 2)) << child.output();
  child.send(SIGINT);
  EXPECT_EQ(child.wait(), 74) << child.output();
  EXPECT_THAT(child.output(),
              HasSubstr("stopping as soon as what was done is saved; Ctrl-C again aborts at once\n"));
  EXPECT_EQ(newest_checkpoint(), steps_done());
}

TEST_F(WholeRun, UntilTimeSavesAndEndsWell) {
  Child child = start({"train.until_time=+3s", "train.checkpoint_every=0"});
  EXPECT_EQ(child.wait(), 0) << child.output();
  EXPECT_EQ(events<observe::End>().back().reason, "until_time");
  EXPECT_GT(steps_done(), 0);
  EXPECT_EQ(newest_checkpoint(), steps_done());
  EXPECT_THAT(child.output(), HasSubstr("Stopped at step " + std::to_string(steps_done())));
}

TEST_F(WholeRun, AProcessThatSleptGoesOnOnlyWhereTheRunIsStillItsOwn) {
  Child child = start();
  ASSERT_TRUE(reaches(child, 2)) << child.output();
  child.send(SIGSTOP);
  child.send(SIGCONT);
  ASSERT_TRUE(reaches(child, steps_done() + 3)) << child.output();

  child.send(SIGSTOP);
  ASSERT_TRUE(child.wait_for([&] {
    std::ifstream status("/proc/" + std::to_string(child.pid()) + "/stat");
    const std::string text{std::istreambuf_iterator<char>(status), {}};
    return text.find(") T ") != std::string::npos;
  }));
  fs::rename(run_, folder_ / "elsewhere");
  fs::create_directories(run_);
  child.send(SIGCONT);
  EXPECT_EQ(child.wait(), 76) << child.output();
  EXPECT_THAT(child.output(), HasSubstr("taken over or moved"));
  EXPECT_TRUE(fs::is_empty(run_));
}

TEST_F(WholeRun, ASecondStartAndAFreshOneAreRefusedWhileOneRuns) {
  Child child = start();
  ASSERT_TRUE(reaches(child, 1)) << child.output();
  for (const std::string flag : {"--quiet", "--fresh"}) {
    const ProcessResult second = train({flag});
    EXPECT_EQ(second.status, 64);
    EXPECT_THAT(second.errors, HasSubstr("held by process " + std::to_string(child.pid())));
  }
  EXPECT_TRUE(reaches(child, steps_done() + 2)) << child.output();
}

TEST_F(WholeRun, ASaveThatFailsForLackOfRoomLosesNothing) {
  ASSERT_EQ(train({"train.steps=4", "train.checkpoint_every=4"}).status, 0);
  // Nothing of more than 48 KiB can be written: no checkpoint, no page.
  const ProcessResult full = train_limited(48, {"train.steps=12", "train.checkpoint_every=4"});
  EXPECT_EQ(full.status, 73) << full.errors;
  EXPECT_EQ(steps_done(), 12);
  const auto alarms = events<observe::Alarm>();
  // steps 8 and 12, four more attempts at the latter, and what they come to
  ASSERT_EQ(alarms.size(), 7u) << full.output;
  EXPECT_EQ(alarms[0].kind, "disk_full");
  EXPECT_THAT(alarms[0].message, HasSubstr("step 8"));
  EXPECT_THAT(full.errors,
              HasSubstr("alarm   disk_full: the checkpoint of step 8 was not saved, those before it stay: "));
  // an error's lines are lines
  EXPECT_THAT(full.errors, AllOf(HasSubstr("\n  where "), Not(HasSubstr("\\x0a"))));
  EXPECT_EQ(alarms.back().kind, "not_saved");
  EXPECT_THAT(
      full.errors,
      HasSubstr("the state at step 12 is not on the disk: a start goes on from step 4, and does 8 again"));
  EXPECT_THAT(full.errors, HasSubstr("error: the last state of the run is not saved"));
  EXPECT_THAT(full.output, Not(HasSubstr("alarm")));
  EXPECT_EQ(newest_checkpoint(), 4);
  // Quiet or not.
  const ProcessResult quiet = train_limited(48, {"train.steps=12", "train.checkpoint_every=4", "--quiet"});
  EXPECT_EQ(quiet.status, 73);
  EXPECT_EQ(quiet.output, "");
  EXPECT_THAT(quiet.errors, AllOf(HasSubstr("alarm   disk_full: "),
                                  HasSubstr("error: the last state of the run is not saved")));

  const ProcessResult after = train({"train.steps=12", "train.checkpoint_every=4"});
  EXPECT_EQ(after.status, 0) << after.errors;
  EXPECT_EQ(events<observe::Resume>().back().step, 4);
  EXPECT_EQ(newest_checkpoint(), 12);
}

TEST_F(WholeRun, QuietSaysNothingWhenAllIsWell) {
  const ProcessResult quiet =
      run_process(words({"train.steps=3", "optim.warmup_steps=1", "--quiet"}),
                  // it measures the machine too
                  {"LONGHAUL_CACHE=" + (folder_ / "empty").string(), "NO_COLOR=1"}, 180);
  EXPECT_EQ(quiet.status, 0);
  EXPECT_EQ(quiet.output, "");
  EXPECT_EQ(quiet.errors, "");
}

// A closed descriptor is the next one to be opened: what is printed would land in the events or the lock.
TEST_F(WholeRun, ClosedStandardStreamsAreNotTheRunsFiles) {
  int64_t steps = 0;
  for (const std::string closed : {">&- 2>&-", ">&-", "2>&-", "<&- >&- 2>&-"}) {
    steps += 2;
    std::vector<std::string> shell{"bash", "-c", "exec \"$@\" " + closed, "bash"};
    for (const std::string& word : words({"train.steps=" + std::to_string(steps)})) shell.push_back(word);
    EXPECT_EQ(run_process(shell, environment(), 180).status, 0) << closed;
    EXPECT_EQ(steps_done(), steps) << closed;  // reads every line
    EXPECT_EQ(newest_checkpoint(), steps) << closed;
    EXPECT_THAT(read_text(run_ / "events.jsonl.lock"), ::testing::MatchesRegex("[0-9]* *\n?")) << closed;
  }
  EXPECT_EQ(events<observe::Resume>().size(), 3u);
}

TEST_F(WholeRun, ADiskThatFillsUpAndIsClearedAgain) {
  const fs::path disk = folder_ / "disk";
  fs::create_directories(disk);
  if (::mount("longhaul-test", disk.c_str(), "tmpfs", 0, "size=8m") != 0)
    GTEST_SKIP() << "mounting is not allowed here";
  run_ = disk / "run";
  {
    Child child = start({"train.checkpoint_every=5", "train.checkpoint_keep=2"});
    EXPECT_TRUE(child.wait_for([&] { return events<observe::CheckpointSaved>().size() >= 3; }))
        << child.output();
    {
      std::ofstream filler(disk / "filler", std::ios::binary);
      const std::string block(4096, 'x');
      while (filler.write(block.data(), 4096).flush()) {
      }
    }
    // Both kinds of writing have failed; the last page of the event log has room for some steps.
    for (const char* said : {"disk_full", "events cannot be written"}) {
      EXPECT_TRUE(child.wait_for([&] { return child.output().find(said) != std::string::npos; }))
          << said << "\n"
          << child.output();
    }
    const int64_t kept = newest_checkpoint();
    EXPECT_GT(kept, 0);
    fs::remove(disk / "filler");
    EXPECT_TRUE(child.wait_for([&] { return newest_checkpoint() > kept; })) << child.output();
    child.send(SIGTERM);
    EXPECT_EQ(child.wait(), 74) << child.output();
  }
  std::vector<std::string> kinds;
  for (const auto& alarm : events<observe::Alarm>()) kinds.push_back(alarm.kind);
  EXPECT_THAT(kinds, ::testing::Contains("events_lost"));  // the stream says what it lacks
  EXPECT_EQ(newest_checkpoint(), steps_done());
  ::umount(disk.c_str());
}

TEST_F(WholeRun, AFolderThatMayNotBeWrittenIsRefusedBeforeTheWork) {
  run_ = "/sys/fs/longhaul";  // where even root makes no folder
  const ProcessResult refused = train({});
  EXPECT_EQ(refused.status, 73);
  EXPECT_THAT(refused.errors, HasSubstr("the run folder cannot be written"));
  EXPECT_THAT(refused.errors, HasSubstr("--run DIR"));
  for (const auto& entry : fs::directory_iterator(folder_ / "cache")) {
    EXPECT_EQ(entry.path().filename(), "machine-profile") << "data were prepared for nothing";
  }
}

TEST_F(WholeRun, LostEventsDoNotMakeCheckpointsOfThePastLookLikeTheFuture) {
  ASSERT_EQ(train({"train.steps=2"}).status, 0);
  ASSERT_EQ(train({"train.steps=4"}).status, 0);  // generation 2
  fs::remove(run_ / "events.jsonl");
  const ProcessResult after = train({"train.steps=6"});
  EXPECT_EQ(after.status, 0) << after.errors;
  EXPECT_EQ(newest_checkpoint(), 6);
}

}  // namespace
}  // namespace longhaul::cli
