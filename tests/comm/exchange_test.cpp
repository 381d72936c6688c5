// Sends and receives: pipelines, rings, messages in order, and messages that find no partner or not the right
// one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>

#include "comm/ranks.h"

namespace longhaul::comm {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

Tensor filled(double value, std::vector<int64_t> sizes = {4}) { return at::full(sizes, value); }

TEST(Exchange, ARingTurns) {
  for (const int64_t size : kGroupSizes) {
    on_ranks(size, [&](Communicator& world) {
      Tensor here = filled(static_cast<double>(world.rank()));
      for (int64_t turn = 1; turn <= 2 * size; ++turn) {
        const Tensor there = filled(-1);
        const int64_t next = (world.rank() + 1) % size, previous = (world.rank() + size - 1) % size;
        world.exchange({receive_from(previous, there), send_to(next, here)}, {"turn"}).wait();
        here = there;
        EXPECT_EQ(numbers(here),
                  std::vector<double>(4, static_cast<double>((world.rank() + turn * (size - 1)) % size)));
      }
    });
  }
}

// As a pipeline does: only neighbours take part, in both directions, and sends are under way while the rank
// goes on.
TEST(Exchange, APipelineOfNeighbours) {
  constexpr int64_t kStages = 4, kBatches = 20;
  on_ranks(kStages, [&](Communicator& world) {
    const int64_t stage = world.rank();
    std::vector<Work> sends;
    std::vector<Tensor> backward;
    for (int64_t batch = 0; batch < kBatches; ++batch) {
      Tensor hidden = filled(static_cast<double>(batch * 10));
      if (stage > 0) world.exchange({receive_from(stage - 1, hidden)}, {"forward"}).wait();
      EXPECT_EQ(numbers(hidden), std::vector<double>(4, static_cast<double>(batch * 10 + stage)));
      if (stage + 1 < kStages) sends.push_back(world.exchange({send_to(stage + 1, hidden + 1)}, {"forward"}));
    }
    for (int64_t batch = 0; batch < kBatches; ++batch) {
      const Tensor gradient = filled(static_cast<double>(batch), {2, 1});
      if (stage + 1 < kStages) world.exchange({receive_from(stage + 1, gradient)}, {"backward"}).wait();
      EXPECT_EQ(numbers(gradient), std::vector<double>(2, static_cast<double>(batch + kStages - 1 - stage)));
      if (stage > 0) sends.push_back(world.exchange({send_to(stage - 1, gradient + 1)}, {"backward"}));
    }
    for (Work& send : sends) send.wait();
  });
}

// The n-th sent is the n-th received, in whichever exchange it stands, and however it crosses with collective
// calls.
TEST(Exchange, MessagesKeepTheirOrder) {
  on_ranks(3, [](Communicator& world) {
    if (world.rank() == 0) {
      Work some = world.exchange({send_to(2, filled(1)), send_to(2, filled(2))}, {"some"});
      Work more = world.exchange({send_to(2, filled(3))}, {"more"});
      world.barrier({"between"}).wait();
      some.wait();
      more.wait();
    } else if (world.rank() == 1) {
      world.barrier({"between"}).wait();
      world.exchange({}, {"nothing"}).wait();
    } else {
      const Tensor first = filled(0), second = filled(0), third = filled(0);
      world.exchange({receive_from(0, first)}, {"first"}).wait();
      Work rest = world.exchange({receive_from(0, second), receive_from(0, third)}, {"rest"});
      world.barrier({"between"}).wait();
      rest.wait();
      EXPECT_EQ(numbers(at::stack({first, second, third}).select(1, 0)), (std::vector<double>{1, 2, 3}));
    }
  });
}

TEST(Exchange, BothDirectionsAtOnceAndToOneself) {
  on_ranks(2, [](Communicator& world) {
    const int64_t other = 1 - world.rank();
    const Tensor mine = filled(static_cast<double>(world.rank() + 5)), theirs = filled(0), own = filled(0),
                 empty = at::empty({0, 3});
    world
        .exchange(
            {send_to(other, mine), receive_from(other, theirs), send_to(world.rank(), mine),
             receive_from(world.rank(), own), send_to(other, at::empty({0, 3})), receive_from(other, empty)},
            {"all"})
        .wait();
    EXPECT_EQ(numbers(theirs), std::vector<double>(4, static_cast<double>(other + 5)));
    EXPECT_TRUE(own.equal(mine));
  });
}

TEST(Exchange, EveryDtypeAndLength) {
  for (const ScalarType type :
       {at::kBFloat16, at::kFloat, at::kDouble, at::kLong, at::kBool, at::kComplexDouble}) {
    for (const int64_t length : {1, 17, 300001}) {
      on_ranks(2, [&](Communicator& world) {
        const Tensor tensor =
            world.rank() == 0 ? values_of(0, {length}, at::kDouble).to(type) : at::zeros({length}, type);
        world.exchange({world.rank() == 0 ? send_to(1, tensor) : receive_from(0, tensor)}, {"message"})
            .wait();
        EXPECT_TRUE(tensor.equal(values_of(0, {length}, at::kDouble).to(type)));
      });
    }
  }
}

TEST(Exchange, ASendIsNotDoneBeforeItIsReceived) {
  std::latch checked(1);
  on_ranks(2, [&](Communicator& world) {
    if (world.rank() == 0) {
      Work send = world.exchange({send_to(1, filled(3))}, {"message"});
      EXPECT_FALSE(send.done());
      checked.count_down();
      send.wait();
      EXPECT_TRUE(send.done());
    } else {
      checked.wait();
      const Tensor got = filled(0);
      world.exchange({receive_from(0, got)}, {"message"}).wait();
      EXPECT_EQ(numbers(got), std::vector<double>(4, 3));
    }
  });
}

TEST(ExchangeErrors, AMessageOfAnotherShapeOrDtype) {
  for (const Tensor& expected : {at::zeros({2, 2}), at::zeros({4}, at::kBFloat16)}) {
    const auto errors = errors_of(3, [&](Communicator& world) {
      if (world.rank() == 0) world.exchange({send_to(2, filled(1))}, {"forward"}).wait();
      if (world.rank() == 2) world.exchange({receive_from(0, expected)}, {"input"}).wait();
      world.barrier({"end"}).wait();
    });
    EXPECT_THAT(errors, Each(AllOf(HasSubstr("a message of 'world' does not fit"),
                                   HasSubstr("rank 0 sends fp32 [4] in exchange 'forward' (exchange 0)"),
                                   HasSubstr("rank 2 receives " + describe(expected) +
                                             " in exchange 'input' (exchange 0)"))));
  }
}

// Rank 0 sends to 1, which listens to 2: only time tells, and then the two are named.
TEST(ExchangeErrors, PeersThatDoNotMatchRunOutOfTime) {
  const auto errors = errors_of(3, [](Communicator& world) {
    const CallOptions options{.name = "forward", .timeout = Timeout(30)};
    if (world.rank() == 0) world.exchange({send_to(1, filled(1))}, options).wait();
    if (world.rank() == 1) world.exchange({receive_from(2, filled(1))}, options).wait();
    world.barrier({"end"}).wait();
  });
  EXPECT_THAT(
      errors,
      Each(AllOf(HasSubstr("waited too long"), HasSubstr("a partner for every message within 30 ms"),
                 HasSubstr("rank 0 sends fp32 [4] to rank 1 in exchange 'forward' (exchange 0)"),
                 HasSubstr("rank 1 receives fp32 [4] from rank 2 in exchange 'forward' (exchange 0)"))));
}

// Before its message is posted, and while it waits.
TEST(ExchangeErrors, APeerThatLeaves) {
  for (const bool sends : {true, false}) {
    for (const bool early : {true, false}) {
      std::latch left(1), waiting(1);
      const auto errors = errors_of(2, [&](Communicator& world) {
        auto group = std::move(world.split({{"pair", {{0, 1}}}}).front());
        if (world.rank() == 1) {
          if (!early) waiting.wait();
          group.reset();
          return left.count_down();
        }
        if (early) left.wait();
        Work work =
            group->exchange({sends ? send_to(1, filled(1)) : receive_from(1, filled(1))}, {"message"});
        waiting.count_down();
        work.wait();
      });
      EXPECT_THAT(errors[0], AllOf(HasSubstr("rank 1 has left 'pair 0' while others need it"),
                                   HasSubstr("exchange 'message' (exchange 0)")));
      EXPECT_EQ(errors[1], "");
    }
  }
}

TEST(ExchangeErrors, WhatMakesNoSenseIsRefusedWhereItIsSaid) {
  on_ranks(2, [](Communicator& world) {
    const Tensor both = filled(1);
    EXPECT_THROW((void)world.exchange({send_to(2, filled(1))}, {"nobody"}), Error);
    EXPECT_THROW((void)world.exchange({send_to(0, both), receive_from(0, both)}, {"same memory"}), Error);
    EXPECT_THROW((void)world.exchange({send_to(0, at::zeros({2, 3}).t())}, {"strided"}), Error);
    EXPECT_THROW((void)world.exchange({send_to(0, Tensor())}, {"none"}), Error);
    world.barrier({"still well"}).wait();
  });
}

}  // namespace
}  // namespace longhaul::comm
