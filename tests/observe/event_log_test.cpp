#include "observe/events/event_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>

#include "base/files/temporary_folder.h"
#include "base/threads/worker.h"

namespace longhaul::observe {
namespace {

using ::testing::HasSubstr;

struct Collect : EventReader {
  std::vector<std::string> names;
  void on(const Event& event) override { names.emplace_back(name_of(event.body)); }
};
struct Failing : EventReader {
  void on(const Event&) override { throw Error({.code = ExitCode::kDisk, .what = "no space"}); }
};

void append(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::app | std::ios::binary) << text;
}

TEST(EventLog, WritesLinesAndHandsThemToReaders) {
  const TemporaryFolder folder;
  const auto reader = std::make_shared<Collect>();
  {
    EventWriter writer({.path = folder / "run/events.jsonl"});
    writer.add(reader);
    writer.write(RunStart{.name = "x"});
    writer.write(StepReport{.step = 1, .loss = 2.5});
    EXPECT_EQ(writer.generation(), 1);
    EXPECT_FALSE(writer.run().empty());
  }
  EXPECT_EQ(reader->names, (std::vector<std::string>{"run_start", "step"}));
  const auto events = read_events(folder / "run/events.jsonl");
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(std::get<StepReport>(events[1].body).loss, 2.5);
  EXPECT_GE(events[1].common.monotonic_ns, events[0].common.monotonic_ns);
  EXPECT_GT(events[0].common.wall_time, 1.6e9);
}

TEST(EventLog, ASecondProcessKeepsTheRunAndRaisesTheGeneration) {
  const TemporaryFolder folder;
  const auto path = folder / "events.jsonl";
  std::string run;
  {
    EventWriter writer({.path = path});
    writer.write(RunStart{});
    run = writer.run();
  }
  EventWriter writer({.path = path});
  writer.write(Resume{.step = 0});
  EXPECT_EQ(writer.run(), run);
  EXPECT_EQ(read_events(path).back().common.generation, 2);
}

TEST(EventLog, TheGenerationIsClaimedWhereItCanBeAskedFor) {
  const TemporaryFolder folder;
  const auto path = folder / "events.jsonl";
  EventWriter({.path = path, .generation = 3}).write(RunStart{});
  int64_t asked = -1;
  EventWriter writer({.path = path, .claim_generation = [&](int64_t last) {
                        asked = last;
                        return int64_t{9};
                      }});
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(writer.generation(), 9);
}

TEST(EventLog, OneWriterAtATime) {
  const TemporaryFolder folder;
  const EventWriter writer({.path = folder / "events.jsonl"});
  EXPECT_THROW(EventWriter({.path = folder / "events.jsonl"}), Error);
}

TEST(EventLog, ATornLastLineIsCut) {
  const TemporaryFolder folder;
  const std::string line = to_json({.common = {.run = "r"}, .body = Resume{.step = 1}});
  // the whole line without its newline is torn too
  for (const size_t kept : {size_t{1}, line.size() / 2, line.size()}) {
    const auto path = folder / ("events" + std::to_string(kept));
    append(path, line + "\n" + line.substr(0, kept));
    EXPECT_EQ(read_events(path).size(), 1u);
    EventWriter writer({.path = path});
    writer.write(Resume{.step = 2});
    const auto events = read_events(path);
    ASSERT_EQ(events.size(), 2u) << kept;
    EXPECT_EQ(std::get<Resume>(events[1].body).step, 2);
    EXPECT_EQ(events[1].common.run, "r");
  }
}

// A bad disk may change a byte anywhere: what the other lines say is not lost for it.
TEST(EventLog, DamagedLinesArePassedOver) {
  const TemporaryFolder folder;
  const auto path = folder / "events.jsonl";
  const auto line = [](int64_t step) {
    return to_json({.common = {.run = "r", .generation = 3}, .body = Resume{.step = step}}) + "\n";
  };
  std::string nul = line(9);
  nul[nul.size() / 2] = '\0';
  append(path, nul + line(1) + "{\"schema\":1,\n" + line(2) + nul + nul);
  std::vector<int64_t> steps;
  for_each_event(path, [&](const Event& event) { steps.push_back(std::get<Resume>(event.body).step); });
  EXPECT_EQ(steps, (std::vector<int64_t>{1, 2}));
  EventWriter writer({.path = path});  // run and generation come from the lines that can be read
  EXPECT_EQ(writer.run(), "r");
  EXPECT_EQ(writer.generation(), 4);
  writer.write(Resume{.step = 3});
  EXPECT_EQ(read_events(path).size(), 3u);
}

TEST(EventLog, AFileWithoutALineThatCanBeReadIsAnError) {
  const TemporaryFolder folder;
  append(folder / "events.jsonl", "no events\nat all\n");
  try {
    EventWriter writer({.path = folder / "events.jsonl"});
    FAIL() << "took it for a run's";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kData);
  }
}

