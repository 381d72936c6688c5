// Threads as ranks: whose exception comes out, and what a rank's thread is like.
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include <atomic>
#include <barrier>
#include <latch>
#include <mutex>
#include <set>
#include <stdexcept>

#include "base/threads/parallel.h"
#include "comm/ranks.h"

namespace longhaul::comm {
namespace {

using ::testing::HasSubstr;

TEST(RunRanks, EveryRankOnceInAThreadOfItsOwn) {
  for (const int64_t size : kGroupSizes) {
    std::mutex mutex;
    std::set<int64_t> ranks;
    std::set<std::thread::id> threads = {std::this_thread::get_id()};
    run_ranks(size, [&](Communicator& world) {
      const std::lock_guard lock(mutex);
      EXPECT_EQ(world.size(), size);
      EXPECT_EQ(world.name(), "world");
      ranks.insert(world.rank());
      threads.insert(std::this_thread::get_id());
    });
    EXPECT_EQ(ranks.size(), static_cast<size_t>(size));
    EXPECT_EQ(threads.size(), static_cast<size_t>(size) + 1);
  }
}

// One hangs where no call is: the others have named it long before somebody is told that its thread is still
// there.
TEST(RunRanks, ARankThatHangsBetweenCallsIsTold) {
  std::latch freed(1);
  std::vector<int64_t> told;
  std::string why;
  const StuckRanks stuck{.patience = Timeout(1000),
                         .end = [&](const std::vector<int64_t>& ranks, const std::exception_ptr& failure) {
                           told = ranks;
                           try {
                             std::rethrow_exception(failure);
                           } catch (const Error& error) {
                             why = error.what();
                           }
                           freed.count_down();
                         }};
  const auto body = [&](Communicator& world) {
    world.barrier({"start"}).wait();
    if (world.rank() == 1) freed.wait();
    world.barrier({"end"}).wait();
  };
  EXPECT_THROW(run_ranks(3, body, {.timeout = Timeout(1000)}, stuck), Error);
  EXPECT_EQ(told, std::vector<int64_t>{1});
  EXPECT_THAT(why, HasSubstr("barrier 'end' (call 1) of 'world' waited too long"));
  EXPECT_THAT(why, HasSubstr("rank 1 has not come: it has made 1 calls, the last barrier 'start' (call 0)"));
}

// Nobody is told of ranks that end by themselves, be it late.
TEST(RunRanks, ARankThatComesBackIsWaitedFor) {
  const StuckRanks stuck{.patience = std::chrono::seconds(20),
                         .end = [](const auto&, const auto&) { ADD_FAILURE() << "it was on its way"; }};
  std::latch given_up(2);
  const auto comes_too_late = [&](Communicator& world) {
    if (world.rank() == 1) given_up.wait();
    try {
      world.barrier({"end"}).wait();
    } catch (const Error&) {
      if (world.rank() != 1) given_up.count_down();
      throw;
    }
  };
  EXPECT_THROW(run_ranks(3, comes_too_late, {.timeout = Timeout(100)}, stuck), Error);
  const auto comes_late = [](Communicator& world) {
    if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    world.barrier({"end"}).wait();
  };
  EXPECT_NO_THROW(run_ranks(3, comes_late, {.timeout = Timeout(20000)}, stuck));
}

TEST(RunRanks, AnExceptionComesOutAndNobodyWaitsForItsRank) {
  for (int64_t thrower = 0; thrower < 3; ++thrower) {
    std::atomic<int> aborted = 0;
    try {
      run_ranks(3, [&](Communicator& world) {
        if (world.rank() == thrower) throw std::out_of_range("no such layer");
        try {
          world.barrier({"end"}).wait();
        } catch (const Aborted& error) {
          EXPECT_THAT(error.what(), HasSubstr("no such layer"));
          EXPECT_THAT(error.what(), HasSubstr(fmt::format("rank {} of 'world' aborted", thrower)));
          ++aborted;
          throw;
        }
      });
      FAIL();
    } catch (const std::out_of_range& error) {
      EXPECT_STREQ(error.what(), "no such layer");
    }
    EXPECT_EQ(aborted, 2);
  }
}

// Its groups go first, while the exception is on its way: the others still end, and it is this exception that
// is told.
TEST(RunRanks, AnExceptionBesideGroups) {
  for (int64_t thrower = 0; thrower < 4; ++thrower) {
    EXPECT_THROW(run_ranks(4,
                           [&](Communicator& world) {
                             const auto pairs = world.split({{"pair", {{0, 1}, {2, 3}}}});
                             if (world.rank() == thrower) throw std::length_error("too long");
                             pairs[0]->barrier({"pair"}).wait();
                             world.barrier({"world"}).wait();
                           }),
                 std::length_error);
  }
}

TEST(RunRanks, OfSeveralExceptionsThatOfTheFirstRank) {
  std::barrier together(3);
  try {
    run_ranks(3, [&](Communicator& world) {
      together.arrive_and_wait();
      if (world.rank() > 0) throw std::runtime_error(std::to_string(world.rank()));
    });
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "1");
  }
}

TEST(RunRanks, ADisagreementComesOut) {
  try {
    run_ranks(2, [](Communicator& world) { world.barrier({world.rank() == 0 ? "a" : "b"}).wait(); });
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kCommunication);
    EXPECT_THAT(error.what(), HasSubstr("rank 0: barrier 'a'; rank 1: barrier 'b'"));
  }
}

