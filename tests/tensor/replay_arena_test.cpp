// A step's requests lie where the plan says, whatever the plan says no two tensors share bytes, and what the
// plan does not know comes from the heap.
#include "tensor/replay_arena.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <thread>

#include "tensor/caching_heap.h"

namespace longhaul {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kKilo = 1 << 10, kMega = 1 << 20;

class Replay : public ::testing::Test {
 protected:
  char* take(int64_t bytes) {
    auto* data = static_cast<char*>(heap_.allocate(static_cast<size_t>(bytes), MemoryPurpose::kActivations));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 64, 0u);
    std::memset(data, 1, static_cast<size_t>(bytes));
    return data;
  }
  // Places of these sizes, one behind the other.
  static ArenaPlan plan_of(const std::vector<int64_t>& sizes, std::vector<int64_t> cuts = {}) {
    ArenaPlan plan{.cuts = std::move(cuts)};
    for (const int64_t bytes : sizes) {
      plan.places.push_back({bytes, plan.bytes});
      plan.bytes += ReplayArena::room_of(bytes);
    }
    return plan;
  }

  CachingHeap heap_;
};

TEST_F(Replay, LogsWhatAThreadAsksFor) {
  ReplayArena arena(heap_);
  void* const before = take(64 * kKilo);
  char *kept = nullptr, *first = nullptr;
  {
    const ReplayArena::Scope step(arena);
    first = take(100 * kKilo);             // 1
    ReplayArena::cut();                    // 2
    char* const small = take(8 * kKilo);   // of the slabs
    char* const second = take(3 * kMega);  // 3
    std::thread([&] {
      heap_.free(take(64 * kKilo));  // another thread's
      heap_.free(first);             // 4
    }).join();
    heap_.free(small);
    heap_.free(before);
    heap_.free(second);       // 5
    kept = take(20 * kKilo);  // 6
  }
  heap_.free(kept);  // behind the step
  const MemoryLog log = arena.take_log();
  ASSERT_EQ(log.requests.size(), 3u);
  const auto row = [&](size_t i) {
    return std::vector<int64_t>{log.requests[i].bytes, log.requests[i].begin, log.requests[i].end};
  };
  EXPECT_THAT(row(0), ElementsAre(100 * kKilo, 1, 4));
  EXPECT_THAT(row(1), ElementsAre(3 * kMega, 3, 5));
  EXPECT_THAT(row(2), ElementsAre(20 * kKilo, 6, 0));
  EXPECT_THAT(log.cuts, ElementsAre(2));
  EXPECT_FALSE(ReplayArena::in_use());
}

TEST_F(Replay, GivesEachRequestItsPlace) {
  ReplayArena arena(heap_);
  ArenaPlan plan = plan_of({100 * kKilo, 3 * kMega, 50 * kKilo});
  plan.places[2].address = plan.places[0].address;  // its lifetime is another
  plan.places.push_back({70 * kKilo, -1});          // from the heap
  ASSERT_TRUE(arena.set_plan(plan));
  const int64_t held = heap_.statistics().held_bytes;
  char* at = nullptr;
  for (int round = 0; round < 5; ++round) {
    const ReplayArena::Scope step(arena);
    char* const first = take(100 * kKilo);
    if (round == 0) at = first;
    EXPECT_EQ(first, at);
    char* const second = take(3 * kMega);
    EXPECT_EQ(second - first, plan.places[1].address - plan.places[0].address);
    heap_.free(first);
    EXPECT_EQ(take(50 * kKilo), at);
    char* const from_heap = take(70 * kKilo);
    EXPECT_TRUE(from_heap < at || from_heap > at + plan.bytes);
    EXPECT_EQ(heap_.statistics().total.bytes, 3 * kMega + 120 * kKilo);
    for (char* data : {second, at, from_heap}) heap_.free(data);
    EXPECT_EQ(arena.use().requests, 4);
    EXPECT_EQ(arena.use().unplanned, 0);
  }
  EXPECT_LE(heap_.statistics().held_bytes - held, 64 * kMega) << "the range of the one from the heap";
  EXPECT_EQ(heap_.statistics().total.bytes, 0);
}

