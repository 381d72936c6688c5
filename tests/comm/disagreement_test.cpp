// Records of several ranks, compared: who never came, who called something else, whose sizes do not fit; and
// who waits for whom. The failures are real ones, of thread ranks; small ones are written by hand.
#include "comm/disagreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/ranks.h"
#include "comm/wrappers/faulty.h"
#include "comm/wrappers/traced.h"

namespace longhaul::comm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Kind = Disagreement::Kind;

// The comparison of what traced ranks did; what `body` throws is theirs.
Comparison compared(int64_t size, const std::function<void(Communicator&)>& body,
                    Timeout timeout = Timeout(20000),
                    const std::vector<std::pair<int64_t, Fault>>& faults = {}) {
  std::vector<std::shared_ptr<CallLog>> logs;
  for (int64_t rank = 0; rank < size; ++rank) logs.push_back(std::make_shared<CallLog>(rank, 16));
  errors_of(size,
            [&](Communicator& world) {
              std::vector<Fault> own;
              for (const auto& [rank, fault] : faults) {
                if (rank == world.rank()) own.push_back(fault);
              }
              Faulty faulty(borrowed(world), own);
              Traced traced(borrowed(faulty), logs[static_cast<size_t>(world.rank())]);
              body(traced);
            },
            {.timeout = timeout});
  std::vector<RankRecords> records;
  for (const auto& log : logs) records.push_back(log->records());
  return compare_records(records);
}

void reduce_many(Communicator& group, int64_t count, const char* name = "loss") {
  for (int64_t i = 0; i < count; ++i) group.all_reduce(at::ones({2}), Reduction::kSum, {name}).wait();
}

TEST(Disagreement, NoneAmongRanksThatAgree) {
  const Comparison same = compared(4, [](Communicator& world) {
    const auto groups = world.split({{"pair", {{0, 1}, {2, 3}}}});
    reduce_many(*groups[0], 40);  // more than the ring holds
    const Tensor got = at::empty({3});
    world
        .exchange({send_to((world.rank() + 1) % 4, at::ones({3})), receive_from((world.rank() + 3) % 4, got)},
                  {"round"})
        .wait();
  });
  EXPECT_TRUE(same.agreed()) << same.text();
  EXPECT_EQ(same.groups, 3);
  EXPECT_EQ(same.whole_groups, 3);
  EXPECT_EQ(same.calls, 4 * 16);
}

TEST(Disagreement, ARankThatNeverCame) {
  const Comparison found = compared(
      4, [](Communicator& world) { reduce_many(world, world.rank() == 3 ? 12 : 20); }, Timeout(300));
  ASSERT_EQ(found.disagreements.size(), 1u) << found.text();
  EXPECT_EQ(found.disagreements[0].kind, Kind::kMissing);
  EXPECT_THAT(found.disagreements[0].ranks, ElementsAre(3));
  EXPECT_EQ(found.disagreements[0].text, "'world': rank 3 never came to all_reduce 'loss' (call 12)");
  EXPECT_THAT(found.suspects, ElementsAre(3));
}

// It comes in the end, when the others have given up.
TEST(Disagreement, ARankThatCameTooLate) {
  const Comparison found =
      compared(3, [](Communicator& world) { reduce_many(world, 20); }, Timeout(200),
               {{1, {.group = "world", .call = 7, .kind = Fault::Kind::kAway, .away = Timeout(900)}}});
  ASSERT_EQ(found.disagreements.size(), 1u) << found.text();
  EXPECT_EQ(found.disagreements[0].text, "'world': rank 1 never came to all_reduce 'loss' (call 7)");
  EXPECT_THAT(found.suspects, ElementsAre(1));
}

TEST(Disagreement, AnotherCall) {
  const Comparison found = compared(3, [](Communicator& world) {
    reduce_many(world, 2);
    reduce_many(world, 1, world.rank() == 1 ? "other" : "loss");
  });
  ASSERT_EQ(found.disagreements.size(), 1u) << found.text();
  EXPECT_EQ(found.disagreements[0].kind, Kind::kCalls);
  EXPECT_THAT(found.disagreements[0].ranks, ElementsAre(1));
  EXPECT_THAT(found.disagreements[0].text,
              HasSubstr("call 2 is all_reduce 'loss' (sum, fp32 [2]) on ranks 0, 2, "
                        "all_reduce 'other' (sum, fp32 [2]) on rank 1"));
}