TEST(EventLog, LinesThatCrossReadChunksAreWhole) {
  const TemporaryFolder folder;
  {
    EventWriter writer({.path = folder / "events.jsonl"});
    for (int i = 0; i < 40; ++i) writer.write(Sample{.step = i, .text = std::string(100'000 + i, 'x')});
  }
  // finds first and last line, both longer than what it reads at once
  EventWriter again({.path = folder / "events.jsonl"});
  EXPECT_EQ(again.generation(), 2);
  const auto events = read_events(folder / "events.jsonl");
  ASSERT_EQ(events.size(), 40u);
  for (int i = 0; i < 40; ++i)
    EXPECT_EQ(std::get<Sample>(events[static_cast<size_t>(i)].body).text.size(),
              100'000u + static_cast<size_t>(i));
}

TEST(EventLog, EmptyAndMissingFiles) {
  const TemporaryFolder folder;
  append(folder / "events.jsonl", "");
  EXPECT_TRUE(read_events(folder / "events.jsonl").empty());
  EXPECT_EQ(events_file(folder.path()), folder / "events.jsonl");
  EXPECT_EQ(events_file(folder / "events.jsonl"), folder / "events.jsonl");
  EXPECT_THROW(events_file(folder / "nowhere"), Error);
}

TEST(EventLog, AFailingReaderStopsNobody) {
  const TemporaryFolder folder;
  EventWriter writer({.path = folder / "events.jsonl"});
  const auto after = std::make_shared<Collect>();
  writer.add(std::make_shared<Failing>());
  writer.add(after);
  writer.write(Resume{.step = 1});
  writer.write(Resume{.step = 2});
  EXPECT_EQ(after->names.size(), 2u);
  EXPECT_EQ(read_events(folder / "events.jsonl").size(), 2u);
}

// A file-size limit stands in for a full disk while it lives: a write beyond it is cut short and fails, as on
// a full one.
class FullDisk {
 public:
  explicit FullDisk(const std::filesystem::path& file, int64_t room)
      : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
    rlimit small = before_;
    small.rlim_cur = static_cast<rlim_t>(static_cast<int64_t>(std::filesystem::file_size(file)) + room);
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  sighandler_t handler_;
};

TEST(EventLog, AFullDiskLosesEventsButNotTraining) {
  const TemporaryFolder folder;
  const auto path = folder / "events.jsonl";
  EventWriter writer({.path = path});
  const auto reader = std::make_shared<Collect>();
  writer.add(reader);
  writer.write(StepReport{.step = 1});
  {
    const FullDisk full(path, 50);  // room for a part of a line
    writer.write(StepReport{.step = 2});
    writer.write(StepReport{.step = 3});
  }
  EXPECT_EQ(writer.events_lost(), 2);
  writer.write(StepReport{.step = 4});
  // Readers saw all steps, and the alarm once when it began and once when it was over.
  EXPECT_EQ(reader->names, (std::vector<std::string>{"step", "step", "alarm", "step", "step", "alarm"}));
  const auto events = read_events(path);  // no half line is left
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(std::get<StepReport>(events[1].body).step, 4);
  const auto& alarm = std::get<Alarm>(events[2].body);
  EXPECT_THAT(alarm.message, HasSubstr("2 events"));
  EXPECT_EQ(alarm.first_step, 2) << "the steps that nobody finds in the file";
  EXPECT_EQ(alarm.last_step, 3);
}

// There is room again for an event, but not for the alarm after it: which steps were lost must not be
// forgotten.
TEST(EventLog, TheAlarmOfLostEventsWaitsForRoomToo) {
  const TemporaryFolder folder;
  const auto path = folder / "events.jsonl";
  EventWriter writer({.path = path});
  writer.write(StepReport{.step = 1});
  const auto one = static_cast<int64_t>(std::filesystem::file_size(path));
  {
    const FullDisk full(path, 50);
    writer.write(StepReport{.step = 2});
  }
  {
    const FullDisk nearly_full(path, one + 50);
    writer.write(StepReport{.step = 3});
  }
  EXPECT_EQ(writer.events_lost(), 1);
  writer.write(StepReport{.step = 4});
  const auto events = read_events(path);
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(std::get<StepReport>(events[2].body).step, 4);
  const auto& alarm = std::get<Alarm>(events[3].body);
  EXPECT_EQ(alarm.first_step, 2);
  EXPECT_EQ(alarm.last_step, 2);
  writer.write(StepReport{.step = 5});
  EXPECT_EQ(read_events(path).size(), 5u) << "it is told once";
}

TEST(EventLog, SeveralThreadsWriteWholeLines) {
  const TemporaryFolder folder;
  EventWriter writer({.path = folder / "events.jsonl"});
  {
    Worker first("first"), second("second");
    for (int i = 0; i < 200; ++i) {
      first.post([&writer, i] { writer.write(Resume{.step = i}); });
      second.post([&writer, i] { writer.write(Resume{.step = 1000 + i}); });
    }
    first.wait();
    second.wait();
  }
  EXPECT_EQ(read_events(folder / "events.jsonl").size(), 400u);
}

}  // namespace
}  // namespace longhaul::observe