TEST(RunRanks, ARankThatEndsTooEarly) {
  EXPECT_THROW(run_ranks(2,
                         [](Communicator& world) {
                           if (world.rank() == 0) world.barrier({"end"}).wait();
                         }),
               Aborted);
}

TEST(RunRanks, RanksShareTheComputeThreads) {
  const int before = threads();
  set_threads(6);
  at::set_num_threads(6);
  for (const auto& [size, share] : {std::pair(2, 3), std::pair(4, 1), std::pair(7, 1)}) {
    run_ranks(size, [&, share = share](Communicator&) {
      EXPECT_EQ(threads(), share);
      EXPECT_EQ(at::get_num_threads(), share);
      (void)at::ones({100000}).add(1);  // LibTorch's first operator sets its own number
      EXPECT_EQ(threads(), share);
    });
    EXPECT_EQ(threads(), 6);
    EXPECT_EQ(at::get_num_threads(), 6);
  }
  set_threads(before);
  at::set_num_threads(before);
}

thread_local int64_t rank_of_this_thread = -1;

// A sum over ranks whose gradient is a sum over ranks: what parallel layers do.
class SumOverRanks : public torch::autograd::Function<SumOverRanks> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, Communicator* world) {
    context->saved_data["world"] = reinterpret_cast<int64_t>(world);
    const Tensor sum = x.clone();
    world->all_reduce(sum, Reduction::kSum, {"forward"}).wait();
    return sum;
  }
  static std::vector<Tensor> backward(torch::autograd::AutogradContext* context,
                                      const std::vector<Tensor>& gradients) {
    auto* world = reinterpret_cast<Communicator*>(context->saved_data["world"].toInt());
    EXPECT_EQ(rank_of_this_thread, world->rank());
    const Tensor sum = gradients[0].clone(at::MemoryFormat::Contiguous);
    world->all_reduce(sum, Reduction::kSum, {"backward"}).wait();
    return {sum, Tensor()};
  }
};

TEST(RunRanks, BackwardPassesCommunicateInTheirRanksThread) {
  run_ranks(3, [](Communicator& world) {
    rank_of_this_thread = world.rank();
    EXPECT_TRUE(at::GradMode::is_enabled());
    const Tensor x = at::full({4}, static_cast<double>(world.rank() + 1)).set_requires_grad(true);
    const Tensor y = SumOverRanks::apply(x, &world);
    EXPECT_EQ(numbers(y.detach()), std::vector<double>(4, 6));
    (y * static_cast<double>(world.rank() + 1)).sum().backward();
    EXPECT_EQ(numbers(x.grad()), std::vector<double>(4, 6));
  });
}

}  // namespace
}  // namespace longhaul::comm
