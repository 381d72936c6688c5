// Logs of calls: what a rank called, how many bytes, how far it came; kept as a ring, written when a call
// fails, and read back.
#include "comm/wrappers/traced.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/files/file.h"
#include "comm/ranks.h"
#include "comm/single.h"
#include "support/places.h"

namespace longhaul::comm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// On ranks that are traced; the logs by rank. Errors of single ranks are theirs.
std::vector<std::shared_ptr<CallLog>> logs_of(int64_t size, const std::function<void(Communicator&)>& body,
                                              size_t capacity = CallLog::kAll,
                                              Timeout timeout = Timeout(20000)) {
  std::vector<std::shared_ptr<CallLog>> logs;
  for (int64_t rank = 0; rank < size; ++rank) logs.push_back(std::make_shared<CallLog>(rank, capacity));
  errors_of(size,
            [&](Communicator& world) {
              Traced traced(borrowed(world), logs[static_cast<size_t>(world.rank())]);
              body(traced);
            },
            {.timeout = timeout});
  return logs;
}

// Three ranks, 10 numbers of 4 bytes: shares of 4, 3 and 3.
TEST(Traced, BytesOfEveryKind) {
  const auto logs = logs_of(3, [](Communicator& world) {
    const int64_t rank = world.rank();
    world.all_reduce(at::ones({10}), Reduction::kSum, {"a"}).wait();
    world.reduce_scatter(at::ones({6, 2}), at::empty({rank + 1, 2}), Reduction::kSum, {"b"}, {1, 2, 3})
        .wait();
    world.all_gather(at::ones({rank + 1, 2}), at::empty({6, 2}), {"c"}, {1, 2, 3}).wait();
    // Rank r sends 1 row to rank 0, 2 to rank 1, 3 to rank 2.
    world
        .all_to_all(at::ones({6, 2}), at::empty({3 * (rank + 1), 2}), {1, 2, 3},
                    {rank + 1, rank + 1, rank + 1}, {"d"})
        .wait();
    world.broadcast(at::ones({5}), 1, {"e"}).wait();
    const Tensor got = at::empty({7});
    world.exchange({send_to((rank + 1) % 3, at::ones({7})), receive_from((rank + 2) % 3, got)}, {"f"}).wait();
    const Tensor own = at::empty({2});
    world.exchange({send_to(rank, at::ones({2})), receive_from(rank, own)}, {"to itself"}).wait();
    world.barrier({"g"}).wait();
  });
  // all_reduce: others' shares go away, own comes twice; and the other way round
  const std::vector<std::vector<Traffic>> expected = {
      {{24 + 32, 32 + 24}, {28 + 24, 24 + 28}, {28 + 24, 24 + 28}},
      // reduce_scatter: rows of 8 bytes
      {{40, 16}, {32, 32}, {24, 48}},
      {{16, 40}, {32, 32}, {48, 24}},  // all_gather
      {{40, 16}, {32, 32}, {24, 48}},  // all_to_all
      {{0, 20}, {40, 0}, {0, 20}},     // broadcast
      {{28, 28}, {28, 28}, {28, 28}},  // exchange
      {{0, 0}, {0, 0}, {0, 0}},
      {{0, 0}, {0, 0}, {0, 0}}};
  for (size_t rank = 0; rank < 3; ++rank) {
    const RankRecords records = logs[rank]->records();
    ASSERT_EQ(records.calls.size(), expected.size());
    Traffic all;
    for (size_t i = 0; i < expected.size(); ++i) {
      const CallRecord& call = records.calls[i];
      EXPECT_EQ(call.traffic, expected[i][rank]) << call.text << " of rank " << rank;
      EXPECT_EQ(call.state, CallState::kDone);
      EXPECT_TRUE(0 < call.entered_ns && call.entered_ns <= call.started_ns &&
                  call.started_ns <= call.awaited_ns && call.awaited_ns <= call.ended_ns);
      all.sent += expected[i][rank].sent;
      all.received += expected[i][rank].received;
    }
    EXPECT_EQ(logs[rank]->traffic(), all);
    EXPECT_EQ(logs[rank]->totals().at({"world", CallKind::kExchange}).calls, 2);
    EXPECT_EQ(records.calls[5].sequence, 0);  // exchanges are counted by themselves
    EXPECT_EQ(records.calls[7].sequence, 5);
  }
}

