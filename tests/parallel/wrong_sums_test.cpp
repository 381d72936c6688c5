// ctest: label=fast timeout=60
#include "parallel/checked_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/threads/run_ranks.h"
#include "comm/wrappers/faulty.h"

namespace longhaul::parallel {
namespace {

TEST(CheckedSums, BlocksOfRunsAddUp) {
  const Tensor numbers = at::arange(0, 5000, at::kFloat) - 10;
  const Tensor sums = block_sums(numbers, std::vector<int64_t>{4100, 0, 900});
  ASSERT_EQ(sums.size(1), 3);  // 4096 and 4; none; 900
  const auto sum = [](int64_t from, int64_t to) {
    return static_cast<double>(to - from) * (static_cast<double>(from + to - 1) / 2 - 10);
  };
  EXPECT_DOUBLE_EQ(sums[0][0].item<double>(), sum(0, 4096));
  EXPECT_DOUBLE_EQ(sums[0][1].item<double>(), sum(4096, 4100));
  EXPECT_DOUBLE_EQ(sums[0][2].item<double>(), sum(4100, 5000));
  EXPECT_DOUBLE_EQ(sums[1][0].item<double>(), sum(0, 4096) + 2 * 55);  // −10 … −1
}

// Rows of different length for each rank, fp32 and bf16, sums that cancel: none is called wrong.
TEST(CheckedSums, WhatIsRightIsNotCalledWrong) {
  for (const ScalarType type : {at::kFloat, at::kBFloat16, at::kDouble}) {
    comm::run_ranks(3, [&](comm::Communicator& world) {
      CheckedSums check;
      at::manual_seed(world.rank());
      const Tensor numbers = at::randn({10'000}).to(type);
      started_sum(world, numbers, numbers, {}, {.name = "all"}).wait();
      const std::vector<int64_t> rows{5000, 0, 5000};
      const Tensor from = at::randn({10'000}).to(type),
                   own = at::empty({rows[static_cast<size_t>(world.rank())]}, from.options());
      started_sum(world, from, own, rows, {.name = "shares"}).wait();
      EXPECT_EQ(check.checked(), 2);
      EXPECT_FALSE(check.wrong()) << *check.wrong();
    });
  }
}

TEST(CheckedSums, ABitThatFlipsInAMessageShowsWhereItArrived) {
  comm::run_ranks(2, [](comm::Communicator& world) {
    std::vector<comm::Fault> faults;
    if (world.rank() == 1)
      faults.push_back(
          {.group = "world", .call = 0, .kind = comm::Fault::Kind::kCorrupt, .bit = 32 * 77 + 30});
    comm::Faulty faulty(comm::borrowed(world), faults);
    CheckedSums check;
    const Tensor numbers = at::full({9000}, 0.5, at::kFloat);
    started_sum(faulty, numbers, numbers, {}, {.name = "gradients"}).wait();
    EXPECT_EQ(check.wrong().has_value(), world.rank() == 1);
    EXPECT_THAT(check.wrong().value_or(world.rank() == 1 ? "" : "'gradients' over 2 ranks is off by"),
                ::testing::HasSubstr("'gradients' over 2 ranks is off by"));
  });
}

// Of 4,096 ones whose parts on two ranks are halves rounding may leave 2 · 2⁻²⁴ · 4,096 = 2⁻¹¹: a bit of a
// one that is worth twice that is found, one of half of it is not.
TEST(CheckedSums, TheBoundIsWhatRoundingMayLeave) {
  for (const auto& [bit, found] : {std::pair{13, true}, {11, false}}) {
    comm::run_ranks(2, [&](comm::Communicator& world) {
      comm::Faulty faulty(
          comm::borrowed(world),
          {{.group = "world", .call = 0, .kind = comm::Fault::Kind::kCorrupt, .bit = 32 * 5 + bit}});
      CheckedSums check;
      const Tensor numbers = at::full({kSumBlock}, 0.5, at::kFloat);
      started_sum(faulty, numbers, numbers, {}, {.name = "gradients"}).wait();
      EXPECT_EQ(check.wrong().has_value(), found) << "bit " << bit;
      if (found) {
        EXPECT_THAT(*check.wrong(), ::testing::HasSubstr("is off by 2 times what rounding may leave"));
      }
    });
  }
}

TEST(CheckedSums, WithoutOneNothingIsAdded) {
  comm::run_ranks(2, [](comm::Communicator& world) {
    const Tensor numbers = at::ones({3}, at::kFloat);
    started_sum(world, numbers, numbers, {}, {.name = "plain"}).wait();
    EXPECT_EQ(numbers[0].item<float>(), 2);
  });
}

}  // namespace
}  // namespace longhaul::parallel