// Rank 2 is away before its pair's call; rank 3 waits for it there, ranks 0 and 1 for rank 3 in the world.
TEST(Disagreement, WhoeverWaitsIsNotTheSuspect) {
  const Comparison found = compared(
      4,
      [](Communicator& world) {
        const auto groups = world.split({{"pair", {{0, 1}, {2, 3}}}});
        reduce_many(*groups[0], 1);
        reduce_many(world, 1, "all");
      },
      Timeout(300),
      {{2, {.group = "world/pair 1", .call = 0, .kind = Fault::Kind::kAway, .away = Timeout(1000)}}});
  ASSERT_EQ(found.disagreements.size(), 2u) << found.text();
  EXPECT_THAT(found.disagreements[0].ranks, ElementsAre(2, 3));  // 'world'
  EXPECT_THAT(found.disagreements[1].ranks, ElementsAre(2));     // the pair
  EXPECT_THAT(found.suspects, ElementsAre(2));
  EXPECT_FALSE(found.circle);
}

TEST(Disagreement, ACircle) {
  const Comparison found = compared(
      2,
      [](Communicator& world) {
        const auto groups = world.split({{"a", {{0, 1}}}, {"b", {{0, 1}}}});
        reduce_many(*groups[world.rank() == 0 ? 0 : 1], 1);
        reduce_many(*groups[world.rank() == 0 ? 1 : 0], 1);
      },
      Timeout(300));
  ASSERT_EQ(found.disagreements.size(), 2u) << found.text();
  EXPECT_THAT(found.suspects, IsEmpty());
  EXPECT_TRUE(found.circle);
}

TEST(Disagreement, AMessageWithoutItsOtherEnd) {
  const Comparison found = compared(
      3,
      [](Communicator& world) {
        const Tensor got = at::empty({2});
        if (world.rank() == 0) world.exchange({receive_from(2, got)}, {"hidden"}).wait();
      },
      Timeout(200));
  ASSERT_EQ(found.disagreements.size(), 1u) << found.text();
  EXPECT_EQ(found.disagreements[0].kind, Kind::kPartner);
  EXPECT_EQ(found.disagreements[0].text,
            "'world': rank 0 expects fp32 [2] in exchange 'hidden' (exchange 0), and rank 2 never sends it");
  EXPECT_THAT(found.suspects, ElementsAre(2));
}

// Written by hand: what a back end that compares nothing would let pass.
RankRecords by_hand(int64_t rank, const std::vector<int64_t>& members, CallRecord call) {
  call.state = CallState::kDone;
  return {.rank = rank, .groups = {{"world", members}}, .calls = {std::move(call)}};
}

TEST(Disagreement, RowsThatDoNotFit) {
  const auto call = [](std::vector<int64_t> send, std::vector<int64_t> receive) {
    return CallRecord{.kind = CallKind::kAllToAll,
                      .name = "rows",
                      .text = "all_to_all 'rows'",
                      .send_rows = send,
                      .receive_rows = receive};
  };
  EXPECT_TRUE(
      compare_records({by_hand(4, {4, 6}, call({1, 2}, {1, 3})), by_hand(6, {4, 6}, call({3, 5}, {2, 5}))})
          .agreed());
  const Comparison found =
      compare_records({by_hand(4, {4, 6}, call({1, 2}, {1, 3})), by_hand(6, {4, 6}, call({3, 5}, {1, 5}))});
  ASSERT_EQ(found.disagreements.size(), 1u);
  EXPECT_EQ(found.disagreements[0].text,
            "'world': all_to_all 'rows' (call 0): rank 4 sends 2 rows to rank 6, which receives 1");
}

TEST(Disagreement, MessagesThatDoNotFit) {
  const auto call = [](Direction direction, int64_t peer, const char* tensor) {
    return CallRecord{.kind = CallKind::kExchange, .name = "m", .messages = {{direction, peer, tensor}}};
  };
  const auto found = [&](const char* received) {
    return compare_records({by_hand(8, {9, 8}, call(Direction::kSend, 0, "fp32 [3]")),
                            by_hand(9, {9, 8}, call(Direction::kReceive, 1, received))});
  };
  EXPECT_TRUE(found("fp32 [3]").agreed());
  ASSERT_EQ(found("bf16 [3]").disagreements.size(), 1u);
  EXPECT_EQ(found("bf16 [3]").disagreements[0].text,
            "'world': rank 8 sends fp32 [3] in exchange 'm' (exchange 0), rank 9 receives bf16 [3] in "
            "exchange 'm' (exchange 0)");
}

TEST(Disagreement, OtherMembersAndMissingRecords) {
  const CallRecord call{.kind = CallKind::kBarrier, .name = "b", .text = "barrier 'b'"};
  const Comparison members = compare_records({by_hand(0, {0, 1, 2}, call), by_hand(1, {0, 2, 1}, call)});
  ASSERT_EQ(members.disagreements.size(), 1u);
  EXPECT_EQ(members.disagreements[0].kind, Kind::kMembers);
  const Comparison some = compare_records({by_hand(0, {0, 1, 2}, call), by_hand(2, {0, 1, 2}, call)});
  EXPECT_TRUE(some.agreed());
  EXPECT_EQ(some.groups, 1);
  EXPECT_EQ(some.whole_groups, 0);
}

}  // namespace
}  // namespace longhaul::comm