// A row of another length, and a first step that makes what is kept from then on.
TEST_F(Replay, PassesOverAndGoesOn) {
  ReplayArena arena(heap_);
  const ArenaPlan plan = plan_of({100 * kKilo, 200 * kKilo, 300 * kKilo, 400 * kKilo}, {2});
  ASSERT_TRUE(arena.set_plan(plan));
  char* base = nullptr;
  {
    const ReplayArena::Scope step(arena);
    base = take(100 * kKilo);
    heap_.free(base);
  }
  const ReplayArena::Scope step(arena);
  char* const second = take(200 * kKilo);  // the first is not asked for
  EXPECT_EQ(second - base, plan.places[1].address);
  char* const other = take(111 * kKilo);  // is in no plan
  char* const third = take(300 * kKilo);  // stands behind the cut, which is still to come
  EXPECT_EQ(arena.use().unplanned, 2);
  EXPECT_EQ(arena.use().unplanned_bytes, 411 * kKilo);
  ReplayArena::cut();
  char* const fourth = take(400 * kKilo);
  EXPECT_EQ(fourth - base, plan.places[3].address);
  EXPECT_EQ(arena.use().unplanned, 2);
  EXPECT_EQ(arena.use().requests, 4);
  for (char* data : {second, other, third, fourth}) heap_.free(data);
}

// A layer that asks for nothing that was planned does not spoil the next one, however much that was.
TEST_F(Replay, FindsItsPlaceAgainAtACut) {
  ReplayArena arena(heap_);
  std::vector<int64_t> sizes(100, 50 * kKilo);
  sizes.push_back(70 * kKilo);
  ASSERT_TRUE(arena.set_plan(plan_of(sizes, {0, 100})));
  for (const bool cuts : {true, false}) {
    const ReplayArena::Scope step(arena);
    if (cuts) ReplayArena::cut(), ReplayArena::cut();
    heap_.free(take(70 * kKilo));
    EXPECT_EQ(arena.use().unplanned, cuts ? 0 : 1);
  }
}

// Whoever lives longer than planned keeps its bytes.
TEST_F(Replay, NeverGivesBytesTwice) {
  ReplayArena arena(heap_);
  ArenaPlan plan = plan_of({300 * kKilo, 200 * kKilo, 100 * kKilo});
  plan.places[1].address = 100 * kKilo;  // in the middle of the first
  plan.places[2].address = 0;
  ASSERT_TRUE(arena.set_plan(plan));
  const ReplayArena::Scope step(arena);
  char* const first = take(300 * kKilo);
  std::memset(first, 7, 300 * kKilo);
  char* const second = take(200 * kKilo);
  char* const third = take(100 * kKilo);
  EXPECT_EQ(arena.use().collided, 2);
  EXPECT_EQ(arena.use().unplanned, 2);
  for (int64_t i = 0; i < 300 * kKilo; ++i) ASSERT_EQ(first[i], 7) << i;
  for (char* data : {first, second, third}) heap_.free(data);
}

// The same plan at random against a record of contents.
TEST_F(Replay, RandomPlansSpoilNothing) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 50; ++round) {
    ArenaPlan plan{.bytes = 4 * kMega};
    for (int i = 0; i < 40; ++i) {
      const auto bytes = static_cast<int64_t>(16 * kKilo + static_cast<int64_t>(random() % 20) * 10 * kKilo);
      plan.places.push_back({bytes, static_cast<int64_t>(random() % 7000) * 512});
    }
    ReplayArena arena(heap_);
    ASSERT_TRUE(arena.set_plan(plan));
    const ReplayArena::Scope step(arena);
    std::vector<std::pair<char*, int64_t>> live;
    for (const ArenaPlan::Place& place : plan.places) {
      char* const data = take(place.bytes);
      std::memset(data, static_cast<char>(live.size() + 1), static_cast<size_t>(place.bytes));
      live.emplace_back(data, place.bytes);
    }
    for (size_t i = 0; i < live.size(); ++i) {
      const auto [data, bytes] = live[i];
      ASSERT_TRUE(std::all_of(data, data + bytes, [&](char c) { return c == static_cast<char>(i + 1); }));
      heap_.free(data);
    }
    EXPECT_GT(arena.use().collided, 0);
    EXPECT_LT(arena.use().unplanned, 40);
  }
  EXPECT_EQ(heap_.statistics().total.bytes, 0);
}

