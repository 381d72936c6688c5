// Between start and wait: what a rank may do meanwhile, and calls of many kinds at once with ranks that come
// at random times. ctest: timeout=120
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <latch>

#include "comm/ranks.h"

namespace longhaul::comm {
namespace {

TEST(Asynchronous, TheRankGoesOnAfterStarting) {
  std::latch started(1);
  on_ranks(2, [&](Communicator& world) {
    const Tensor value = at::full({3}, 1.0 + static_cast<double>(world.rank()));
    if (world.rank() == 1) started.wait();
    Work work = world.all_reduce(value, Reduction::kSum, {"value"});
    if (world.rank() == 0) {
      EXPECT_FALSE(work.done());
      EXPECT_EQ(numbers(value), std::vector<double>(3, 1));
      started.count_down();
    }
    work.wait();
    EXPECT_TRUE(work.done());
    work.wait();
    EXPECT_EQ(numbers(value), std::vector<double>(3, 3));
  });
}

// Nobody waits before the results are there.
TEST(Asynchronous, ACallGoesOnByItself) {
  for (const int64_t size : kGroupSizes) {
    on_ranks(size, [&](Communicator& world) {
      const Tensor value = at::full({200001}, static_cast<double>(world.rank() + 1));
      Work work = world.all_reduce(value, Reduction::kSum, {"value"});
      while (!work.done()) std::this_thread::yield();
      EXPECT_TRUE(value.eq(static_cast<double>(size * (size + 1) / 2)).all().item<bool>());
      work.wait();
    });
  }
}

TEST(Asynchronous, ManyCallsAtOnceInAnyOrderOfWaiting) {
  on_ranks(3, [](Communicator& world) {
    std::vector<Tensor> values;
    std::vector<Work> works;
    for (int64_t i = 0; i < 40; ++i) {
      values.push_back(values_of(world.rank(), {1000}, at::kFloat, static_cast<uint64_t>(i)));
      works.push_back(world.all_reduce(values.back(), Reduction::kSum, {fmt::format("value {}", i)}));
    }
    for (int64_t i = 0; i < 40; ++i) {
      const auto index = static_cast<size_t>(world.rank() == 1 ? i : 39 - i);
      works[index].wait();
      EXPECT_EQ(numbers(values[index]), plain_sums(3, {1000}, at::kFloat, index));
    }
  });
}

// What overtakes what is the back end's affair: the results are those of each call.
TEST(Asynchronous, ManyCallsOfManyPriorities) {
  on_ranks(3, [](Communicator& world) {
    std::vector<Tensor> values;
    std::vector<Work> works;
    for (int64_t i = 0; i < 60; ++i) {
      const int64_t width = i % 7 == 0 ? 100'000 : 100 + i % 3 * 1000;
      values.push_back(values_of(world.rank(), {width}, at::kFloat, static_cast<uint64_t>(i)));
      works.push_back(
          world.all_reduce(values.back(), Reduction::kSum,
                           {.name = fmt::format("value {}", i), .priority = -static_cast<int>(i * 5 % 7)}));
      if (i % 20 == world.rank()) std::this_thread::sleep_for(std::chrono::milliseconds(3));
    }
    for (size_t i = 0; i < works.size(); ++i) {
      const size_t index = world.rank() == 1 ? i : works.size() - 1 - i;
      works[index].wait();
      EXPECT_EQ(numbers(values[index]), plain_sums(3, values[index].sizes().vec(), at::kFloat, index));
    }
  });
}

TEST(Asynchronous, ADroppedCallKeepsItsTensorsUntilItIsDone) {
  std::atomic<int> alive = 2;
  std::latch dropped(1);
  on_ranks(2, [&](Communicator& world) {
    if (world.rank() == 1) dropped.wait();
    {
      auto* memory = new std::vector<float>(5000, 1.0F);
      const auto release = [memory, &alive](void*) {
        delete memory;
        --alive;
      };
      const Work work = world.all_reduce(at::from_blob(memory->data(), {5000}, release, at::kFloat),
                                         Reduction::kSum, {"dropped"});
    }
    if (world.rank() == 0) {
      EXPECT_EQ(alive, 2);
      dropped.count_down();
    }
    world.barrier({"end"}).wait();
  });
  EXPECT_EQ(alive, 0);
}

// Though another rank has not asked for the end of the call yet.
TEST(Asynchronous, ATensorIsLetGoOfWhenItsCallIsDone) {
  std::atomic<bool> released = false;
  std::latch looked(1);
  on_ranks(2, [&](Communicator& world) {
    if (world.rank() == 0) {
      std::vector<float> memory(5000, 1.0F);
      const auto release = [&](void*) { released = true; };
      Work work = world.all_reduce(at::from_blob(memory.data(), {5000}, release, at::kFloat), Reduction::kSum,
                                   {"values"});
      work.wait();
      EXPECT_TRUE(released);
      looked.count_down();
    } else {
      Work work = world.all_reduce(at::ones({5000}), Reduction::kSum, {"values"});
      looked.wait();
      work.wait();
    }
  });
}

TEST(Asynchronous, WritingCountsAsAnInPlaceChange) {
  on_ranks(2, [](Communicator& world) {
    const Tensor x = at::ones({2}).set_requires_grad(true), factor = at::ones({2}), sent = at::ones({2});
    const Tensor y = (x * factor).sum(), z = (x * sent).sum();
    world.all_reduce(factor, Reduction::kSum, {"factor"}).wait();
    world.all_gather(sent, at::empty({4}), {"sent"}).wait();
    EXPECT_THROW(y.backward(), c10::Error);  // its factor was written to
    z.backward();                            // this one was only read
    EXPECT_EQ(numbers(x.grad()), std::vector<double>(2, 1));
  });
}

// One round of a random sequence of calls, the same on all ranks; each rank dawdles on its own. Returns the
// number of wrong results.
int64_t random_round(Communicator& world, uint64_t round, std::mt19937_64& delays) {
  const int64_t size = world.size(), rank = world.rank();
  std::mt19937_64 plan(round);
  const int64_t width = static_cast<int64_t>(1 + plan() % 300);
  const auto of = [&](int64_t whose, uint64_t what) {
    return at::full({width}, static_cast<double>(whose * 7 + static_cast<int64_t>(round % 50 + what)));
  };
  const double sum =
      static_cast<double>(7 * size * (size - 1) / 2 + size * static_cast<int64_t>(round % 50 + 1));
  const int64_t root = static_cast<int64_t>(plan() % static_cast<uint64_t>(size));
  const int64_t next = (rank + 1) % size, previous = (rank + size - 1) % size;
  std::vector<int> order = {0, 1, 2, 3, 4};
  std::shuffle(order.begin(), order.end(), plan);

  const Tensor reduced = of(rank, 1), cast = of(rank, 2), message = of(rank, 3),
               received = at::zeros({width});
  const Tensor gathered = at::zeros({size * width}), own = at::zeros({width}),
               whole = of(rank, 1).repeat({size});
  std::vector<Work> works;
  for (const int call : order) {
    dawdle(delays);
    if (call == 0) works.push_back(world.all_reduce(reduced, Reduction::kSum, {"reduced"}));
    if (call == 1) works.push_back(world.broadcast(cast, root, {"cast"}));
    if (call == 2)
      works.push_back(world.exchange({send_to(next, message), receive_from(previous, received)}, {"ring"}));
    if (call == 3) works.push_back(world.all_gather(of(rank, 4), gathered, {"gathered"}));
    if (call == 4) works.push_back(world.reduce_scatter(whole, own, Reduction::kSum, {"own"}));
  }
  std::shuffle(works.begin(), works.end(), delays);
  for (Work& work : works) {
    dawdle(delays);
    work.wait();
  }
  int64_t wrong = 0;
  wrong += !reduced.eq(sum).all().item<bool>();
  wrong += !own.eq(sum).all().item<bool>();
  wrong += !cast.equal(of(root, 2));
  wrong += !received.equal(of(previous, 3));
  for (int64_t other = 0; other < size; ++other)
    wrong += !gathered.narrow(0, other * width, width).equal(of(other, 4));
  return wrong;
}

TEST(Races, AThousandRoundsOfAllCallsWithRandomDelays) {
  for (const int64_t size : {2, 3, 7}) {
    std::atomic<int64_t> wrong = 0;
    on_ranks(size, [&](Communicator& world) {
      std::mt19937_64 delays(static_cast<uint64_t>(world.rank()) + 99);
      for (uint64_t round = 0; round < 1000; ++round) wrong += random_round(world, round, delays);
    });
    EXPECT_EQ(wrong, 0) << size << " ranks";
  }
}

// Large enough for many pieces, which all waiting ranks share.
TEST(Races, PiecesAreSharedByThoseWhoWait) {
  for (const int64_t size : {2, 4}) {
    const std::vector<double> expected = plain_sums(size, {600001}, at::kBFloat16);
    for (int round = 0; round < 3; ++round) {
      on_ranks(size, [&](Communicator& world) {
        const Tensor values = values_of(world.rank(), {600001}, at::kBFloat16);
        world.all_reduce(values, Reduction::kSum, {"values"}).wait();
        EXPECT_EQ(numbers(values), expected);
      });
    }
  }
}

}  // namespace
}  // namespace longhaul::comm
