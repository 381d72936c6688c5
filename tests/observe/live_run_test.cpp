// A run read as it goes: what the driver says, what is appended, what is damaged or replaced meanwhile, and
// where its time went.
#include "observe/watch/live_run.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/files/temporary_folder.h"
#include "observe/watch/watch_screen.h"
#include "supervised_run.h"

namespace longhaul::observe {
namespace {

using test::SupervisedRun;
using test::SupervisedShape;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(RunStatusFile, IsReadAsItWasWritten) {
  const TemporaryFolder folder;
  const SupervisedRun run(folder.path(), {.stuck_rank = 2});
  const RunStatus written = run.status();
  const RunStatus read = status_from_json(read_text(status_file(folder.path())));
  EXPECT_EQ(to_json(read), to_json(written));
  EXPECT_EQ(read.ranks.at(2).collective.sequence, written.ranks[2].collective.sequence);
  EXPECT_EQ(read.ranks.at(5).phase_seconds, written.ranks[5].phase_seconds);
  EXPECT_EQ(read.mesh.at(0).name, "pp");
  EXPECT_EQ(read.driver.address, "127.0.0.1:9000");
}

TEST(RunStatusFile, ForgivesWhatItDoesNotKnow) {
  const RunStatus status = status_from_json(
      R"({"state":"TRAIN","step":"many","steps":null,"unheard_of":{"a":[1]},"ranks":[{"rank":1,"loss":null,"collective":7,"phase_seconds":{"forward":0.5,"note":"x"}},3],)"
      R"("incidents":[{"class":"hang","evidence":"one text","suspects":[3,"rank 4"],"lost_steps":2.0}]})");
  EXPECT_EQ(status.state, "TRAIN");
  EXPECT_EQ(status.step, 0);
  ASSERT_EQ(status.ranks.size(), 2u);
  EXPECT_FALSE(status.ranks[0].loss.has_value());
  EXPECT_EQ(status.ranks[0].phase_seconds.size(), 1u);
  ASSERT_EQ(status.incidents.size(), 1u);
  EXPECT_THAT(status.incidents[0].evidence, ElementsAre("one text"));
  EXPECT_THAT(status.incidents[0].suspects, ElementsAre("3", "rank 4"));
  EXPECT_EQ(status.incidents[0].lost_steps, 2);
  EXPECT_THROW(status_from_json("{\"state\":"), Error);
  EXPECT_THROW(status_from_json("[]"), Error);
}

TEST(LineTail, FollowsAFileThroughEverythingThatHappensToIt) {
  const TemporaryFolder folder;
  const auto path = folder / "a.jsonl";
  LineTail tail(folder.path(), "a.jsonl");
  std::vector<std::string> lines;
  const auto poll = [&] {
    lines.clear();
    tail.poll([&](std::string_view line) { lines.emplace_back(line); });
  };
  const auto append = [&](const std::string& text) { File::open(path, File::Mode::kAppend).write(text); };
  poll();
  EXPECT_TRUE(lines.empty()) << "no file yet";
  append("one\ntw");
  poll();
  EXPECT_THAT(lines, ElementsAre("one"));
  poll();
  EXPECT_TRUE(lines.empty());
  append("o\nthree\n");
  poll();
  EXPECT_THAT(lines, ElementsAre("two", "three"));
  append("torn");
  poll();
  File::open(path, File::Mode::kReadWrite).truncate(14);  // as a new process cuts the torn line
  append("four\n");
  poll();
  EXPECT_THAT(lines, ElementsAre("four"));
  EXPECT_FALSE(tail.began_anew());
  write_text_atomically(path, "another\nfile, longer than the one before\n");
  poll();
  EXPECT_THAT(lines, ElementsAre("another", "file, longer than the one before"));
  EXPECT_TRUE(tail.began_anew());
  std::filesystem::remove(path);
  poll();
  EXPECT_TRUE(lines.empty());
}

TEST(LineTail, OfALongFileTheFirstLineAndTheEnd) {
  const TemporaryFolder folder;
  std::string text = "first\n";
  for (int i = 0; i < 1000; ++i) text += "line " + std::to_string(i) + "\n";
  write_text_atomically(folder / "a", text);
  LineTail tail(folder.path(), "a", 25);
  std::vector<std::string> lines;
  tail.poll([&](std::string_view line) { lines.emplace_back(line); });
  EXPECT_THAT(lines, ElementsAre("first", "line 998", "line 999"));
  File::open(folder / "a", File::Mode::kAppend).write("more\n");
  lines.clear();
  tail.poll([&](std::string_view line) { lines.emplace_back(line); });
  EXPECT_THAT(lines, ElementsAre("more"));
}

// Of a mesh with experts both sides stand in the file; each worker has all stages.
TEST(RunStatusFile, StagesOfRanks) {
  RunStatus status;
  status.ranks.resize(16);
  const auto stages = [&](std::vector<MeshAxis> mesh) {
    status.mesh = std::move(mesh);
    std::string text;
    for (int64_t rank = 0; rank < 16; ++rank) text += fmt::to_string(status.stage_of(rank));
    return text;
  };
  EXPECT_EQ(stages({{"pp", 4}, {"dp", 4}, {"cp", 1}, {"tp", 1}}), "0000111122223333");
  EXPECT_EQ(stages({{"pp", 4}, {"dp", 4}, {"cp", 1}, {"tp", 1}, {"edp", 1}, {"ep", 4}, {"etp", 1}}),
            "0000111122223333");
  EXPECT_EQ(stages({{"workers", 2}, {"pp", 2}, {"dp", 2}, {"cp", 1}, {"tp", 2}}), "0000111100001111");
  EXPECT_EQ(stages({{"ranks", 16}}), "0000000000000000");
  EXPECT_EQ(stages({{"pp", 3}}), "0000000000000000") << "no whole number of ranks a stage";
}

// The last stage of a pipeline has the head, and more work: its ranks are compared with each other.
TEST(LiveRun, AStageIsNoStraggler) {
  const TemporaryFolder folder;
  SupervisedRun run(folder.path(), {.stages = 4,
                                    .replicas = 4,
                                    .tensor = 1,
                                    .nodes = 4,
                                    .steps = 20,
                                    .slow_rank = -1,
                                    .incidents = false});
  LiveRun live(folder.path());
  for (int step = 0; step < 12; ++step) {
    run.advance();
    RunStatus status = run.status();
    for (const MeshAxis& axis : {MeshAxis{"edp", 1}, MeshAxis{"ep", 4}, MeshAxis{"etp", 1}})
      status.mesh.push_back(axis);
    for (RankStatus& rank : status.ranks) {
      for (auto& [phase, seconds] : rank.phase_seconds)
        seconds = (rank.rank >= 12 ? 1.5 : 1.0) * (phase == "forward" ? 0.2 : 0.1);
    }
    write_text_atomically(status_file(folder.path()), to_json(status));
    live.poll(run.now());
  }
  ASSERT_EQ(live.view().latencies.rows.size(), 16u);
  for (const auto& row : live.view().latencies.rows)
    EXPECT_FALSE(row.straggler) << row.rank << " " << row.place.peers;
}

// A rank that is gone, or has another machine, is not judged by what was measured before.
TEST(LiveRun, RanksThatAreGoneAreForgotten) {
  const TemporaryFolder folder;
  SupervisedRun run(
      folder.path(),
      {.stages = 1, .replicas = 8, .tensor = 1, .nodes = 4, .steps = 20, .slow_rank = 7, .incidents = false});
  LiveRun live(folder.path());
  const auto stragglers = [&](const auto& change) {
    run.advance();
    RunStatus status = run.status();
    change(status);
    write_text_atomically(status_file(folder.path()), to_json(status));
    live.poll(run.now());
    std::vector<int64_t> found;
    for (const auto& row : live.view().latencies.rows) {
      if (row.straggler) found.push_back(row.rank);
    }
    return found;
  };
  const auto nothing = [](RunStatus&) {};
  const auto moved = [](RunStatus& status) { status.ranks[7].node = "spare-0"; };
  for (int step = 0; step < 12; ++step) stragglers(nothing);
  EXPECT_THAT(stragglers(nothing), ElementsAre(7));
  EXPECT_THAT(stragglers([](RunStatus& status) { status.ranks[7].state = "lost"; }), ElementsAre());
  for (int step = 0; step < 12; ++step) stragglers(nothing);
  EXPECT_THAT(stragglers(nothing), ElementsAre(7)) << "it came back as slow as it was";
  EXPECT_THAT(stragglers(moved), ElementsAre()) << "another machine";
  for (int step = 0; step < 12; ++step) stragglers(moved);
  EXPECT_THAT(stragglers(moved), ElementsAre(7));
  EXPECT_THAT(stragglers([](RunStatus& status) { status.ranks.resize(6); }), ElementsAre());
  EXPECT_EQ(live.view().latencies.rows.size(), 6u);
}

// The clock of who watches may be another than the driver's.
TEST(LiveRun, TheDriverIsHeardByWhatChangesAndNotByItsClock) {
  const TemporaryFolder folder;
  SupervisedRun run(folder.path(), {.steps = 20, .incidents = false});
  for (const double skew : {-300.0, 300.0}) {
    run.write_status();
    LiveRun live(folder.path());
    double now = run.now() + skew;
    live.poll(now);
    for (int second = 0; second < 30; ++second) {
      run.advance();
      run.write_status();
      live.poll(now += 1);
      EXPECT_STREQ(live.view().state().kind, "good") << skew << ": " << live.view().state().sentence;
    }
    EXPECT_EQ(live.view().status_age(), 0);
    live.poll(now += 16);
    EXPECT_STREQ(live.view().state().kind, "bad") << skew;
    EXPECT_EQ(live.view().status_age(), 16) << skew;
  }
  // What never changes is as old as it was looked at, if not older.
  LiveRun early(folder.path()), late(folder.path());
  for (const double second : {0.0, 10.0, 20.0})
    early.poll(run.now() - 1000 + second), late.poll(run.now() + 100 + second);
  EXPECT_NEAR(early.view().status_age(), 20, 1e-3);
  EXPECT_NEAR(late.view().status_age(), 120, 1e-3);
}

// Of calls in the last recorded step: the rank that they took longest. The last rank computes longer, and
// waits less.
TEST(LiveRun, CallsOfTheLastRecordedStep) {
  const TemporaryFolder folder;
  const SupervisedRun run(folder.path(), {.slow_rank = 7, .traced_steps = 12});
  LiveRun live(folder.path());
  live.poll(run.now());
  ASSERT_EQ(live.view().calls.size(), 1u);
  const auto& [name, use] = *live.view().calls.begin();
  EXPECT_EQ(name, (std::pair<std::string, std::string>("all_reduce", "world")));
  EXPECT_NEAR(use.seconds, 0.2, 1e-9);
  EXPECT_EQ(use.bytes, 200);
}

// A disk that is full until the last save loses events, and not the run.
TEST(LiveRun, AFinishedRunIsAtTheStepThatItSaved) {
  const TemporaryFolder folder;
  SupervisedRun run(folder.path(), {.steps = 16, .planned = 40, .incidents = false});
  std::filesystem::remove_all(folder / "control");
  run.add(CheckpointSaved{.step = 40, .path = "checkpoints/step-40"});
  LiveRun live(folder.path());
  live.poll(run.now());
  EXPECT_EQ(live.view().step(), 16) << "it may have gone back";
  run.add(End{.reason = "finished", .step = 40});
  live.poll(run.now());
  EXPECT_EQ(live.view().step(), 40);
  EXPECT_EQ(live.view().state().word, "finished");
}

// Clocks are set; where time went is told by the one that nobody sets.
TEST(LiveRun, AClockThatIsSetBackTakesNoTime) {
  const TemporaryFolder folder;
  const auto event = [&](int64_t generation, double wall, double monotonic, EventBody body) {
    const Event told{.common = {.run = "r",
                                .generation = generation,
                                .wall_time = wall,
                                .monotonic_ns = std::llround(monotonic * 1e9)},
                     .body = std::move(body)};
    File::open(folder / "events.jsonl", File::Mode::kAppend).write(to_json(told) + "\n");
  };
  constexpr double kDay = 86400;
  event(1, 1000 * kDay, 100, RunStart{.steps = 4});
  event(1, 1000 * kDay + 3, 103, StepReport{.step = 1, .milliseconds = 2000});
  event(1, 600 * kDay, 105, StepReport{.step = 2, .milliseconds = 2000});  // the clock went 400 days back
  event(2, 600 * kDay + 10, 7, RunStart{.steps = 4});
  event(2, 600 * kDay + 12, 9, StepReport{.step = 3, .milliseconds = 2000});
  event(2, 600 * kDay + 12, 9, End{.reason = "finished", .step = 3});
  LiveRun live(folder.path());
  live.poll(600 * kDay + 12);
  const TimeShares& time = live.view().time;
  EXPECT_DOUBLE_EQ(time.wall, 3 + 2 + 10 + 2);
  EXPECT_DOUBLE_EQ(time.stopped, 10);
  EXPECT_DOUBLE_EQ(time.starting, 1);
  EXPECT_DOUBLE_EQ(time.productive, 6);
}

// The driver starts ranks before they say anything: that time is neither lost sight of nor anything else.
TEST(LiveRun, TimeBeforeTheFirstEventIsStarting) {
  const TemporaryFolder folder;
  const SupervisedRun run(folder.path(), {.steps = 10, .incidents = false});
  RunStatus status = run.status();
  status.started_wall_time -= 7;
  LiveRun live(folder.path());
  live.poll(run.now());
  const TimeShares before = live.view().time;
  write_text_atomically(status_file(folder.path()), to_json(status));
  for (int again = 0; again < 3; ++again) live.poll(run.now());
  EXPECT_NEAR(live.view().time.starting, before.starting + 7, 1e-6);
  EXPECT_NEAR(live.view().time.wall, before.wall + 7, 1e-6);
}

TEST(LiveRun, KnowsWhatTheFolderKnows) {
  const TemporaryFolder folder;
  SupervisedRun run(folder.path(), {});
  LiveRun live(folder.path());
  live.poll(run.now() + 0.5);
  const RunView& view = live.view();
  EXPECT_EQ(view.step(), 394) << "400, of which 6 were done again";
  EXPECT_EQ(view.planned_steps(), 2000);
  EXPECT_EQ(view.generation(), 2);
  EXPECT_EQ(view.world(), 8);
  EXPECT_EQ(view.state().word, "TRAIN");
  EXPECT_NEAR(view.seconds_a_step(), 0.8, 0.02);
  ASSERT_EQ(view.incidents.size(), 1u);
  EXPECT_EQ(view.incidents[0].fault, "hang");
  EXPECT_EQ(view.incidents[0].rank, 3);
  ASSERT_EQ(view.troubles.size(), 1u) << "of another rank's file";
  EXPECT_EQ(view.troubles[0].kind, "disk_full");
  EXPECT_EQ(view.totals.steps, 400);
  EXPECT_EQ(view.totals.tokens, 400 * 8192) << "those done again count again";
  EXPECT_NEAR(view.checkpoint_interval_s(), 40, 1);
  EXPECT_DOUBLE_EQ(view.effective_ratio(), 0.962) << "the driver's word";

  run.advance();
  run.write_status();
  live.poll(run.now());
  EXPECT_EQ(view.step(), 395);
}

TEST(LiveRun, AnIncidentThatIsNotOverIsShownAndThenNotTwice) {
  const TemporaryFolder folder;
  SupervisedRun run(folder.path(), {.incidents = false});
  RunStatus status = run.status();
  status.incidents = {
      {{.id = 7, .fault = "hang", .rank = 2, .ended_generation = 1}, run.now() - 3, /*open=*/true}};
  write_text_atomically(status_file(folder.path()), to_json(status));
  LiveRun live(folder.path());
  live.poll(run.now());
  ASSERT_EQ(live.view().incidents.size(), 1u);
  EXPECT_TRUE(live.view().incidents[0].open);
  IncidentReport report{.id = 7,
                        .fault = "hang",
                        .rank = 2,
                        .action = "restart",
                        .ended_generation = 1,
                        .recovered = true,
                        .recovered_milliseconds = 900};
  run.append("events/driver-0.jsonl",
             to_json({.common = {.generation = 12, .wall_time = run.now()}, .body = report}) + "\n");
  for (int i = 0; i < 6; ++i) live.poll(run.now() + 1);
  EXPECT_EQ(live.view().incidents.size(), 1u) << "the same, from the event stream";
  std::filesystem::remove_all(folder / "control");
  LiveRun later(folder.path());
  later.poll(run.now() + 2);
  ASSERT_EQ(later.view().incidents.size(), 1u);
  EXPECT_EQ(later.view().incidents[0].ended_generation, 1) << "of the ranks, not of the driver";
  EXPECT_DOUBLE_EQ(later.view().incidents[0].recovered_milliseconds.value(), 900);
}

TEST(LiveRun, SaysWhereTheTimeWent) {
  const TemporaryFolder folder;
  const SupervisedRun run(folder.path(), {});
  std::filesystem::remove_all(folder / "control");
  LiveRun live(folder.path());
  live.poll(run.now());
  const TimeShares& time = live.view().time;
  // 400 steps of 0.8 s of which 6 count no more, two starts of 4 s, 9 s without a process (less what belongs
  // to a step), seven copies of 0.12 s.
  EXPECT_NEAR(time.wall, 400 * 0.8 + 2 * 4 + 9, 1e-3);
  EXPECT_NEAR(time.productive, 394 * 0.8, 1);
  EXPECT_NEAR(time.repeated, 6 * 0.8, 0.3);
  EXPECT_NEAR(time.stopped, 9, 1e-3);
  EXPECT_NEAR(time.starting, 8, 0.1);
  EXPECT_NEAR(time.checkpoint, 7 * 0.12, 0.13);
  EXPECT_NEAR(live.view().effective_ratio(), 394 * 0.8 / (337), 0.005) << "without a driver, from the events";
}

TEST(LiveRun, WithoutADriverSaysItIsSilent) {
  const TemporaryFolder folder;
  SupervisedRun run(folder.path(), {.incidents = false});
  std::filesystem::remove_all(folder / "control");
  LiveRun live(folder.path());
  live.poll(run.now() + 1);
  EXPECT_EQ(live.view().state().word, "running");
  live.poll(run.now() + 3600);
  EXPECT_EQ(live.view().state().word, "silent");
  EXPECT_THAT(live.view().state().sentence, HasSubstr("hangs, or was killed"));
  run.add(End{.reason = "finished", .step = 400});
  live.poll(run.now() + 7200);
  EXPECT_EQ(live.view().state().word, "finished");
  EXPECT_NEAR(live.view().time.wall, 324, 1) << "the time after its end is not its own";
}

TEST(LiveRun, ADriverThatSaysNothingIsNoticed) {
  const TemporaryFolder folder;
  const SupervisedRun run(folder.path(), {});
  LiveRun live(folder.path());
  live.poll(run.now() + 40);
  EXPECT_STREQ(live.view().state().kind, "bad");
  EXPECT_THAT(live.view().state().sentence, HasSubstr("the driver has said nothing for 40"));
}

TEST(LiveRun, GoesOnOverDamage) {
  const TemporaryFolder folder;
  SupervisedRun run(folder.path(), {.incidents = false});
  run.append(
      "events.jsonl",
      "{\"event\":\"step\",\n\xff\xfe\nnull\n{\"event\":17}\n{\"schema\":1,\"run\":\"r\",\"generation\":1,"
      "\"rank\":0,\"wall_time\":1.0,\"monotonic_ns\":1,\"event\":\"of the future\"}\n");
  run.append("events/rank-1.jsonl", "[[[[\n");
  run.append("trace/rank-1.jsonl", "no trace\n");
  write_text_atomically(folder / "control" / "status.json", "{\"half\":");
  LiveRun live(folder.path());
  run.advance();
  live.poll(run.now());
  EXPECT_EQ(live.view().step(), 401);
  EXPECT_GE(live.view().damaged_lines, 4);
  EXPECT_FALSE(live.view().has_driver());
}

TEST(LiveRun, ARunThatWasReplacedIsReadAnew) {
  const TemporaryFolder folder;
  { const SupervisedRun run(folder.path(), {}); }
  LiveRun live(folder.path());
  live.poll(1e9);
  std::filesystem::remove_all(folder / "events");
  std::filesystem::remove(folder / "events.jsonl");
  const SupervisedRun again(folder.path(), {.steps = 10, .begin = 1'800'000'000, .incidents = false});
  live.poll(again.now());
  EXPECT_EQ(live.view().history.steps.size(), 10u);
  EXPECT_EQ(live.view().totals.steps, 10);
  EXPECT_TRUE(live.view().troubles.empty());
}

TEST(LiveRun, AFolderIsAskedFor) {
  const TemporaryFolder folder;
  EXPECT_THROW(LiveRun(folder / "none"), Error);
  LiveRun empty(folder.path());
  empty.poll(1e9);
  EXPECT_EQ(empty.view().state().word, "waiting");
  EXPECT_THAT(watch_screen(empty.view(), {}, {}), HasSubstr("nothing has been written yet"));
}

// 200 ranks, each a little different from step to step and one 10 % slow: it is named, and none else; its
// pipeline stage is what it is compared with.
TEST(Latency, OneSlowRankAmongTwoHundredIsNamed) {
  LatencyWindow window;
  for (int64_t step = 1; step <= 40; ++step) {
    for (int64_t rank = 0; rank < 200; ++rank) {
      const double noise = 1 + 0.02 * std::sin(static_cast<double>(step * 131 + rank * 17)),
                   stage = rank < 100 ? 1 : 1.5;
      const double work = 0.2 * stage * noise * (rank == 77 ? 1.1 : 1);
      window.add(rank, step, {{"forward", work}, {"backward", 2 * work}, {"communication", 1.0 - 3 * work}});
    }
  }
  const LatencyMap map = window.map([](int64_t rank) {
    return LatencyPlace{.node = "n" + std::to_string(rank / 8), .peers = rank < 100 ? "stage 0" : "stage 1"};
  });
  ASSERT_EQ(map.rows.size(), 200u);
  EXPECT_THAT(map.phases, ElementsAre("forward", "backward", "communication"));
  std::vector<int64_t> named;
  for (const auto& row : map.rows) {
    if (row.straggler) named.push_back(row.rank);
    if (row.rank == 77) {
      EXPECT_NEAR(row.score, 1 / 1.1, 0.01);
    }
  }
  EXPECT_THAT(named, ElementsAre(77));
  EXPECT_EQ(map.measured_steps, 40);
}

TEST(Latency, MeansAndDistancesByHand) {
  LatencyWindow window(4);
  const double forward[] = {1, 1, 1, 1, 3};
  for (int64_t step = 1; step <= 6; ++step) {
    for (int64_t rank = 0; rank < 5; ++rank)
      window.add(rank, step, {{"forward", forward[rank] + (step <= 2 ? 100 : 0)}});
  }
  const LatencyMap map = window.map([](int64_t) { return LatencyPlace{}; });
  EXPECT_EQ(map.measured_steps, 4) << "the first two steps are out of the window";
  EXPECT_THAT(map.steps, ElementsAre(3, 4, 5, 6));
  EXPECT_DOUBLE_EQ(map.rows[4].seconds[0], 3);
  EXPECT_DOUBLE_EQ(map.rows[4].z[0], 2 / 0.02)
      << "no deviation among the others: 2 % of the median stand for it";
  EXPECT_DOUBLE_EQ(map.rows[0].z[0], 0);
  EXPECT_THAT(map.rows[4].work_by_step, ElementsAre(3, 3, 3, 3));
  EXPECT_FALSE(map.rows[4].straggler) << "four steps are too few";
  window.add(0, 3, {{"forward", 5.0}});
  EXPECT_EQ(window.map([](int64_t) { return LatencyPlace{}; }).rows[0].work, 5)
      << "gone back to step 3: what came after is void";
}

TEST(Latency, RecordedStepsDoWithoutADriver) {
  const TemporaryFolder folder;
  const SupervisedRun run(folder.path(),
                          {.steps = 20, .slow_rank = 6, .traced_steps = 12, .incidents = false});
  std::filesystem::remove_all(folder / "control");
  LiveRun live(folder.path());
  live.poll(run.now());
  const LatencyMap& map = live.view().latencies;
  ASSERT_EQ(map.rows.size(), 8u);
  EXPECT_EQ(map.measured_steps, 12);
  EXPECT_TRUE(live.view().traced);
  for (const auto& row : map.rows) {
    EXPECT_EQ(row.straggler, row.rank == 6) << row.rank << " " << row.score;
    EXPECT_EQ(row.place.peers, row.rank < 4 ? "stage 0" : "stage 1");
    // Forward and backward end at 600 ms; from twice the forward time on the rank stands still.
    EXPECT_NEAR(row.work, row.rank == 6 ? 0.52 : 0.4, 1e-9);
  }
}

TEST(WatchScreen, FitsAndObeysNothing) {
  const TemporaryFolder folder;
  SupervisedRun run(folder.path(), {.stuck_rank = 2});
  RunStatus status = run.status();
  status.nodes[0].node = "evil\x1b[2J";
  status.ranks[0].node = "evil\x1b[2J";
  write_text_atomically(status_file(folder.path()), to_json(status));
  LiveRun live(folder.path());
  live.poll(run.now());
  const std::string screen =
      watch_screen(live.view(), {{.name = "LonghaulNoProgress", .severity = "critical", .summary = "rank 2"}},
                   {.columns = 120, .rows = 30});
  EXPECT_THAT(screen, AllOf(HasSubstr("TRAIN"), HasSubstr("394 of 2,000"), HasSubstr("LonghaulNoProgress"),
                            HasSubstr("hang, rank 3"), Not(HasSubstr("\x1b"))));
  EXPECT_LE(std::ranges::count(screen, '\n'), 30);
  const std::string small = watch_screen(live.view(), {}, {.columns = 60, .rows = 14});
  EXPECT_LE(std::ranges::count(small, '\n'), 14);
  EXPECT_THAT(small, HasSubstr("more")) << "ranks for which there is no line are counted";
  EXPECT_EQ(block_line({3, 2, 1, std::nan("")}, 4), "█▅▁ ");
  EXPECT_EQ(block_line({}, 10), "");
}

}  // namespace
}  // namespace longhaul::observe
