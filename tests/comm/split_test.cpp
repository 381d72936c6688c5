// Groups within a group: who is where, and many of them used at the same time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "comm/ranks.h"

namespace longhaul::comm {
namespace {

using layout::GroupKind;

// The sum of the ranks of the world in a list.
double sum_of(const std::vector<int64_t>& ranks) {
  return static_cast<double>(std::accumulate(ranks.begin(), ranks.end(), int64_t{0}));
}

double sum_over(Communicator& group, int64_t value) {
  const Tensor sum = at::full({1}, value, at::kDouble);
  group.all_reduce(sum, Reduction::kSum, {"sum"}).wait();
  return sum.item<double>();
}

TEST(Split, RanksStandInTheOrderOfTheirLists) {
  on_ranks(7, [](Communicator& world) {
    const std::vector<GroupKind> kinds = {
        {"odd one", {{6, 1}, {0, 2, 3}, {5}}}, {"none", {}}, {"all", {{6, 5, 4, 3, 2, 1, 0}}}};
    const auto groups = world.split(kinds);
    ASSERT_EQ(groups.size(), 3u);
    EXPECT_EQ(groups[1], nullptr);
    EXPECT_EQ(groups[2]->rank(), 6 - world.rank());
    EXPECT_EQ(groups[2]->size(), 7);
    EXPECT_EQ(groups[2]->name(), "all 0");
    EXPECT_EQ(groups[0] == nullptr, world.rank() == 4);
    if (!groups[0]) return;
    for (size_t number = 0; number < 3; ++number) {
      const std::vector<int64_t>& list = kinds[0].groups[number];
      const auto place = std::find(list.begin(), list.end(), world.rank());
      if (place == list.end()) continue;
      EXPECT_EQ(groups[0]->name(), fmt::format("odd one {}", number));
      EXPECT_EQ(groups[0]->rank(), place - list.begin());
      EXPECT_EQ(groups[0]->size(), static_cast<int64_t>(list.size()));
      EXPECT_EQ(sum_over(*groups[0], world.rank()), sum_of(list));
      const Tensor gathered = at::empty({groups[0]->size()}, at::kLong);
      groups[0]->all_gather(at::full({1}, world.rank(), at::kLong), gathered, {"who"}).wait();
      EXPECT_EQ(std::vector<int64_t>(gathered.const_data_ptr<int64_t>(),
                                     gathered.const_data_ptr<int64_t>() + gathered.numel()),
                list);
    }
  });
}

TEST(Split, AllGroupsOfAMeshAtOnce) {
  const layout::Mesh mesh(12, {.pp = 3, .tp = 2, .ep = 2});
  const std::vector<GroupKind> kinds = mesh.group_kinds();
  on_ranks(12, [&](Communicator& world) {
    const auto groups = world.split(mesh.group_kinds());
    for (size_t kind = 0; kind < kinds.size(); ++kind) {
      std::vector<int64_t> own;
      for (const auto& list : kinds[kind].groups) {
        if (std::find(list.begin(), list.end(), world.rank()) != list.end()) own = list;
      }
      ASSERT_EQ(groups[kind] == nullptr, own.empty()) << kinds[kind].name;
      if (own.empty()) continue;
      EXPECT_EQ(sum_over(*groups[kind], world.rank()), sum_of(own)) << kinds[kind].name;
    }
    world.barrier({"end"}).wait();
  });
}

TEST(Split, AGroupOfAGroup) {
  on_ranks(6, [](Communicator& world) {
    const auto halves = world.split({{"half", {{0, 1, 2}, {3, 4, 5}}}});
    const auto ends = halves[0]->split({{"ends", {{0, 2}}}});
    EXPECT_EQ(ends[0] == nullptr, world.rank() % 3 == 1);
    if (!ends[0]) return;
    EXPECT_EQ(sum_over(*ends[0], world.rank()), world.rank() < 3 ? 2 : 8);
  });
}

// Rows and columns of a grid, both under way at once, with exchanges and the world beside them.
TEST(Split, GroupsAreUsedAtTheSameTime) {
  for (int repeat = 0; repeat < 3; ++repeat) {
    std::atomic<int64_t> wrong = 0;
    on_ranks(6, [&](Communicator& world) {
      std::mt19937_64 delays(static_cast<uint64_t>(world.rank() + 10 * repeat));
      const auto groups =
          world.split({{"row", {{0, 1, 2}, {3, 4, 5}}}, {"column", {{0, 3}, {1, 4}, {2, 5}}}});
      Communicator &row = *groups[0], &column = *groups[1];
      for (int64_t round = 0; round < 1000; ++round) {
        const double me = static_cast<double>(world.rank() + round);
        const Tensor in_row = at::full({3}, me), in_column = at::full({4}, me), in_world = at::full({2}, me),
                     got = at::zeros({1});
        std::vector<Work> works;
        dawdle(delays);
        if (round % 2 == 0) works.push_back(row.all_reduce(in_row, Reduction::kSum, {"row"}));
        works.push_back(column.all_reduce(in_column, Reduction::kSum, {"column"}));
        dawdle(delays);
        if (round % 2 == 1) works.push_back(row.all_reduce(in_row, Reduction::kSum, {"row"}));
        if (round % 7 == 0) works.push_back(world.all_reduce(in_world, Reduction::kSum, {"world"}));
        works.push_back(column.exchange(
            {send_to(1 - column.rank(), at::full({1}, me)), receive_from(1 - column.rank(), got)}, {"pair"}));
        for (Work& work : works) {
          dawdle(delays);
          work.wait();
        }
        const double first_of_row = static_cast<double>(world.rank() / 3 * 3),
                     first_of_column = static_cast<double>(world.rank() % 3);
        wrong += !in_row.eq(3 * first_of_row + 3 + 3 * static_cast<double>(round)).all().item<bool>();
        wrong += !in_column.eq(2 * first_of_column + 3 + 2 * static_cast<double>(round)).all().item<bool>();
        wrong += got.item<double>() != static_cast<double>((world.rank() + 3) % 6 + round);
        if (round % 7 == 0) wrong += !in_world.eq(15 + 6 * static_cast<double>(round)).all().item<bool>();
      }
    });
    EXPECT_EQ(wrong, 0);
  }
}

TEST(Split, AFailureInOneGroupReachesAll) {
  const auto errors = errors_of(4, [](Communicator& world) {
    const auto pairs = world.split({{"pair", {{0, 1}, {2, 3}}}});
    if (world.rank() == 0) pairs[0]->barrier({"here"}).wait();
    if (world.rank() == 1) pairs[0]->barrier({"there"}).wait();
    if (world.rank() >= 2) world.barrier({"world"}).wait();
  });
  EXPECT_THAT(errors, ::testing::Each(::testing::HasSubstr("ranks disagree about call 0 of 'pair 0'")));
}

}  // namespace
}  // namespace longhaul::comm
