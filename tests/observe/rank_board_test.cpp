// The board of a rank: what is written is read by another process, while it is written and after its writer
// was killed.
#include "observe/board/rank_board.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <fstream>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/temporary_folder.h"
#include "observe/board/node_lease.h"

namespace longhaul::observe {
namespace {

CallRecord call_named(const std::string& name, int64_t number, size_t group, int64_t sequence) {
  return {.number = number,
          .group = group,
          .kind = CallKind::kAllReduce,
          .sequence = sequence,
          .name = name,
          .text = "all_reduce '" + name + "'",
          .traffic = {12, 34},
          .entered_ns = monotonic_ns()};
}

TEST(RankBoard, OfNoFileItDoesNothing) {
  BoardWriter board;
  EXPECT_FALSE(board.on());
  board.enter(RankPhase::kForward);
  board.step_ended({.step = 3});
  board.add_group({"world", {0, 1}});
  board.call_entered(call_named("loss", 0, 0, 0));
  board.call_started(0);
}

TEST(RankBoard, ThereIsNoneBeforeItsRank) {
  const TemporaryFolder folder;
  EXPECT_FALSE(BoardReader::open(folder.path() / "board").has_value());
}

// A board that came between the look for it and the question whether anything is there was called one of
// another version, and its daemon ended.
TEST(RankBoard, OneThatComesWhileItIsLookedForIsThereOrNot) {
  const TemporaryFolder folder;
  std::atomic<bool> over = false;
  std::string error;
  std::thread reader([&] {
    while (!over && error.empty()) {
      try {
        BoardReader::open(folder.path() / "board");
      } catch (const Error& refused) {
        error = refused.what();
      }
    }
  });
  for (int i = 0; i < 200; ++i) {
    const BoardWriter board(folder.path() / "board", {.rank = 1, .generation = 1, .node = "here"});
    std::filesystem::remove(folder.path() / "board");
  }
  over = true;
  reader.join();
  EXPECT_EQ(error, "");
}

TEST(RankBoard, AFileOfAnotherVersionIsRefused) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "board") << "something else";
  try {
    BoardReader::open(folder.path() / "board");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kData);
  }
}

