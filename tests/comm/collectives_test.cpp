// Every collective call against sums and permutations made by loops here, for groups of several sizes and
// every dtype.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <limits>

#include "comm/ranks.h"

namespace longhaul::comm {
namespace {

using ::testing::ElementsAre;
using Rows = std::vector<int64_t>;

class Collectives : public ::testing::TestWithParam<std::tuple<int64_t, ScalarType>> {
 protected:
  int64_t size_ = std::get<0>(GetParam());
  ScalarType type_ = std::get<1>(GetParam());

  int64_t first(const Rows& rows, int64_t rank) const {
    return std::accumulate(rows.begin(), rows.begin() + rank, int64_t{0});
  }
  int64_t total(const Rows& rows) const { return first(rows, size_); }
  Rows even(int64_t rows) const { return Rows(static_cast<size_t>(size_), rows); }
};

TEST_P(Collectives, AllReduceSums) {
  for (const Rows& sizes : std::vector<Rows>{{}, {0, 3}, {5, 3}, {70001}}) {
    const std::vector<double> expected = plain_sums(size_, sizes, type_);
    on_ranks(size_, [&](Communicator& world) {
      const Tensor values = values_of(world.rank(), sizes, type_);
      world.all_reduce(values, Reduction::kSum, {"values"}).wait();
      EXPECT_EQ(numbers(values), expected) << "rank " << world.rank();
    });
  }
}

TEST_P(Collectives, AllReduceFindsMaxima) {
  std::vector<double> expected = numbers(values_of(0, {5, 3}, type_));
  for (int64_t rank = 1; rank < size_; ++rank) {
    const std::vector<double> other = numbers(values_of(rank, {5, 3}, type_));
    for (size_t i = 0; i < other.size(); ++i) expected[i] = std::max(expected[i], other[i]);
  }
  on_ranks(size_, [&](Communicator& world) {
    const Tensor values = values_of(world.rank(), {5, 3}, type_);
    world.all_reduce(values, Reduction::kMax, {"values"}).wait();
    EXPECT_EQ(numbers(values), expected);
  });
}

TEST_P(Collectives, ReduceScatterGivesEachRankItsRows) {
  for (const auto& [given, rows] :
       {std::pair(Rows{}, even(2)), std::pair(uneven_rows(size_), uneven_rows(size_)),
        std::pair(even(0), even(0))}) {
    const std::vector<double> sums = plain_sums(size_, {total(rows), 3}, type_);
    on_ranks(size_, [&, &given = given, &rows = rows](Communicator& world) {
      const int64_t own = rows[static_cast<size_t>(world.rank())];
      const Tensor input = values_of(world.rank(), {total(rows), 3}, type_);
      const Tensor output = at::full({own, 3}, 77, type_);
      world.reduce_scatter(input, output, Reduction::kSum, {"rows"}, given).wait();
      EXPECT_EQ(numbers(output), part(sums, first(rows, world.rank()) * 3, own * 3));
      EXPECT_TRUE(input.equal(values_of(world.rank(), {total(rows), 3}, type_)))
          << "the input was written to";
    });
  }
}

TEST_P(Collectives, ReduceScatterInPlace) {
  const Rows rows = uneven_rows(size_);
  const std::vector<double> sums = plain_sums(size_, {total(rows), 3}, type_);
  on_ranks(size_, [&](Communicator& world) {
    const int64_t own = rows[static_cast<size_t>(world.rank())];
    const Tensor input = values_of(world.rank(), {total(rows), 3}, type_);
    const Tensor output = input.narrow(0, first(rows, world.rank()), own);
    world.reduce_scatter(input, output, Reduction::kSum, {"rows"}, rows).wait();
    EXPECT_EQ(numbers(output), part(sums, first(rows, world.rank()) * 3, own * 3));
  });
}

TEST_P(Collectives, AllGatherPutsRowsInTheOrderOfRanks) {
  for (const auto& [given, rows] :
       {std::pair(Rows{}, even(2)), std::pair(uneven_rows(size_), uneven_rows(size_)),
        std::pair(even(0), even(0))}) {
    std::vector<double> expected;
    for (int64_t rank = 0; rank < size_; ++rank) {
      const std::vector<double> its = numbers(values_of(rank, {rows[static_cast<size_t>(rank)], 2}, type_));
      expected.insert(expected.end(), its.begin(), its.end());
    }
    on_ranks(size_, [&, &given = given, &rows = rows](Communicator& world) {
      const int64_t own = rows[static_cast<size_t>(world.rank())];
      const Tensor output = at::full({total(rows), 2}, 77, type_);
      world.all_gather(values_of(world.rank(), {own, 2}, type_), output, {"rows"}, given).wait();
      EXPECT_EQ(numbers(output), expected);
      // In place: the input is where it belongs.
      const Tensor whole = at::full({total(rows), 2}, 77, type_);
      const Tensor mine = whole.narrow(0, first(rows, world.rank()), own);
      mine.copy_(values_of(world.rank(), {own, 2}, type_));
      world.all_gather(mine, whole, {"rows in place"}, given).wait();
      EXPECT_EQ(numbers(whole), expected);
    });
  }
}

// From rank a to rank b go (a + 2b) mod 4 rows; nothing where that is 0.
TEST_P(Collectives, AllToAllSendsRowsWhereTheyBelong) {
  const auto count = [](int64_t from, int64_t to) { return (from + 2 * to) % 4; };
  const auto row = [](int64_t from, int64_t to) { return static_cast<double>(from * 10 + to); };
  on_ranks(size_, [&](Communicator& world) {
    Rows send, receive;
    std::vector<double> sent, expected;
    for (int64_t other = 0; other < size_; ++other) {
      send.push_back(count(world.rank(), other));
      receive.push_back(count(other, world.rank()));
      for (int64_t i = 0; i < send.back(); ++i)
        sent.insert(sent.end(), {row(world.rank(), other), static_cast<double>(i)});
      for (int64_t i = 0; i < receive.back(); ++i)
        expected.insert(expected.end(), {row(other, world.rank()), static_cast<double>(i)});
    }
    const Tensor input = at::tensor(at::ArrayRef<double>(sent), at::kDouble).view({-1, 2}).to(type_);
    const Tensor output = at::full({static_cast<int64_t>(expected.size()) / 2, 2}, 77, type_);
    world.all_to_all(input, output, send, receive, {"rows"}).wait();
    EXPECT_EQ(numbers(output), expected);
  });
}

TEST_P(Collectives, BroadcastFromEveryRoot) {
  on_ranks(size_, [&](Communicator& world) {
    for (int64_t root = 0; root < size_; ++root) {
      const Tensor values = values_of(world.rank(), {70001}, type_);
      world.broadcast(values, root, {"values"}).wait();
      EXPECT_TRUE(values.equal(values_of(root, {70001}, type_))) << "root " << root;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Groups, Collectives,
                         ::testing::Combine(::testing::ValuesIn(kGroupSizes),
                                            ::testing::Values(at::kBFloat16, at::kFloat, at::kDouble,
                                                              at::kLong)),
                         [](const auto& combination) {
                           return fmt::format("{}ranks_{}", std::get<0>(combination.param),
                                              name_of(std::get<1>(combination.param)));
                         });

TEST(CollectivesMore, EveryDtypeIsMoved) {
  for (const ScalarType type : {at::kBool, at::kByte, at::kChar, at::kShort, at::kInt, at::kHalf, at::kUInt16,
                                at::kComplexFloat, at::kFloat8_e4m3fn}) {
    on_ranks(3, [&](Communicator& world) {
      const auto of = [&](int64_t rank) { return at::full({2, 3}, rank % 2 + 1, at::kFloat).to(type); };
      const Tensor all = at::zeros({6, 3}, at::kFloat).to(type);
      world.all_gather(of(world.rank()), all, {"all"}).wait();
      const Tensor turned = at::zeros({6, 3}, at::kFloat).to(type);
      world.all_to_all(all, turned, {2, 2, 2}, {2, 2, 2}, {"turned"}).wait();
      const Tensor one = of(world.rank());
      world.broadcast(one, 1, {"one"}).wait();
      const auto bytes = [](const Tensor& tensor) { return tensor.view(at::kByte); };
      for (int64_t rank = 0; rank < 3; ++rank) {
        EXPECT_TRUE(bytes(all.narrow(0, rank * 2, 2)).equal(bytes(of(rank)))) << name_of(type);
        EXPECT_TRUE(bytes(turned.narrow(0, rank * 2, 2)).equal(bytes(of(world.rank())))) << name_of(type);
      }
      EXPECT_TRUE(bytes(one).equal(bytes(of(1)))) << name_of(type);
    });
  }
}

TEST(CollectivesMore, SmallIntegersAndTruths) {
  on_ranks(3, [](Communicator& world) {
    const Tensor wraps = at::full({2}, 100, at::kChar);  // 300 − 256
    world.all_reduce(wraps, Reduction::kSum, {"wraps"}).wait();
    EXPECT_EQ(numbers(wraps), (std::vector<double>{44, 44}));
    const Tensor any = at::zeros({3}, at::kBool);
    any[world.rank()] = world.rank() != 1;
    world.all_reduce(any, Reduction::kMax, {"any"}).wait();
    EXPECT_EQ(numbers(any), (std::vector<double>{1, 0, 1}));
  });
}

// 256 + 1 is 256 in bf16: only a sum that is rounded once gets to 259, of which bf16 makes 260.
TEST(CollectivesMore, Bf16SumsAreRoundedOnce) {
  on_ranks(4, [](Communicator& world) {
    const Tensor value = at::full({1}, world.rank() == 0 ? 256 : 1, at::kBFloat16);
    world.all_reduce(value, Reduction::kSum, {"value"}).wait();
    EXPECT_EQ(numbers(value), std::vector<double>{260});
    const Tensor rows = at::full({4}, world.rank() == 0 ? 256 : 1, at::kBFloat16),
                 own = at::empty({1}, at::kBFloat16);
    world.reduce_scatter(rows, own, Reduction::kSum, {"rows"}).wait();
    EXPECT_EQ(numbers(own), std::vector<double>{260});
  });
}

// Every bf16 number plus numbers around half of its last bit, against LibTorch's rounding; NaN and infinities
// among them.
TEST(CollectivesMore, Bf16SumsAreRoundedAsLibTorchRounds) {
  std::vector<at::BFloat16> every;
  for (uint32_t bits = 0; bits < 0x10000; ++bits)
    every.emplace_back(static_cast<uint16_t>(bits), at::BFloat16::from_bits());
  const Tensor all = at::from_blob(every.data(), {0x10000}, at::kBFloat16);
  on_ranks(2, [&](Communicator& world) {
    for (const double part : {0.0, 0.001953125, 0.00390625, 0.0078125, -0.00390625}) {
      const Tensor other = (all.to(at::kFloat) * part).to(at::kBFloat16);
      const Tensor expected = (all.to(at::kFloat) + other.to(at::kFloat)).to(at::kBFloat16);
      const Tensor sum = world.rank() == 0 ? all.clone() : other.clone();
      world.all_reduce(sum, Reduction::kSum, {"sum"}).wait();
      EXPECT_TRUE(at::equal(sum.isnan(), expected.isnan()));
      EXPECT_TRUE(at::equal(sum.nan_to_num(7), expected.nan_to_num(7))) << part;
    }
  });
}

TEST(CollectivesMore, TheMaximumShowsNan) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const ScalarType type : {at::kBFloat16, at::kHalf, at::kFloat, at::kDouble}) {
    for (int64_t sick = 0; sick < 3; ++sick) {
      on_ranks(3, [&](Communicator& world) {
        const Tensor values = at::full({2}, static_cast<double>(world.rank()), type);
        if (world.rank() == sick) values[1] = kNan;
        world.all_reduce(values, Reduction::kMax, {"values"}).wait();
        EXPECT_THAT(numbers(values), ElementsAre(2.0, ::testing::NanSensitiveDoubleEq(kNan)));
      });
    }
  }
}

// In fp32 (1e8 + 1) − 1e8 + 1 is 1, and any order that adds 1e8 and −1e8 first gives 2.
TEST(CollectivesMore, SumsAreTakenInTheOrderOfRanksWhoeverComesFirst) {
  const float terms[] = {1e8F, 1, -1e8F, 1};
  std::vector<int64_t> order = {0, 1, 2, 3};
  do {
    std::atomic<size_t> turn = 0;
    on_ranks(4, [&](Communicator& world) {
      const Tensor all = at::full({5}, terms[world.rank()]), rows = at::full({4}, terms[world.rank()]),
                   own = at::zeros({1});
      while (order[turn] != world.rank()) std::this_thread::yield();
      Work first = world.all_reduce(all, Reduction::kSum, {"all"});
      Work second = world.reduce_scatter(rows, own, Reduction::kSum, {"rows"});
      ++turn;
      first.wait();
      second.wait();
      EXPECT_EQ(numbers(all), std::vector<double>(5, 1));
      EXPECT_EQ(numbers(own), std::vector<double>{1});
    });
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(CollectivesMore, ABarrierIsPassedWhenAllHaveCome) {
  for (const int64_t size : kGroupSizes) {
    std::atomic<int64_t> come = 0;
    on_ranks(size, [&](Communicator& world) {
      for (int64_t round = 1; round <= 50; ++round) {
        ++come;
        world.barrier({"all"}).wait();
        EXPECT_GE(come, round * size);
        world.barrier({"again"}).wait();
      }
    });
  }
}

}  // namespace
}  // namespace longhaul::comm