// A message's number tells which of one rank belongs to which of another: counted for each peer and
// direction.
TEST(Traced, MessagesAreNumberedByPeerAndDirection) {
  const auto logs = logs_of(3, [](Communicator& world) {
    const Tensor sent = at::ones({2}), got = at::empty({2});
    for (const int64_t peer : {1, 2, 1, 1}) {
      if (world.rank() == 0) world.exchange({send_to(peer, sent)}, {"there"}).wait();
      if (world.rank() == peer) world.exchange({receive_from(0, got)}, {"there"}).wait();
    }
    if (world.rank() == 1) world.exchange({send_to(0, sent)}, {"back"}).wait();
    if (world.rank() == 0) world.exchange({receive_from(1, got)}, {"back"}).wait();
  });
  const auto numbers = [&](size_t rank) {
    std::vector<int64_t> all;
    for (const CallRecord& call : logs[rank]->records().calls) {
      for (const MessageRecord& message : call.messages) all.push_back(message.number);
    }
    return all;
  };
  EXPECT_THAT(numbers(0), ElementsAre(0, 0, 1, 2, 0));
  EXPECT_THAT(numbers(1), ElementsAre(0, 1, 2, 0));
  EXPECT_THAT(numbers(2), ElementsAre(0));
}

// From when somebody waits, not from when the call was made.
TEST(Traced, TotalsCountTheTimeThatWasWaited) {
  CallLog log(0);
  Single alone;
  const size_t group = log.add_group({.path = "world", .top_ranks = {0}});
  int64_t waited = 0;
  for (int i = 0; i < 2; ++i) {
    const int64_t number = log.entered(group, {.kind = CallKind::kBarrier, .options = {"here"}}, alone);
    const int64_t entered = log.records().calls.back().entered_ns;
    while (monotonic_ns() == entered) {
    }
    log.awaited(number);
    log.ended(number, "");
    const CallRecord call = log.records().calls.back();
    EXPECT_GT(call.awaited_ns, call.entered_ns);
    waited += call.ended_ns - call.awaited_ns;
  }
  EXPECT_EQ(log.totals().at({"world", CallKind::kBarrier}).waited_ns, waited);
  EXPECT_EQ(log.totals().at({"world", CallKind::kBarrier}).calls, 2);
}

TEST(Traced, NoRowsNoBytes) {
  EXPECT_EQ(traffic_of({.kind = CallKind::kAllToAll,
                        .input = at::empty({0, 3}),
                        .output = at::empty({2, 3}),
                        .input_rows = {0, 0},
                        .output_rows = {1, 1}},
                       0, 2),
            (Traffic{0, 12}));
  EXPECT_EQ(traffic_of({.kind = CallKind::kAllReduce, .input = at::ones({9}), .output = at::ones({9})}, 0, 1),
            Traffic{});
}

TEST(Traced, GroupsOfGroupsHaveTheirOwnPaths) {
  const auto logs = logs_of(4, [](Communicator& world) {
    const auto halves = world.split({{"half", {{2, 3}, {1, 0}}}});
    const auto turned = halves[0]->split({{"turned", {{1, 0}}}});
    turned[0]->barrier({"here"}).wait();
  });
  const RankRecords records = logs[1]->records();
  ASSERT_EQ(records.groups.size(), 3u);
  EXPECT_EQ(records.groups[1].path, "world/half 1");
  EXPECT_THAT(records.groups[1].top_ranks, ElementsAre(1, 0));
  EXPECT_EQ(records.groups[2].path, "world/half 1/turned 0");
  EXPECT_THAT(records.groups[2].top_ranks, ElementsAre(0, 1));
  EXPECT_EQ(records.groups[records.calls.back().group].path, "world/half 1/turned 0");
  EXPECT_EQ(records.calls.back().text, "barrier 'here'");
  EXPECT_EQ(logs[1]->totals().count({"turned", CallKind::kBarrier}), 1u);
}

TEST(Traced, ARingKeepsTheLastCalls) {
  const auto logs = logs_of(
      2,
      [](Communicator& world) {
        std::vector<Work> works;
        for (int i = 0; i < 7; ++i)
          works.push_back(world.all_reduce(at::ones({2}), Reduction::kSum, {fmt::format("{}", i)}));
        for (Work& work : works) work.wait();
      },
      3);
  const RankRecords records = logs[0]->records();
  EXPECT_EQ(records.dropped, 4);
  ASSERT_EQ(records.calls.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(records.calls[i].name, std::to_string(4 + i));
    EXPECT_EQ(records.calls[i].state, CallState::kDone);
  }
  EXPECT_EQ(logs[0]->totals().at({"world", CallKind::kAllReduce}).calls, 7);
  EXPECT_EQ(logs[0]->traffic().sent, 7 * 8);
}

TEST(Traced, WhatNobodyWaitedForStaysStartedAndDoneIsSeen) {
  Single alone;
  const auto log = std::make_shared<CallLog>(0);
  Traced traced(borrowed(alone), log);
  { const Work dropped = traced.barrier({"dropped"}); }
  Work looked_at = traced.barrier({"looked at"});
  EXPECT_TRUE(looked_at.done());
  const RankRecords records = log->records();
  EXPECT_EQ(records.calls[0].state, CallState::kStarted);
  EXPECT_EQ(records.calls[1].state, CallState::kDone);
  EXPECT_EQ(records.calls[1].awaited_ns, 0);
}

