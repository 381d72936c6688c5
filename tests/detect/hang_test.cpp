// Who keeps a run from going on: each case of docs/sources/reliability.md §5.8, with records made by hand.
#include "detect/hang/hang.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace longhaul::detect {
namespace {

using observe::CallKind, observe::CallRecord, observe::CallState, observe::Direction, observe::GroupPlace,
    observe::RankPhase;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kSecond = 1'000'000'000, kNow = 1000 * kSecond;

// A rank by hand. Its calls are well and over, but the last one that was added with `standing`.
class Rank {
 public:
  Rank(int64_t rank, std::vector<GroupPlace> groups) {
    rank_.calls = {.rank = rank, .groups = std::move(groups)};
    rank_.progress = {.rank = rank,
                      .beat_ns = kNow - kSecond / 2,
                      .progress_ns = kNow - 60 * kSecond,
                      .step = 11,
                      .phase = RankPhase::kForward,
                      .phase_since_ns = kNow - 60 * kSecond,
                      .phase_at = "src/train/step.cpp:107"};
    rank_.seen_ns = kNow;
  }
  Rank& call(size_t group, int64_t sequence, const std::string& name, CallState state = CallState::kDone,
             CallKind kind = CallKind::kAllReduce) {
    CallRecord record{.number = static_cast<int64_t>(rank_.calls.calls.size()),
                      .group = group,
                      .kind = kind,
                      .sequence = sequence,
                      .name = name};
    record.text = fmt::format("{} '{}'", name_of(kind), name);
    reach(record, state);
    rank_.calls.calls.push_back(record);
    return *this;
  }
  Rank& standing(size_t group, int64_t sequence, const std::string& name,
                 CallKind kind = CallKind::kAllReduce) {
    call(group, sequence, name, CallState::kStarted, kind);
    return await();
  }
  Rank& message(size_t group, int64_t sequence, Direction direction, int64_t peer, int64_t number,
                CallState state) {
    call(group, sequence, "activations", state, CallKind::kExchange);
    rank_.calls.calls.back().messages = {{direction, peer, "fp32 [2]", number}};
    return *this;
  }
  Rank& await() {
    rank_.calls.calls.back().awaited_ns = kNow - 30 * kSecond;
    return *this;
  }
  Rank& phase(RankPhase phase) {
    rank_.progress.phase = phase;
    return *this;
  }
  HangRank& get() { return rank_; }
  operator HangRank() const { return rank_; }

