// Delays, faults and pretended worlds: results stay what they were, time and failures are what was planned,
// and wrappers go around each other and around groups that are split off.
// ctest: timeout=120
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <thread>

#include "base/clock.h"
#include "comm/disagreement.h"
#include "comm/fake.h"
#include "comm/ranks.h"
#include "comm/single.h"
#include "comm/wrappers/delayed.h"
#include "comm/wrappers/faulty.h"
#include "comm/wrappers/traced.h"

namespace longhaul::comm {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::shared_ptr<Link> link_of(double latency_s, double bytes_per_second = 0) {
  return std::make_shared<Link>(LinkOptions{.latency_s = latency_s, .bytes_per_second = bytes_per_second});
}

std::vector<int64_t> integers(const Tensor& tensor) {
  const Tensor flat = tensor.to(at::kLong).contiguous();
  return {flat.const_data_ptr<int64_t>(), flat.const_data_ptr<int64_t>() + flat.numel()};
}

// Times have a lower bound only: a machine may always be slower.
TEST(Delayed, ACallTakesLatencyAndBytes) {
  run_ranks(2, [](Communicator& world) {
    Delayed slow(borrowed(world), link_of(0.05, 1e6));
    const Tensor values = at::full({12500}, world.rank() + 1.0);  // 50 KB: of two ranks each sends as much
    const Stopwatch watch;
    slow.all_reduce(values, Reduction::kSum, {"a"}).wait();
    EXPECT_GE(watch.seconds(), 0.1);
    EXPECT_TRUE(values.eq(3).all().item<bool>());
  });
}

TEST(Delayed, ItGoesOnWhileTheRankComputes) {
  Single alone;
  Delayed slow(borrowed(alone), link_of(0.5));
  Work work = slow.barrier({"b"});
  EXPECT_FALSE(work.done());
  for (const Stopwatch watch; !work.done() && watch.seconds() < 20;)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(work.done()) << "nobody has waited";
  const Stopwatch watch;
  work.wait();
  EXPECT_LT(watch.seconds(), 0.4);
}

TEST(Delayed, AGroupOfOneRankThatWasSplitOffTakesNoTime) {
  run_ranks(2, [](Communicator& world) {
    Delayed far(borrowed(world), link_of(10));
    const auto alone = far.split({{.name = "alone", .groups = {{0}, {1}}}});
    const Stopwatch watch;
    alone[0]->barrier({.name = "with nobody"}).wait();
    EXPECT_LT(watch.seconds(), 5);
  });
}

TEST(Delayed, LatenciesOverlapAndBytesDoNot) {
  run_ranks(2, [](Communicator& world) {
    Delayed far(borrowed(world), link_of(0.5));
    std::vector<Work> works;
    const Stopwatch watch;
    for (int i = 0; i < 10; ++i) works.push_back(far.all_reduce(at::ones({100}), Reduction::kSum, {"far"}));
    for (Work& work : works) work.wait();
    EXPECT_GE(watch.seconds(), 0.5);
    EXPECT_LT(watch.seconds(), 4.5);
  });
  run_ranks(2, [](Communicator& world) {
    const auto link = link_of(0, 1e5);
    Delayed narrow(borrowed(world), link);
    std::vector<Work> works;
    const Stopwatch watch;
    for (int i = 0; i < 5; ++i)
      works.push_back(narrow.all_reduce(at::ones({1000}), Reduction::kSum, {"narrow"}));
    for (Work& work : works) work.wait();
    EXPECT_GE(watch.seconds(), 5 * 0.04);
    EXPECT_NEAR(link->busy_s(), 5 * 0.04, 1e-6);
  });
}

// Four ranks on two nodes: what goes to the other node takes four times as long, beside what stays.
TEST(Delayed, RanksOfOtherNodesAreFurtherAway) {
  const auto expect_seconds = [](const std::function<void(Communicator&)>& call,
                                 const std::function<double(int64_t)>& expected) {
    run_ranks(4, [&](Communicator& world) {
      const auto link = link_of(0, 1e6);
      Delayed slow(borrowed(world), link, DelayedNodes{.node_of_rank = {7, 7, 9, 9}, .times_slower = 4});
      call(slow);
      EXPECT_NEAR(link->busy_s(), expected(world.rank()), 1e-9);
    });
  };
  // Of each rank 1,000 bytes for each: one peer is near, two are away.
  expect_seconds(
      [](Communicator& group) {
        const Tensor rows = at::ones({4, 250});
        group.all_to_all(rows, at::empty_like(rows), {1, 1, 1, 1}, {1, 1, 1, 1}, {"rows"}).wait();
      },
      [](int64_t) { return 4 * 2e-3; });
  // Near ones get 5,000 bytes, the other node 1,000: the near link is the later one. Ranks 1 and 3 get 1,000
  // from either rank of the other node.
  expect_seconds(
      [](Communicator& group) {
        const bool first = group.rank() < 2;
        const std::vector<int64_t> rows =
            first ? std::vector<int64_t>{5, 5, 0, 1} : std::vector<int64_t>{0, 1, 5, 5};
        std::vector<int64_t> back =
            first ? std::vector<int64_t>{5, 5, 0, 0} : std::vector<int64_t>{0, 0, 5, 5};
        if (group.rank() == 3) back = {1, 1, 5, 5};
        if (group.rank() == 1) back = {5, 5, 1, 1};
        const auto all = [](const std::vector<int64_t>& of) { return of[0] + of[1] + of[2] + of[3]; };
        group.all_to_all(at::ones({all(rows), 250}), at::empty({all(back), 250}), rows, back, {"rows"})
            .wait();
      },
      [](int64_t rank) { return std::max(5e-3, 4e-3 * (rank % 2 == 1 ? 2 : 1)); });
  // A group of both ranks of a node keeps to its node, one of two nodes does not.
  for (const bool within : {true, false}) {
    expect_seconds(
        [&](Communicator& group) {
          const auto pair =
              group.split({{.name = "pair",
                            .groups = within ? std::vector<std::vector<int64_t>>{{0, 1}, {2, 3}}
                                             : std::vector<std::vector<int64_t>>{{0, 2}, {1, 3}}}});
          pair[0]->all_gather(at::ones({1, 250}), at::empty({2, 250}), {"rows"}).wait();
        },
        [&](int64_t) { return within ? 1e-3 : 4e-3; });
  }
}

// Once the first is on the way, the others are taken by their priority, not in the order in which they came.
TEST(Delayed, TheHighestPriorityGoesFirst) {
  Single alone;
  const auto link = link_of(0, 1e5);
  std::vector<std::shared_ptr<Link::Passage>> passages;
  // 0.6 s, and 0.25 s for each of the others: as late as this thread may come
  passages.push_back(link->send(Work(), 60000, 0));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  for (const int priority : {1, 3, 2, 3}) passages.push_back(link->send(Work(), 25000, priority));
  std::vector<size_t> order;
  while (order.size() < passages.size()) {
    for (size_t i = 0; i < passages.size(); ++i) {
      if (std::ranges::find(order, i) == order.end() && passages[i]->done()) order.push_back(i);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_THAT(order, ElementsAre(0, 2, 4, 3, 1));
}

TEST(Delayed, GroupsShareTheLinkAndErrorsPass) {
  std::latch given_up(1);
  const auto errors = errors_of(2,
                                [&](Communicator& world) {
                                  const auto link = link_of(0.02);
                                  Delayed slow(borrowed(world), link);
                                  const auto groups = slow.split({{"pair", {{0, 1}}}});
                                  const Stopwatch watch;
                                  groups[0]->barrier({"in the group"}).wait();
                                  EXPECT_GE(watch.seconds(), 0.02);
                                  if (world.rank() == 1) given_up.wait();
                                  try {
                                    if (world.rank() == 0) groups[0]->barrier({"alone"}).wait();
                                  } catch (const Error&) {
                                    given_up.count_down();
                                    throw;
                                  }
                                  slow.barrier({"after"}).wait();
                                },
                                {.timeout = Timeout(1000)});
  EXPECT_THAT(errors, Each(HasSubstr("alone")));
}

TEST(Delayed, ALinkThatGoesLetsItsCallsEnd) {
  std::shared_ptr<Link::Passage> passage;
  {
    Link link({.latency_s = 100});
    passage = link.send(Work(), 0, 0);
  }
  SUCCEED();
}

TEST(Faulty, ThrowsAtThePlannedCallOfThePlannedGroup) {
  const auto errors = errors_of(2, [](Communicator& world) {
    std::vector<Fault> faults;
    if (world.rank() == 1) faults = {{.group = "world/pair 0", .call = 2}};
    Faulty faulty(borrowed(world), faults);
    const auto groups = faulty.split({{"pair", {{0, 1}}}});
    for (int i = 0; i < 4; ++i) {
      faulty.barrier({"all"}).wait();
      groups[0]->barrier({fmt::format("pair {}", i)}).wait();
    }
  });
  EXPECT_THAT(errors[1], ::testing::AllOf(HasSubstr("a planned fault"),
                                          HasSubstr("rank 1 of 'pair 0', barrier 'pair 2' (call 2)")));
  EXPECT_THAT(errors[0], HasSubstr("rank 1"));  // it went away
}

TEST(Faulty, FlipsOneBitOfTheResult) {
  run_ranks(2, [](Communicator& world) {
    std::vector<Fault> faults;
    if (world.rank() == 0)
      faults = {{.group = "world", .call = 1, .kind = Fault::Kind::kCorrupt, .bit = 64 + 3}};
    Faulty faulty(borrowed(world), faults);
    for (int i = 0; i < 3; ++i) {
      const Tensor values = at::full({3}, 16, at::kLong);
      faulty.all_reduce(values, Reduction::kSum, {"values"}).wait();
      EXPECT_THAT(integers(values), ElementsAre(32, world.rank() == 0 && i == 1 ? 40 : 32, 32));
    }
  });
}

TEST(Faulty, ExchangesAreCountedByThemselves) {
  Single alone;
  Faulty faulty(borrowed(alone), {{.group = "world", .call = 0, .exchange = true}});
  faulty.barrier({"a collective call"}).wait();
  const Tensor got = at::empty({1});
  EXPECT_THROW((void)faulty.exchange({send_to(0, at::ones({1})), receive_from(0, got)}, {"m"}), Error);
}

TEST(Wrappers, AroundEachOther) {
  run_ranks(3, [](Communicator& world) {
    const auto log = std::make_shared<CallLog>(world.rank());
    Faulty faulty(borrowed(world), {});
    Delayed slow(borrowed(faulty), link_of(0.02));
    Traced traced(borrowed(slow), log);
    const auto groups = traced.split({{"row", {{0, 1, 2}}}});
    const Tensor all = at::empty({3}, at::kLong);
    groups[0]->all_gather(at::full({1}, world.rank(), at::kLong), all, {"who"}).wait();
    EXPECT_THAT(integers(all), ElementsAre(0, 1, 2));
    const CallRecord call = log->records().calls.back();
    EXPECT_GE(call.ended_ns - call.started_ns, 19'000'000);  // the delay is inside the trace
  });
}

// What Fake gives for tensors with data is what ranks with equal inputs give.
TEST(Fake, GivesWhatEqualRanksGive) {
  const auto results = [](Communicator& world) {
    std::vector<std::vector<int64_t>> all;
    const Tensor values = at::arange(6, at::kLong).view({3, 2}).contiguous(), most = values.clone(),
                 own = at::full({1, 2}, -1, at::kLong), gathered = at::full({9, 2}, -1, at::kLong),
                 exchanged = at::full({3, 2}, -1, at::kLong), sum = values.clone();
    world.all_reduce(sum, Reduction::kSum, {"sum"}).wait();
    world.all_reduce(most, Reduction::kMax, {"max"}).wait();
    world.reduce_scatter(values, own, Reduction::kSum, {"scattered"}).wait();
    world.all_gather(values, gathered, {"gathered"}).wait();
    world.all_to_all(values, exchanged, {1, 1, 1}, {1, 1, 1}, {"exchanged"}).wait();
    world.broadcast(sum, 2, {"broadcast"}).wait();
    const auto groups = world.split({{"some", {{2, 1}}}, {"none", {}}});
    EXPECT_EQ(groups[1], nullptr);
    if (world.rank() == 1) {
      EXPECT_EQ(groups[0]->rank(), 1);
      EXPECT_EQ(groups[0]->size(), 2);
      EXPECT_EQ(groups[0]->name(), "some 0");
    }
    for (const Tensor& each : {sum, most, own, gathered, exchanged}) all.push_back(integers(each));
    return all;
  };
  std::vector<std::vector<int64_t>> real;
  run_ranks(3, [&](Communicator& world) {
    const auto of_rank = results(world);
    if (world.rank() == 1) real = of_rank;
  });
  Fake fake(1, 3);
  EXPECT_EQ(results(fake), real);
}

TEST(Fake, UnevenRowsAreFilledWithZeros) {
  Fake fake(1, 3);
  const Tensor gathered = at::full({6}, -1, at::kLong);
  fake.all_gather(at::tensor({7, 8}, at::kLong), gathered, {"g"}, {1, 2, 3}).wait();
  EXPECT_THAT(integers(gathered), ElementsAre(7, 7, 8, 7, 8, 0));
}

TEST(Fake, ChecksCallsAndNeedsNoMemory) {
  Fake fake(3, 4096);
  const Tensor huge = at::empty({int64_t{1} << 40}, at::kMeta);
  fake.all_reduce(huge, Reduction::kSum, {"huge"}).wait();
  EXPECT_THROW((void)fake.all_gather(at::empty({2}, at::kMeta), at::empty({4096}, at::kMeta), {"uneven"}),
               Error);
  EXPECT_THROW((void)fake.broadcast(huge, 4096, {"root"}), Error);
}

// A dry run of several ranks, one after the other in one thread, and its comparison.
Comparison dry_run(int64_t size, const std::vector<int64_t>& ranks,
                   const std::function<void(Communicator&)>& body) {
  std::vector<RankRecords> records;
  for (const int64_t rank : ranks) {
    const auto log = std::make_shared<CallLog>(rank);
    Fake fake(rank, size);
    Traced traced(borrowed(fake), log);
    body(traced);
    records.push_back(log->records());
  }
  return compare_records(records);
}

TEST(Fake, ADryRunFindsWhatWouldHang) {
  const auto body = [](int64_t wrong) {
    return [wrong](Communicator& world) {
      const layout::Mesh mesh(world.size(), {.pp = 2, .tp = 4});
      const auto groups = world.split(mesh.group_kinds());
      const Tensor x = at::empty({8, 16}, at::kMeta);
      for (const auto& group : groups) {
        if (group)
          group->all_reduce(x, Reduction::kSum, {.name = world.rank() == wrong ? "other" : "sum"}).wait();
      }
    };
  };
  EXPECT_TRUE(dry_run(1024, {0, 1, 2, 3, 4, 512, 1023}, body(-1)).agreed());
  const Comparison found = dry_run(1024, {0, 1, 2, 3, 4, 512, 1023}, body(2));
  ASSERT_FALSE(found.agreed());
  EXPECT_THAT(found.disagreements[0].ranks, ElementsAre(2));
}

}  // namespace
}  // namespace longhaul::comm