TEST(RankBoard, TellsWhereTheRankIs) {
  const TemporaryFolder folder;
  const int64_t before = monotonic_ns();
  BoardWriter board(folder.path() / "board", {.rank = 3, .generation = 7, .node = "node-1"});
  const auto reader = BoardReader::open(folder.path() / "board");
  ASSERT_TRUE(reader.has_value());
  RankProgress now = reader->progress();
  EXPECT_EQ(now.rank, 3);
  EXPECT_EQ(now.generation, 7);
  EXPECT_EQ(now.node, "node-1");
  EXPECT_EQ(now.pid, ::getpid());
  EXPECT_EQ(now.step, -1);
  EXPECT_EQ(now.resumed_step, -1);
  EXPECT_EQ(now.phase, RankPhase::kStart);
  EXPECT_TRUE(std::isnan(now.loss));
  EXPECT_GE(now.beat_ns, before);
  EXPECT_TRUE(now.collective.group.empty());

  board.step_started_from(11);
  EXPECT_EQ(board.enter(RankPhase::kForward, CallSite::here(), 2), RankPhase::kStart);
  const int line = __LINE__ - 1;
  now = reader->progress();
  EXPECT_EQ(now.step, 11);
  EXPECT_EQ(now.micro_step, 2);
  EXPECT_EQ(now.phase, RankPhase::kForward);
  EXPECT_TRUE(now.phase_at.ends_with("rank_board_test.cpp:" + std::to_string(line))) << now.phase_at;

  board.step_ended(
      {.step = 12, .seconds = 0.5, .loss = 2.5, .gradient_norm = 0.75, .tokens = 64, .own_tokens = 16});
  board.device_bytes(70'000'000'000);
  const int64_t before_failing = monotonic_ns();
  board.failed(69, "rank 2 left", /*consequence=*/true);
  board.failed(70, "a consequence");
  board.ended();
  now = reader->progress();
  EXPECT_EQ(now.step, 12);
  EXPECT_EQ(now.resumed_step, 11);
  EXPECT_EQ(now.micro_step, -1);
  EXPECT_EQ(now.loss, 2.5);
  EXPECT_EQ(now.gradient_norm, 0.75);
  EXPECT_EQ(now.tokens, 64);
  EXPECT_EQ(now.step_seconds, 0.5);
  EXPECT_GT(now.resident_bytes, 0);
  EXPECT_EQ(now.device_bytes, 70'000'000'000);
  EXPECT_EQ(now.error_code, 69);
  EXPECT_EQ(now.error_text, "rank 2 left");
  EXPECT_TRUE(now.consequence);
  EXPECT_GE(now.failed_ns, before_failing);
  EXPECT_TRUE(now.ended);
}

// On a GPU the host's time in a phase is that of queueing.
TEST(RankBoardDevice, ComputingLastsAsLongAsTheDeviceSays) {
  const auto path = std::filesystem::temp_directory_path() / ("board-device-" + std::to_string(::getpid()));
  BoardWriter board(path, {.rank = 0});
  board.enter(RankPhase::kForward);
  PhaseSeconds device{};
  device[static_cast<size_t>(RankPhase::kForward)] = 3;
  device[static_cast<size_t>(RankPhase::kBackward)] = 5;
  board.step_ended({.step = 1, .seconds = 10, .device_seconds = device});
  const PhaseSeconds found = BoardReader::open(path)->progress().phase_seconds;
  EXPECT_EQ(found[static_cast<size_t>(RankPhase::kForward)], 3);
  EXPECT_EQ(found[static_cast<size_t>(RankPhase::kBackward)], 5);
  EXPECT_EQ(found[static_cast<size_t>(RankPhase::kCommunication)], 0);
  double sum = 0;
  for (const double seconds : found) sum += seconds;
  EXPECT_NEAR(sum, 10, 1e-9);
  std::filesystem::remove(path);
}

TEST(RankBoard, TellsOfBackgroundWork) {
  const TemporaryFolder folder;
  BoardWriter board(folder.path() / "board", {});
  const auto reader = BoardReader::open(folder.path() / "board");
  const auto told = [&](size_t count) {
    for (int i = 0; i < 2000 && reader->progress().background.size() != count; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return reader->progress().background;
  };
  {
    const BackgroundTask save("write checkpoint", 12.5);
    EXPECT_EQ(told(1), background_work());
    std::vector<std::unique_ptr<BackgroundTask>> many;
    for (int i = 0; i < 2 * kBoardBackground; ++i)
      many.push_back(std::make_unique<BackgroundTask>("read ahead"));
    ASSERT_EQ(told(kBoardBackground).size(), static_cast<size_t>(kBoardBackground));
    EXPECT_EQ(told(kBoardBackground)[0].name, "write checkpoint") << "the oldest are kept";
  }
  EXPECT_TRUE(told(0).empty());
}

// The daemon of a node that hangs puts nothing off: its ranks end themselves, and say why.
TEST(RankBoard, EndsItsProcessWithTheLease) {
  const TemporaryFolder folder;
  NodeLease lease(folder.path() / "lease");
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("LONGHAUL_LEASE", (folder.path() / "lease").c_str(), 1);
    BoardWriter board(folder.path() / "board", {});
    for (;;) ::pause();
  }
  for (int i = 0; i < 15; ++i) {
    lease.renew(1.5);
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
  }
  EXPECT_EQ(::waitpid(child, nullptr, WNOHANG), 0) << "it goes on while the lease is put off";
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 69);
  const RankProgress last = BoardReader::open(folder.path() / "board")->progress();
  EXPECT_EQ(last.error_code, 69);
  EXPECT_NE(last.error_text.find("lease"), std::string::npos) << last.error_text;

  ::setenv("LONGHAUL_LEASE", (folder.path() / "none").c_str(), 1);
  EXPECT_THROW(LeaseWatch::from_environment(), Error);
  ::unsetenv("LONGHAUL_LEASE");
  EXPECT_FALSE(LeaseWatch::from_environment().has_value());
}

TEST(RankBoard, PhasesAddUpToTheirTime) {
  const TemporaryFolder folder;
  BoardWriter board(folder.path() / "board", {});
  const auto reader = BoardReader::open(folder.path() / "board");
  for (int64_t step = 1; step <= kBoardSteps + 5; ++step) {
    const int64_t begin = step == 1 ? 0 : monotonic_ns();
    if (step == 1) board.step_started_from(0);
    const RankPhase before = board.enter(RankPhase::kBackward);
    board.enter(RankPhase::kCommunication);
    board.enter(RankPhase::kBackward);
    board.enter(before);
    board.step_ended(
        {.step = step, .seconds = begin == 0 ? 0 : static_cast<double>(monotonic_ns() - begin) * 1e-9});
  }
  const std::vector<BoardStep> steps = reader->steps();
  ASSERT_EQ(steps.size(), static_cast<size_t>(kBoardSteps));
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i].step, static_cast<int64_t>(i) + 6);
    double sum = 0;
    for (const double seconds : steps[i].phase_seconds) sum += seconds;
    if (i == 0) continue;
    // Between the ends of two steps there is nothing else.
    EXPECT_NEAR(sum, static_cast<double>(steps[i].end_ns - steps[i - 1].end_ns) * 1e-9, 1e-7);
    EXPECT_GT(steps[i].phase_seconds[static_cast<size_t>(RankPhase::kCommunication)], 0);
  }
}

