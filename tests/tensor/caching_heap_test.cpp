// Blocks do not overlap, are aligned, come back without fresh pages, and the numbers that are reported about
// them are right.
#include "tensor/caching_heap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <random>
#include <thread>

#include "base/memory/pages.h"

namespace {
thread_local bool malloc_is_exhausted = false;  // for operator new in this thread
}

void* operator new(size_t bytes) {
  void* const memory = malloc_is_exhausted ? nullptr : std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace longhaul {
namespace {

using ::testing::HasSubstr;

constexpr size_t kKiB = 1 << 10, kMiB = 1 << 20;

char* bytes_of(void* data) { return static_cast<char*>(data); }

TEST(CachingHeap, EverySizeIsAlignedAndWritable) {
  CachingHeap heap;
  std::map<size_t, char*> blocks;
  for (size_t size = 1; size < 6 * kMiB; size = size * 5 / 4 + 1) {
    for (const size_t bytes : {size - 1, size, size + 64}) {
      if (bytes == 0 || blocks.contains(bytes)) continue;
      char* data = bytes_of(heap.allocate(bytes, MemoryPurpose::kOther));
      ASSERT_NE(data, nullptr);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 64, 0u) << bytes;
      std::memset(data, static_cast<int>(bytes % 251), bytes);
      blocks[bytes] = data;
    }
  }
  for (const auto& [bytes, data] : blocks) {  // a block that overlapped another has lost its value
    EXPECT_EQ(static_cast<unsigned char>(data[0]), bytes % 251) << bytes;
    EXPECT_EQ(static_cast<unsigned char>(data[bytes - 1]), bytes % 251) << bytes;
    EXPECT_EQ(std::memcmp(data, data + bytes / 2, bytes - bytes / 2), 0) << bytes;
    heap.free(data);
  }
  const MemoryStatistics left = heap.statistics();
  EXPECT_EQ(left.total.bytes, 0);
  EXPECT_EQ(left.total.blocks, 0);
  heap.trim();
  EXPECT_EQ(heap.statistics().held_bytes, 0);
}

// Allocations and frees in random order, against a plain record of what each block must hold.
TEST(CachingHeap, RandomUseKeepsContentsAndStaysBounded) {
  CachingHeap heap;
  std::mt19937_64 random(7);
  struct Kept {
    char* data;
    size_t bytes;
    char mark;
  };
  std::vector<Kept> kept;
  size_t in_use = 0, peak = 0;
  for (int round = 0; round < 20000; ++round) {
    if (!kept.empty() && (random() % 2 == 0 || in_use > 64 * kMiB)) {
      std::swap(kept[random() % kept.size()], kept.back());
      const Kept gone = kept.back();
      kept.pop_back();
      ASSERT_TRUE(gone.data[0] == gone.mark && gone.data[gone.bytes / 2] == gone.mark &&
                  gone.data[gone.bytes - 1] == gone.mark);
      heap.free(gone.data);
      in_use -= gone.bytes;
      continue;
    }
    const size_t bytes = 1 + random() % (size_t{1} << (random() % 22 + 1));
    Kept block{bytes_of(heap.allocate(bytes, MemoryPurpose::kActivations)), bytes, static_cast<char>(round)};
    ASSERT_NE(block.data, nullptr);
    block.data[0] = block.data[bytes / 2] = block.data[bytes - 1] = block.mark;
    kept.push_back(block);
    in_use += bytes;
    peak = std::max(peak, in_use);
    if (round % 5000 == 0) heap.trim();
  }
  const MemoryStatistics now = heap.statistics();
  EXPECT_EQ(now.total.bytes, static_cast<int64_t>(in_use));
  EXPECT_EQ(now.of(MemoryPurpose::kActivations).bytes, static_cast<int64_t>(in_use));
  EXPECT_EQ(now.total.peak, static_cast<int64_t>(peak));
  // Headers, rounding, holes between blocks and half-used slabs: best fit stays below half as much again on
  // this mixture.
  EXPECT_LT(now.peak_held_bytes, static_cast<int64_t>(peak * 3 / 2 + 16 * kMiB));
  for (const Kept& block : kept) heap.free(block.data);
  heap.trim();
  EXPECT_EQ(heap.statistics().held_bytes, 0);
}

// The same requests in every step, as in training: after the first step no page is fresh and nothing more is
// taken.
TEST(CachingHeap, RepeatedStepsTakeNoFreshPages) {
  CachingHeap heap;
  const auto step = [&] {
    std::vector<void*> blocks;
    for (size_t i = 0; i < 40; ++i) {
      const size_t bytes = (i % 7 + 1) * 700 * kKiB + i * 100;
      blocks.push_back(heap.allocate(bytes, MemoryPurpose::kActivations));
      std::memset(blocks.back(), 1, bytes);
      if (i % 3 == 2) {
        heap.free(blocks[i - 1]);
        blocks[i - 1] = nullptr;
      }
    }
    for (void* block : blocks) heap.free(block);
  };
  step();
  const int64_t held = heap.statistics().held_bytes, faults = page_faults();
  for (int i = 0; i < 20; ++i) step();
  EXPECT_EQ(heap.statistics().held_bytes, held);
  EXPECT_LT(page_faults() - faults, 200);  // 20 steps write 40,000 pages; the few are the test's own vectors
}

TEST(CachingHeap, TrimGivesBackAndKeepsWhatIsInUse) {
  CachingHeap heap;
  char* first = bytes_of(heap.allocate(20 * kMiB, MemoryPurpose::kOther));
  void* second = heap.allocate(30 * kMiB, MemoryPurpose::kOther);
  char* third = bytes_of(heap.allocate(20 * kMiB, MemoryPurpose::kOther));
  std::memset(first, 1, 20 * kMiB);
  std::memset(second, 2, 30 * kMiB);
  std::memset(third, 3, 20 * kMiB);
  heap.free(second);
  const int64_t before = heap.statistics().held_bytes;
  heap.trim();
  const int64_t given_back = before - heap.statistics().held_bytes;
  EXPECT_GE(given_back, static_cast<int64_t>(26 * kMiB));
  EXPECT_LE(given_back, static_cast<int64_t>(30 * kMiB));
  char* again = bytes_of(heap.allocate(30 * kMiB, MemoryPurpose::kOther));
  EXPECT_EQ(again, second);
  EXPECT_EQ(again[16 * kMiB], 0) << "the page was given back";
  EXPECT_EQ(heap.statistics().held_bytes, before);
  EXPECT_TRUE(first[20 * kMiB - 1] == 1 && third[0] == 3);
  for (void* block : {first, again, third}) heap.free(block);
}

TEST(CachingHeap, LimitGivesBackBeforeItFails) {
  CachingHeap heap(64 << 20);
  void* large = heap.allocate(40 * kMiB, MemoryPurpose::kOther);
  ASSERT_NE(large, nullptr);
  EXPECT_EQ(heap.allocate(40 * kMiB, MemoryPurpose::kOther), nullptr);
  heap.free(large);
  std::vector<void*> blocks;  // other sizes: fit only if the 40 MiB lying free go back
  for (int i = 0; i < 50; ++i) blocks.push_back(heap.allocate(900 * kKiB, MemoryPurpose::kOther));
  for (void* block : blocks) ASSERT_NE(block, nullptr);
  EXPECT_LE(heap.statistics().peak_held_bytes, 64 << 20);
  for (void* block : blocks) heap.free(block);
  EXPECT_EQ(heap.allocate(size_t{1} << 50, MemoryPurpose::kOther), nullptr)
      << "more than there is address space";
}

TEST(CachingHeap, CountsByPurpose) {
  CachingHeap heap;
  void* weights = heap.allocate(1000, MemoryPurpose::kParameters);
  void* scratch = heap.allocate(5000, MemoryPurpose::kWorkspace);
  heap.free(scratch);
  scratch = heap.allocate(3000, MemoryPurpose::kWorkspace);
  MemoryStatistics now = heap.statistics();
  EXPECT_EQ(now.of(MemoryPurpose::kParameters).bytes, 1000);
  EXPECT_EQ(now.of(MemoryPurpose::kWorkspace).bytes, 3000);
  EXPECT_EQ(now.of(MemoryPurpose::kWorkspace).peak, 5000);
  EXPECT_EQ(now.total.peak, 6000);
  EXPECT_EQ(now.total.blocks, 2);
  EXPECT_EQ(now.allocations, 3);
  heap.reset_peaks();
  now = heap.statistics();
  EXPECT_EQ(now.of(MemoryPurpose::kWorkspace).peak, 3000);
  EXPECT_EQ(now.total.peak, 4000);
  heap.free(weights);
  heap.free(scratch);
}

TEST(CachingHeap, PoisonFillsFreshAndFreedMemory) {
  CachingHeap heap;
  heap.set_poison(true);
  for (const size_t bytes : {100 * sizeof(float), 500 * kKiB, 3 * kMiB}) {
    auto* values = static_cast<float*>(heap.allocate(bytes, MemoryPurpose::kOther));
    for (size_t i = 0; i < bytes / sizeof(float); ++i) ASSERT_TRUE(std::isnan(values[i])) << i;
    void* wall = heap.allocate(bytes, MemoryPurpose::kOther);  // keeps the range in use
    std::memset(values, 0, bytes);
    heap.free(values);
    EXPECT_TRUE(std::isnan(values[bytes / sizeof(float) / 2]));
    heap.free(wall);
  }
  EXPECT_THAT(heap.damage(), ::testing::IsEmpty());
}

TEST(CachingHeap, GuardBandsShowWritesBehindABlock) {
  CachingHeap heap;
  heap.set_poison(true);
  for (const size_t bytes : {100 * sizeof(char), 500 * kKiB, 3 * kMiB}) {
    char* live = bytes_of(heap.allocate(bytes, MemoryPurpose::kGradients));
    live[bytes] = 0;
    const auto damage = heap.damage();
    ASSERT_EQ(damage.size(), 1u) << bytes;
    EXPECT_THAT(damage[0], HasSubstr("gradients"));
    live[bytes] = static_cast<char>(0xa5);
    EXPECT_THAT(heap.damage(), ::testing::IsEmpty());
    live[bytes + 63] = 0;
    heap.free(live);
    EXPECT_EQ(heap.damage().size(), 1u) << "seen when it was freed";
    EXPECT_THAT(heap.damage(), ::testing::IsEmpty()) << "told once";
  }
}

TEST(CachingHeapDeathTest, RefusesToFreeTwice) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  CachingHeap heap;
  for (const size_t bytes : {size_t{100}, 3 * kMiB}) {
    void* data = heap.allocate(bytes, MemoryPurpose::kOther);
    heap.free(data);
    EXPECT_DEATH(heap.free(data), "freed twice");
    char* other = bytes_of(heap.allocate(bytes, MemoryPurpose::kOther));
    std::memset(other - 64, 0, 64);
    EXPECT_DEATH(heap.free(other), "overwritten in front");
  }
}

// Tensors are freed while an error of memory that ran out is on its way: a free block must not need memory to
// be known.
TEST(CachingHeap, FreeingTakesNoMemory) {
  CachingHeap heap;
  for (const size_t bytes : {size_t{100}, 100 * kKiB, 3 * kMiB}) {
    std::vector<void*> blocks;
    for (int i = 0; i < 64; ++i) blocks.push_back(heap.allocate(bytes, MemoryPurpose::kActivations));
    malloc_is_exhausted = true;
    // every other: none joins its neighbour
    for (size_t i = 0; i < blocks.size(); i += 2) heap.free(blocks[i]);
    malloc_is_exhausted = false;
    for (size_t i = 1; i < blocks.size(); i += 2) heap.free(blocks[i]);
  }
  EXPECT_EQ(heap.statistics().total.bytes, 0);
}

// Blocks made in one thread and freed in another, while both allocate.
TEST(CachingHeap, ThreadsShareIt) {
  CachingHeap heap;
  constexpr int kThreads = 4, kBlocks = 2000;
  std::array<std::vector<std::pair<char*, size_t>>, kThreads> made;
  const auto in_threads = [](const std::function<void(int)>& body) {
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) threads.emplace_back(body, i);
    for (auto& thread : threads) thread.join();
  };
  in_threads([&](int i) {
    std::mt19937_64 random(static_cast<uint64_t>(i));
    for (int j = 0; j < kBlocks; ++j) {
      const size_t bytes = 1 + random() % (size_t{1} << (random() % 18 + 1));
      char* data = bytes_of(heap.allocate(bytes, MemoryPurpose::kOther));
      data[0] = data[bytes - 1] = static_cast<char>(i);
      if (j % 3 == 0) {
        heap.free(data);
      } else {
        made[static_cast<size_t>(i)].emplace_back(data, bytes);
      }
    }
  });
  std::atomic<int> wrong = 0;
  in_threads([&](int i) {
    const int other = (i + 1) % kThreads;
    for (const auto& [data, bytes] : made[static_cast<size_t>(other)]) {
      wrong += data[0] != other || data[bytes - 1] != other;
      heap.free(data);
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(heap.statistics().total.blocks, 0);
}

}  // namespace
}  // namespace longhaul