TEST(Traced, AFailureIsWrittenAndReadBack) {
  const std::string folder = testing::TempDir() + "/traced";
  std::filesystem::create_directories(folder);
  std::vector<std::shared_ptr<CallLog>> logs = {std::make_shared<CallLog>(0, 64),
                                                std::make_shared<CallLog>(1, 64)};
  errors_of(2, [&](Communicator& world) {
    const auto& log = logs[static_cast<size_t>(world.rank())];
    log->write_on_failure(folder);
    Traced traced(borrowed(world), log);
    const Tensor got = at::empty({3});
    traced.exchange({send_to(1 - world.rank(), at::ones({3})), receive_from(1 - world.rank(), got)}, {"pair"})
        .wait();
    traced
        .all_to_all(at::ones({3}), at::empty({2 * (1 + world.rank()) - world.rank()}),
                    {world.rank() == 0 ? 1 : 2, world.rank() == 0 ? 2 : 1},
                    world.rank() == 0 ? std::vector<int64_t>{1, 1} : std::vector<int64_t>{2, 1}, {"rows"})
        .wait();
  });
  for (int64_t rank = 0; rank < 2; ++rank) {
    const std::string path = fmt::format("{}/calls-{}.json", folder, rank);
    const RankRecords read = rank_records(read_text(path), path),
                      kept = logs[static_cast<size_t>(rank)]->records();
    EXPECT_EQ(to_json(read), to_json(kept));
    EXPECT_EQ(read.rank, rank);
    ASSERT_EQ(read.calls.size(), 2u);
    EXPECT_EQ(read.calls[1].state, CallState::kFailed);
    EXPECT_THAT(read.calls[1].error, HasSubstr("rows"));
    EXPECT_EQ(read.calls[0].messages.size(), 2u);
    const auto json = nlohmann::json::parse(read_text(path));
    EXPECT_EQ(json["entries"][0]["profiling_name"], "longhaul:exchange");
    EXPECT_EQ(json["entries"][0]["state"], "completed");
  }
}

TEST(Traced, CallsAreShownWhileAStepIsRecorded) {
  const auto spans = std::make_shared<observe::SpanRecorder>();
  std::vector<std::string> seen;
  on_ranks(2, [&](Communicator& world) {
    const auto log = std::make_shared<CallLog>(world.rank(), 4);
    if (world.rank() == 0) log->show_in(spans);
    Traced traced(borrowed(world), log);
    const Tensor values = at::ones({3}, at::kFloat);
    traced.all_reduce(values, Reduction::kSum, {.name = "before"}).wait();
    if (world.rank() == 0) spans->start(5);
    const auto groups = traced.split({{.name = "pair", .groups = {{1, 0}}}});
    Work work = traced.all_reduce(values, Reduction::kSum, {.name = "overlapped"});
    groups[0]
        ->exchange(
            {world.rank() == 0 ? send_to(0, values.clone()) : receive_from(1, at::empty({3}, at::kFloat))},
            {.name = "message"})
        .wait();
    work.wait();
    if (world.rank() != 0) return;
    const observe::StepTrace trace = spans->stop();
    ASSERT_EQ(trace.calls.size(), 3u);
    const observe::CallSpan &message = trace.calls[1], &sum = trace.calls[2];
    EXPECT_EQ(trace.calls[0].kind, "split");
    EXPECT_EQ(message.group, "world/pair 0");
    EXPECT_EQ(message.sends_to, std::vector<int64_t>{1})
        << "ranks of the world: its place here is 1, its peer's 0";
    EXPECT_EQ(sum.name, "overlapped");
    EXPECT_EQ(sum.sent, 8 + 4);
    EXPECT_LE(sum.begin_ns, message.begin_ns);
    for (const observe::CallSpan& call : trace.calls) {
      EXPECT_LE(trace.begin_ns, call.begin_ns);
      EXPECT_LE(call.begin_ns, call.started_ns);
      EXPECT_LE(call.started_ns, call.waited_from_ns);
      EXPECT_LE(call.waited_from_ns, call.waited_until_ns);
      EXPECT_LE(call.begin_ns, call.end_ns);
      EXPECT_LE(call.end_ns, call.waited_until_ns) << "the end itself, not when it was seen";
    }
  });
}

TEST(Traced, WhatIsNoRecordIsRefused) {
  const std::string good = to_json(RankRecords{.rank = 0, .groups = {{"world", {0}}}}).dump();
  EXPECT_NO_THROW(rank_records(good, "a.json"));
  for (
      const char* bad :
      {"", "[]", "{}", R"({"rank":0,"dropped":0,"pg_config":[{"name":"world","ranks":[1]}],"entries":[]})",
       R"({"rank":0,"dropped":0,"pg_config":[{"name":"world","ranks":[0]}],"entries":[{"record_id":0,"pg_id":1}]})"}) {
    EXPECT_THROW(rank_records(bad, "a.json"), Error) << bad;
  }
}

}  // namespace
}  // namespace longhaul::comm