TEST(RankBoard, KeepsTheLastCalls) {
  const TemporaryFolder folder;
  BoardWriter board(folder.path() / "board", {});
  const auto reader = BoardReader::open(folder.path() / "board");
  board.add_group({"world", {0, 1, 2, 3}});
  board.add_group({"world/dp 1", {1, 3}});
  constexpr int64_t kBegin = 3, kMore = 10;
  board.calls_begin_at(kBegin);
  int64_t next = kBegin;
  for (; next < kBegin + kBoardCalls + kMore; ++next) {
    board.call_entered(call_named("sum", next, static_cast<size_t>(next % 2), next / 2));
    board.call_started(next);
    board.call_awaited(next);
    board.call_ended(next, true);
  }
  board.enter(RankPhase::kForward);
  CallRecord exchange = call_named("activations", next, 1, 5'000);
  exchange.kind = CallKind::kExchange;
  exchange.messages = {{Direction::kSend, 1, "fp32 [2]", 7}, {Direction::kReceive, 0, "bf16 [8]", 9}};
  board.call_entered(exchange);
  board.call_started(next);
  board.call_awaited(next);
  EXPECT_EQ(reader->progress().phase, RankPhase::kCommunication);
  const int64_t later = next + 1;
  board.call_entered(call_named("metrics", later, 0, 9'000));
  EXPECT_EQ(reader->progress().collective, (RankProgress::Collective{.group = "world/dp 1",
                                                                     .kind = "exchange",
                                                                     .name = "activations",
                                                                     .sequence = 5'000,
                                                                     .state = CallState::kStarted}));
  const RankRecords calls = reader->calls();
  ASSERT_EQ(calls.groups.size(), 2u);
  EXPECT_EQ(calls.groups[1].top_ranks, (std::vector<int64_t>{1, 3}));
  ASSERT_EQ(calls.calls.size(), static_cast<size_t>(kBoardCalls));
  EXPECT_EQ(calls.dropped, kBegin + kMore + 2);
  EXPECT_EQ(calls.calls.front().number, kBegin + kMore + 2);
  EXPECT_EQ(calls.calls.front().state, CallState::kDone);
  EXPECT_GE(calls.calls.front().ended_ns, calls.calls.front().awaited_ns);
  const CallRecord& last = calls.calls[kBoardCalls - 2];
  ASSERT_EQ(last.messages.size(), 2u);
  EXPECT_EQ(last.messages[0].direction, Direction::kSend);
  EXPECT_EQ(last.messages[1].tensor, "bf16 [8]");
  EXPECT_EQ(last.messages[1].number, 9);
  EXPECT_TRUE(last.blocks());

  board.call_ended(next, false);
  EXPECT_EQ(reader->progress().phase, RankPhase::kForward);
  board.call_ended(later, true);
  board.call_ended(kBegin + 1, true);  // long replaced
  board.call_ended(0, true);           // from before the beginning
  EXPECT_EQ(reader->progress().collective.name, "metrics");
  EXPECT_EQ(reader->calls().calls[kBoardCalls - 2].state, CallState::kFailed);
}

TEST(RankBoard, NamesThatAreTooLongAreCut) {
  const TemporaryFolder folder;
  BoardWriter board(folder.path() / "board", {});
  const auto reader = BoardReader::open(folder.path() / "board");
  board.add_group({std::string(300, 'g'), {0}});
  board.call_entered(call_named(std::string(300, 'x'), 0, 0, 0));
  board.failed(68, std::string(10'000, 'e'));
  EXPECT_EQ(reader->progress().collective.group, std::string(111, 'g'));
  EXPECT_EQ(reader->progress().error_text.size(), 4095u);
}

TEST(RankBoard, ReadersNeverSeeHalfOfAChange) {
  const TemporaryFolder folder;
  BoardWriter board(folder.path() / "board", {});
  const auto reader = BoardReader::open(folder.path() / "board");
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (int64_t step = 1; !stop; ++step) {
      const auto value = static_cast<double>(step);
      board.step_ended(
          {.step = step, .seconds = value, .loss = value, .gradient_norm = value, .tokens = step});
    }
  });
  for (int i = 0; i < 20'000; ++i) {
    const RankProgress now = reader->progress();
    if (now.step < 0) continue;
    ASSERT_EQ(now.loss, static_cast<double>(now.step));
    ASSERT_EQ(now.gradient_norm, now.loss);
    ASSERT_EQ(now.tokens, now.step);
    ASSERT_EQ(now.step_seconds, now.loss);
  }
  stop = true;
  writer.join();
}

TEST(RankBoard, OutlivesItsRank) {
  const TemporaryFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    BoardWriter board(folder.path() / "board", {.rank = 1});
    board.enter(RankPhase::kOptimizer);
    board.add_group({"world", {0, 1}});
    board.call_entered(call_named("norm", 0, 0, 4));
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  const auto reader = BoardReader::open(folder.path() / "board");
  ASSERT_TRUE(reader.has_value());
  EXPECT_EQ(reader->progress().pid, child);
  EXPECT_EQ(reader->progress().phase, RankPhase::kOptimizer);
  EXPECT_EQ(reader->progress().collective.name, "norm");
  EXPECT_FALSE(reader->progress().ended);
}

}  // namespace
}  // namespace longhaul::observe