 private:
  static void reach(CallRecord& record, CallState state) {
    record.state = state;
    record.entered_ns = kNow - 31 * kSecond;
    if (state != CallState::kEntered) record.started_ns = record.entered_ns + 1;
    if (state == CallState::kDone) record.ended_ns = record.started_ns + 1;
  }
  HangRank rank_;
};

std::vector<int64_t> ranks_of(const HangReport& report) {
  std::vector<int64_t> ranks;
  for (const HangSuspect& each : report.suspects) ranks.push_back(each.rank);
  return ranks;
}

const GroupPlace kWorld{"world", {0, 1, 2, 3}};

TEST(Hang, WhoeverNeverCameAndWaitsForNobody) {
  std::vector<HangRank> ranks;
  for (int64_t rank = 0; rank < 4; ++rank) {
    Rank one(rank, {kWorld});
    one.call(0, 0, "start");
    if (rank != 2) one.standing(0, 1, "loss");
    ranks.push_back(one);
  }
  const HangReport report = analyse_hang(ranks);
  EXPECT_EQ(report.kind, HangKind::kMissing);
  EXPECT_THAT(ranks_of(report), ElementsAre(2));
  EXPECT_EQ(report.suspects[0].group, "world");
  EXPECT_EQ(report.suspects[0].call, "all_reduce 'loss' (call 1)");
  EXPECT_EQ(report.suspects[0].waiting, 3);
  EXPECT_EQ(report.suspects[0].text,
            "rank 2 never came to all_reduce 'loss' (call 1) of 'world' and waits for nobody: in forward for "
            "1 min 00 s "
            "(src/train/step.cpp:107), after step 11; its last call is all_reduce 'start' (call 0) of "
            "'world', done");
  ASSERT_EQ(report.waits.size(), 3u);
  EXPECT_DOUBLE_EQ(report.waits[0].seconds, 30);
  EXPECT_THAT(report.text(),
              HasSubstr("ranks 0, 1, 3 in all_reduce 'loss' (call 1) of 'world': rank 2 not there"));
}

// Of a run that goes on while its savers hang: who is waited for, and does not wait that long himself.
TEST(Hang, WhomOthersHaveWaitedForLong) {
  HangReport report;
  report.waits = {{.rank = 0, .group = "savers", .seconds = 40, .for_ranks = {1, 2}},
                  {.rank = 1, .group = "savers", .seconds = 30, .for_ranks = {2}},
                  {.rank = 2, .group = "dp 0", .seconds = 0.01, .for_ranks = {3}},
                  {.rank = 3, .group = "savers", .seconds = 30, .for_ranks = {}}};
  EXPECT_THAT(waited_for_long(report, 5), ElementsAre(2));
  EXPECT_THAT(waited_for_long(report, 35), ElementsAre(1, 2));
  EXPECT_TRUE(waited_for_long(report, 100).empty());
  // Nobody is known to be missing: of whom nothing is known in that group, and who waits for nobody.
  report.waits = {{.rank = 0, .group = "savers", .seconds = 40, .for_ranks = {}, .unknown = {1, 2}},
                  {.rank = 1, .group = "savers", .seconds = 40, .for_ranks = {}, .unknown = {2}}};
  EXPECT_THAT(waited_for_long(report, 5), ElementsAre(2));
}

TEST(Hang, TellsWhatRanksStandInWhereNobodyStandsOut) {
  HangReport report;
  report.waits = {
      {.rank = 0, .group = "savers", .call = "broadcast 'commit' (call 7)", .seconds = 40, .for_ranks = {}},
      {.rank = 1, .group = "savers", .call = "broadcast 'commit' (call 7)", .seconds = 30, .for_ranks = {}},
      {.rank = 1,
       .group = "dp 0",
       .call = "all_reduce 'loss' (call 900)",
       .seconds = 0.01,
       .for_ranks = {0}}};
  std::vector<HangRank> ranks(3);
  for (int64_t rank = 0; rank < 3; ++rank) {
    ranks[static_cast<size_t>(rank)].calls.rank = rank;
    ranks[static_cast<size_t>(rank)].threads = {
        fmt::format("thread {} \"checkpoint\" (D, waits in nfs_wait):", 100 + rank),
        "  pwrite64",
        rank == 2 ? "  longhaul::fsync_file" : "  longhaul::write_file",
        "thread 7 \"copy-out\" (S):",
        "  futex_wait",
        "  longhaul::Worker::State::loop"};
  }
  EXPECT_EQ(
      standing_text(report, ranks, {0, 1, 2}, 5),
      "waiting:\n  ranks 0, 1 in broadcast 'commit' (call 7) of 'savers': all have come\n"
      "rank 2:\nthread \"checkpoint\" (D, waits in nfs_wait):\n  pwrite64\n  longhaul::fsync_file\n"
      "ranks 0, 1:\nthread \"checkpoint\" (D, waits in nfs_wait):\n  pwrite64\n  longhaul::write_file\n");
  EXPECT_THAT(standing_text(report, ranks, {2}, 5), HasSubstr("none of them stands in a call\nrank 2:"));
}

// 0 waits for 1 in tp, 1 for 3 in dp, 2 for 3 in tp': only 3 waits for nobody.
TEST(Hang, WalksOverGroupsToTheEnd) {
  const GroupPlace tp0{"world/tp 0", {0, 1}}, tp1{"world/tp 1", {2, 3}}, dp1{"world/dp 1", {1, 3}};
  const HangReport report = analyse_hang(
      {Rank(0, {tp0}).standing(0, 5, "heads"),
       Rank(1, {tp0, dp1}).call(0, 4, "heads").standing(1, 2, "gradients"),
       Rank(2, {tp1}).standing(0, 5, "heads"),
       Rank(3, {tp1, dp1}).call(0, 4, "heads").call(1, 1, "gradients").phase(RankPhase::kBackward)});
  EXPECT_EQ(report.kind, HangKind::kMissing);
  EXPECT_THAT(ranks_of(report), ElementsAre(3));
  EXPECT_EQ(report.suspects[0].waiting, 3);
  EXPECT_THAT(report.suspects[0].text, HasSubstr("in backward"));
}

TEST(Hang, AGroupThatARankNeverMade) {
  const GroupPlace tp{"world/tp 0", {0, 1}};
  const HangReport report = analyse_hang({Rank(0, {tp}).standing(0, 0, "heads"), Rank(1, {})});
  EXPECT_EQ(report.kind, HangKind::kMissing);
  EXPECT_THAT(ranks_of(report), ElementsAre(1));
}

TEST(Hang, ACircleIsADeadlock) {
  const GroupPlace a{"world/a 0", {0, 1}}, b{"world/b 0", {1, 2}}, c{"world/c 0", {2, 0}};
  const HangReport report =
      analyse_hang({Rank(0, {a, c}).standing(0, 0, "x"), Rank(1, {a, b}).standing(1, 0, "y"),
                    Rank(2, {b, c}).standing(1, 0, "z")});
  EXPECT_EQ(report.kind, HangKind::kDeadlock);
  EXPECT_THAT(report.circle, ElementsAre(0, 1, 2));
  EXPECT_EQ(report.suspects.size(), 3u);
  EXPECT_THAT(report.text(), HasSubstr("rank 1 waits in all_reduce 'y' (call 0) of 'world/b 0' for rank 2"));
}

TEST(Hang, OtherCallsUnderOneNumber) {
  std::vector<HangRank> ranks;
  for (int64_t rank = 0; rank < 4; ++rank)
    ranks.push_back(Rank(rank, {kWorld}).standing(0, 7, rank == 1 ? "norm" : "loss"));
  const HangReport report = analyse_hang(ranks);
  EXPECT_EQ(report.kind, HangKind::kDisagrees);
  EXPECT_THAT(ranks_of(report), ElementsAre(1));
  EXPECT_EQ(report.suspects[0].call, "all_reduce 'loss' (call 7)");
}

// Two against two: nobody is most, and all of them are named.
TEST(Hang, HalvesThatDifferAreBothNamed) {
  std::vector<HangRank> ranks;
  for (int64_t rank = 0; rank < 4; ++rank)
    ranks.push_back(Rank(rank, {kWorld}).standing(0, 7, rank < 2 ? "norm" : "loss"));
  const HangReport report = analyse_hang(ranks);
  EXPECT_EQ(report.kind, HangKind::kDisagrees);
  EXPECT_THAT(ranks_of(report), ::testing::UnorderedElementsAre(0, 1, 2, 3));
}

TEST(Hang, ABackEndThatDoesNotTakeTheCall) {
  std::vector<HangRank> ranks;
  for (int64_t rank = 0; rank < 4; ++rank) {
    Rank one(rank, {kWorld});
    ranks.push_back(rank == 3 ? one.call(0, 7, "loss", CallState::kEntered) : one.standing(0, 7, "loss"));
  }
  const HangReport report = analyse_hang(ranks);
  EXPECT_EQ(report.kind, HangKind::kNotStarted);
  EXPECT_THAT(ranks_of(report), ElementsAre(3));
  EXPECT_EQ(report.suspects[0].waiting, 3);
}

TEST(Hang, AllCameAndItDoesNotEnd) {
  const HangReport report =
      analyse_hang({Rank(0, {kWorld}).standing(0, 7, "loss"), Rank(1, {kWorld}).standing(0, 7, "loss"),
                    Rank(2, {kWorld}).call(0, 7, "loss"), Rank(3, {kWorld}).call(0, 7, "loss")});
  EXPECT_EQ(report.kind, HangKind::kNetwork);
  EXPECT_THAT(ranks_of(report), ElementsAre(0, 1));
}

// All came to the call; one of them is stopped in it.
TEST(Hang, AProcessThatDoesNotBeat) {
  std::vector<HangRank> ranks;
  for (int64_t rank = 0; rank < 4; ++rank) ranks.push_back(Rank(rank, {kWorld}).standing(0, 7, "loss"));
  ranks[2].progress.beat_ns = kNow - 20 * kSecond;
  const HangReport report = analyse_hang(ranks);
  EXPECT_EQ(report.kind, HangKind::kFrozen);
  EXPECT_THAT(ranks_of(report), ElementsAre(2));
  EXPECT_THAT(report.suspects[0].text, HasSubstr("does not even beat, for 20.0 s"));
}

TEST(Hang, OneThatHasDied) {
  HangRank dead = Rank(1, {kWorld}).call(0, 6, "loss");
  dead.alive = false;
  const HangReport report = analyse_hang({Rank(0, {kWorld}).standing(0, 7, "loss"), dead});
  EXPECT_EQ(report.kind, HangKind::kDead);
  EXPECT_THAT(ranks_of(report), ElementsAre(1));
}

TEST(Hang, NobodyWaits) {
  HangRank slow = Rank(1, {kWorld});
  slow.progress.progress_ns -= kSecond;
  const HangReport report = analyse_hang({Rank(0, {kWorld}), slow, Rank(2, {kWorld})});
  EXPECT_EQ(report.kind, HangKind::kComputing);
  EXPECT_THAT(ranks_of(report), ElementsAre(1));
  EXPECT_EQ(analyse_hang({}).kind, HangKind::kNone);
}

// 1 has taken two messages of 0 and waits for the third; 0 has sent two.
TEST(Hang, MessagesAreCountedByPairAndWay) {
  const GroupPlace pp{"world/pp 0", {0, 1}};
  const auto sent = [](Rank& rank, int64_t count) {
    for (int64_t i = 0; i < count; ++i) rank.message(0, i, Direction::kSend, 1, i, CallState::kDone);
  };
  Rank first(0, {pp}), second(1, {pp});
  sent(first, 2);
  for (int64_t i = 0; i < 2; ++i) second.message(0, i, Direction::kReceive, 0, i, CallState::kDone);
  second.message(0, 2, Direction::kReceive, 0, 2, CallState::kStarted).await();
  HangReport report = analyse_hang({first, second});
  EXPECT_EQ(report.kind, HangKind::kMissing);
  EXPECT_THAT(ranks_of(report), ElementsAre(0));

  sent(first, 3);  // numbers 0 to 2 now, the third among them
  report = analyse_hang({first, second});
  EXPECT_EQ(report.kind, HangKind::kNetwork);
  EXPECT_THAT(ranks_of(report), ElementsAre(1));
}

// What a ring has dropped lies before what it has.
TEST(Hang, RanksThatAreFarAheadHaveCome) {
  HangRank ahead = Rank(1, {kWorld}).call(0, 5'000, "loss");
  ahead.calls.dropped = 5'000;
  const HangReport report = analyse_hang({Rank(0, {kWorld}).standing(0, 7, "loss"), ahead});
  EXPECT_EQ(report.kind, HangKind::kSilent);  // not that 1 is missing
  EXPECT_THAT(ranks_of(report), ElementsAre(2, 3));
  EXPECT_THAT(report.waits[0].unknown, ElementsAre(2, 3));
}

// The daemon of ranks 0 and 1 is frozen: those of the other machine, who do answer, have all come to the
// call.
TEST(Hang, RanksOfAMachineThatGivesNoEvidence) {
  const HangReport report =
      analyse_hang({Rank(2, {kWorld}).standing(0, 7, "loss"), Rank(3, {kWorld}).standing(0, 7, "loss")});
  EXPECT_EQ(report.kind, HangKind::kSilent);
  EXPECT_THAT(ranks_of(report), ElementsAre(0, 1));
  EXPECT_EQ(report.suspects[0].waiting, 2);
  EXPECT_EQ(
      report.suspects[0].text,
      "rank 0 tells nothing; all that tell anything have come to all_reduce 'loss' (call 7) of 'world'");
}

// Calls of a run that failed: those who waited until it did had come, who was refused had not.
TEST(Hang, AfterTheFailureToo) {
  HangRank waited = Rank(0, {kWorld}).call(0, 7, "loss", CallState::kStarted).await(),
           late = Rank(1, {kWorld}).call(0, 7, "loss", CallState::kEntered);
  waited.calls.calls.back().state = late.calls.calls.back().state = CallState::kFailed;
  waited.calls.calls.back().ended_ns = late.calls.calls.back().ended_ns = kNow;
  waited.seen_ns = late.seen_ns = 0;
  const HangReport report = analyse_hang({waited, late});
  EXPECT_EQ(report.kind, HangKind::kMissing);
  EXPECT_THAT(ranks_of(report), ElementsAre(1));
}

TEST(Hang, WhatIsEssentialIsEnough) {
  std::vector<HangRank> ranks;
  for (int64_t rank = 0; rank < 4; ++rank) {
    Rank one(rank, {kWorld});
    one.call(0, 0, "never awaited", CallState::kStarted);
    for (int64_t i = 1; i < 500; ++i) one.call(0, i, "loss");
    if (rank != 2) one.standing(0, 500, "loss");
    HangRank whole = one;
    whole.calls = essential(whole.calls, 8);
    EXPECT_LE(whole.calls.calls.size(), 9u);
    EXPECT_GT(whole.calls.dropped, 0);
    EXPECT_EQ(whole.calls.calls.front().name, "never awaited");
    ranks.push_back(whole);
  }
  const HangReport report = analyse_hang(ranks);
  EXPECT_EQ(report.kind, HangKind::kMissing);
  EXPECT_THAT(ranks_of(report), ElementsAre(2));
  EXPECT_EQ(to_json(report).at("suspects").at(0).at("rank"), 2);
}

TEST(Hang, EvidenceComesThroughAsItWas) {
  std::vector<HangRank> ranks;
  for (int64_t rank = 0; rank < 4; ++rank) {
    Rank one(rank, {kWorld});
    one.message(0, 0, Direction::kSend, 1, 5, CallState::kDone);
    if (rank != 1) one.standing(0, 0, "loss");
    ranks.push_back(one);
  }
  ranks[1].threads = {"thread 7 \"longhaul\" (S):", "  run_step"};
  ranks[3].progress.beat_ns = kNow - 2 * kSecond;
  std::vector<HangRank> read;
  for (const HangRank& rank : ranks) read.push_back(hang_rank_from(hang_evidence(rank), "evidence"));
  EXPECT_EQ(read[1].calls.calls[0].messages[0].number, 5);
  EXPECT_EQ(read[3].progress.beat_ns, kNow - 2 * kSecond);
  EXPECT_EQ(read[0].progress.phase, RankPhase::kForward);
  const HangReport report = analyse_hang(read);
  EXPECT_EQ(report.text(), analyse_hang(ranks).text());
  EXPECT_THAT(report.text(), HasSubstr("  run_step"));
  EXPECT_THROW(hang_rank_from("{}", "evidence"), Error);
}

}  // namespace
}  // namespace longhaul::detect