TEST_F(Replay, TensorsOutliveTheArena) {
  std::optional<ReplayArena> arena(heap_);
  ASSERT_TRUE(arena->set_plan(plan_of({5 * kMega})));
  char* data = nullptr;
  {
    const ReplayArena::Scope step(*arena);
    data = take(5 * kMega);
  }
  std::memset(data, 9, 5 * kMega);
  arena.reset();
  heap_.trim();
  EXPECT_GE(heap_.statistics().held_bytes, 5 * kMega);
  EXPECT_EQ(data[5 * kMega - 1], 9);
  heap_.free(data);
  heap_.trim();
  EXPECT_EQ(heap_.statistics().held_bytes, 0);
}

TEST_F(Replay, ANewPlanTakesThePlaceOfTheOld) {
  ReplayArena arena(heap_);
  for (int round = 0; round < 4; ++round) ASSERT_TRUE(arena.set_plan(plan_of({100 * kMega})));
  EXPECT_LT(heap_.statistics().held_bytes, 110 * kMega);
  arena.forget_plan();
  EXPECT_FALSE(arena.planned());
  heap_.trim();
  EXPECT_EQ(heap_.statistics().held_bytes, 0);
}

TEST_F(Replay, WithoutRoomThereIsNoBlock) {
  CachingHeap small(32 * kMega);
  ReplayArena arena(small);
  EXPECT_FALSE(arena.set_plan(plan_of({40 * kMega})));
  EXPECT_FALSE(arena.planned());
  void* const data = small.allocate(1 * kMega, MemoryPurpose::kOther);
  EXPECT_NE(data, nullptr);
  small.free(data);
}

// In the test mode planned memory is NaN as all memory, and is fenced.
TEST_F(Replay, IsFencedInTheTestMode) {
  heap_.set_poison(true);
  ReplayArena arena(heap_);
  ASSERT_TRUE(arena.set_plan(plan_of({100 * kKilo, 20 * kKilo})));
  const ReplayArena::Scope step(arena);
  auto* data = static_cast<char*>(heap_.allocate(100 * kKilo, MemoryPurpose::kOther));
  for (int64_t i = 0; i < 100 * kKilo; ++i) ASSERT_EQ(static_cast<unsigned char>(data[i]), 0xff) << i;
  EXPECT_THAT(heap_.damage(), ElementsAre());
  data[100 * kKilo + 3] = 0;
  EXPECT_THAT(heap_.damage(), ElementsAre(HasSubstr("byte 3 behind a block of 102400 bytes")));
  heap_.free(data);
}

TEST_F(Replay, FreedTwiceIsNoticed) {
  ReplayArena arena(heap_);
  ASSERT_TRUE(arena.set_plan(plan_of({100 * kKilo})));
  const ReplayArena::Scope step(arena);
  char* const data = take(100 * kKilo);
  heap_.free(data);
  EXPECT_DEATH(heap_.free(data), "freed twice");
}

TEST_F(Replay, RefusesAddressesOutsideOfTheBlock) {
  EXPECT_TRUE(ReplayArena::is_place(512, 1000, 512 + ReplayArena::room_of(1000)));
  EXPECT_FALSE(ReplayArena::is_place(1024, 1000, 512 + ReplayArena::room_of(1000)));
  EXPECT_FALSE(ReplayArena::is_place(100, 1000, 1 << 20));
  EXPECT_FALSE(ReplayArena::is_place(-512, 1000, 1 << 20));
  EXPECT_FALSE(ReplayArena::is_place(0, INT64_MAX, 1 << 20));
}

// Ranks that are threads of one process: each has its own.
TEST_F(Replay, EachThreadHasItsOwn) {
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    ranks.emplace_back([&, rank] {
      ReplayArena arena(heap_);
      ASSERT_TRUE(arena.set_plan(plan_of({200 * kKilo, 100 * kKilo})));
      for (int round = 0; round < 200; ++round) {
        const ReplayArena::Scope step(arena);
        char* const first = take(200 * kKilo);
        char* const second = take(100 * kKilo);
        std::memset(first, rank, 200 * kKilo);
        std::memset(second, 10 + rank, 100 * kKilo);
        ASSERT_TRUE(std::all_of(first, first + 200 * kKilo, [&](char c) { return c == rank; }));
        ASSERT_EQ(arena.use().unplanned, 0);
        heap_.free(first), heap_.free(second);
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

}  // namespace
}  // namespace longhaul
