// Mesh: the groups written out by hand in the literature's examples, properties of random meshes, and
// refusals.
#include "layout/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "layout/random.h"

namespace longhaul::layout {
namespace {

using enum Axis;
using Groups = std::vector<std::vector<int64_t>>;

Groups runs(int64_t count, int64_t length) {  // [0..length-1][length..] …
  Groups groups;
  for (int64_t i = 0; i < count; ++i) {
    std::vector<int64_t>& group = groups.emplace_back(static_cast<size_t>(length));
    std::iota(group.begin(), group.end(), i * length);
  }
  return groups;
}

TEST(MeshGolden, SixteenRanks) {
  const Mesh mesh(16, {.pp = 2, .cp = 2, .tp = 2, .ep = 4});
  EXPECT_EQ(mesh.size(kDp), 2);
  EXPECT_EQ(mesh.size(kEdp), 2);
  EXPECT_EQ(mesh.groups({kTp}), runs(8, 2));
  EXPECT_EQ(mesh.groups({kCp}),
            (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}, {12, 14}, {13, 15}}));
  const Groups data = {{0, 4}, {1, 5}, {2, 6}, {3, 7}, {8, 12}, {9, 13}, {10, 14}, {11, 15}};
  EXPECT_EQ(mesh.groups({kDp}), data);
  EXPECT_EQ(mesh.groups({kDp, kCp}), (Groups{{0, 2, 4, 6}, {1, 3, 5, 7}, {8, 10, 12, 14}, {9, 11, 13, 15}}));
  EXPECT_EQ(mesh.groups({kTp, kCp}), runs(4, 4));
  EXPECT_EQ(mesh.groups({kTp, kDp, kCp}), runs(2, 8));
  EXPECT_EQ(mesh.groups({kPp}),
            (Groups{{0, 8}, {1, 9}, {2, 10}, {3, 11}, {4, 12}, {5, 13}, {6, 14}, {7, 15}}));
  EXPECT_EQ(mesh.groups({kEtp}), runs(16, 1));
  EXPECT_EQ(mesh.groups({kEp}), runs(4, 4));
  EXPECT_EQ(mesh.groups({kEdp}), data);
}

TEST(MeshGolden, EightRanksWithExpertTensorParallelism) {
  const Mesh mesh(8, {.tp = 2, .ep = 2, .etp = 2});
  EXPECT_EQ(mesh.groups({kEtp}), runs(4, 2));
  EXPECT_EQ(mesh.groups({kEp}), (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ(mesh.groups({kEdp}), (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
}

TEST(MeshGolden, ExpertsFoldedOverEverything) {
  const Mesh mesh(8, {.cp = 2, .tp = 2, .ep = 8});
  EXPECT_EQ(mesh.size(kDp), 2);
  EXPECT_EQ(mesh.groups({kEp}), runs(1, 8));
  EXPECT_EQ(mesh.groups({kEdp}), runs(8, 1));
}

TEST(MeshGolden, ThirtyTwoRanks) {
  const Mesh mesh(32, {.pp = 2, .cp = 2, .tp = 2, .ep = 8});
  EXPECT_EQ(mesh.size(kDp), 4);
  EXPECT_EQ(mesh.groups({kEp}), runs(4, 8));
}

TEST(MeshGolden, MappingsWhosePipelinesNeedTheSlowestAxis) {
  // With any other order of axes these two have different pipelines on the two sides.
  const Mesh large(128, {.pp = 8, .tp = 2, .ep = 8});
  for (int64_t stage = 0; stage < 8; ++stage)
    EXPECT_EQ(large.groups({kPp}).front()[static_cast<size_t>(stage)], 16 * stage);
  EXPECT_EQ(large.size(kDp), 8);
  EXPECT_EQ(large.size(kEdp), 2);
  const Mesh small(16, {.pp = 2, .cp = 2, .tp = 2, .ep = 8});
  EXPECT_EQ(small.groups({kPp}),
            (Groups{{0, 8}, {1, 9}, {2, 10}, {3, 11}, {4, 12}, {5, 13}, {6, 14}, {7, 15}}));
}

// Twelve ranks: dp 6 in two groups that each have all shares (0-5 and 6-11), whose three data ranks and two
// context ranks share.
TEST(MeshGolden, SharesWithCopies) {
  const Mesh mesh(12, {.cp = 2, .ep = 2, .copies = 2});
  EXPECT_EQ(mesh.shared_over({kDp, kCp}), (AxisSet{kDps, kCp}));
  EXPECT_EQ(mesh.shares_copied_over({kDp, kCp}), AxisSet{kDpr});
  EXPECT_EQ(mesh.groups({kDps, kCp}), (Groups{{0, 1, 2, 3, 4, 5}, {6, 7, 8, 9, 10, 11}}));
  EXPECT_EQ(mesh.groups({kDpr}), (Groups{{0, 6}, {1, 7}, {2, 8}, {3, 9}, {4, 10}, {5, 11}}));
  EXPECT_EQ(mesh.groups({kDps}), (Groups{{0, 2, 4}, {1, 3, 5}, {6, 8, 10}, {7, 9, 11}}));
  EXPECT_EQ(mesh.groups({kEdps}), (Groups{{0, 2, 4}, {1, 3, 5}, {6, 8, 10}, {7, 9, 11}}));
  EXPECT_EQ(mesh.groups({kDp}), (Groups{{0, 2, 4, 6, 8, 10}, {1, 3, 5, 7, 9, 11}}));
  // Two copies of each expert among four ranks, in groups of their own.
  const Mesh few(4, {.ep = 2, .copies = 4});
  EXPECT_EQ(few.size(kEdpr), 2);
  EXPECT_EQ(few.groups({kEdps}), runs(4, 1));
  const Mesh without(12, {.cp = 2});
  EXPECT_EQ(without.shared_over({kDp, kCp}), (AxisSet{kDp, kCp}));
  EXPECT_EQ(without.shares_copied_over({kDp, kCp}), AxisSet{});
}

// Eight ranks: tp 4, of which two neighbours have a key head in common, and dp 2.
TEST(MeshGolden, CopiesOfKeyHeads) {
  const Mesh mesh(8, {.tp = 4, .key_copies = 2});
  EXPECT_EQ(mesh.groups({kTpr}), runs(4, 2));
  EXPECT_EQ(mesh.groups({kTps}), (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ(mesh.groups({kDp, kCp, kTpr}), (Groups{{0, 1, 4, 5}, {2, 3, 6, 7}}));
  EXPECT_EQ(mesh.groups({kTps, kTpr}), mesh.groups({kTp}));
  EXPECT_EQ((AxisSet{kDp, kTps, kTpr}).text(), "dp-tp") << "one communicator";
  EXPECT_EQ((AxisSet{kTps}).text(), "tps");
  std::vector<std::string> names;
  for (const GroupKind& kind : mesh.group_kinds()) names.push_back(kind.name);
  EXPECT_THAT(names, testing::IsSupersetOf({"dp-cp-tpr", "tps"}));
  EXPECT_THAT(mesh.text(), testing::HasSubstr("tp 4 (2 ranks a key head)"));
}

Mesh random_mesh(Draw& draw) {
  const auto size = [&] { return draw.one_of<int64_t>({1, 2, 3, 4}); };
  MeshShape shape{.pp = size(), .cp = size(), .tp = size(), .ep = size(), .etp = size()};
  const int64_t world = shape.pp * std::lcm(shape.cp * shape.tp, shape.ep * shape.etp) * draw.between(1, 2);
  shape.copies = std::gcd(world / (shape.pp * shape.cp * shape.tp), size());
  shape.key_copies = std::gcd(shape.tp, size());
  return Mesh(world, shape);
}

TEST(MeshProperty, GroupsPartitionTheRanks) {
  Draw draw("mesh/groups");
  for (int round = 0; round < 60; ++round) {
    const Mesh mesh = random_mesh(draw);
    SCOPED_TRACE(mesh.text());
    EXPECT_EQ(mesh.size(kDenseAxes), mesh.world());
    EXPECT_EQ(mesh.size(kExpertAxes), mesh.world());
    for (const AxisSet side : {kDenseAxes, kExpertAxes}) {
      const std::vector<Axis> axes = side.axes();
      for (unsigned chosen = 0; chosen < 16; ++chosen) {
        AxisSet set;
        for (size_t i = 0; i < axes.size(); ++i) {
          if ((chosen >> i & 1U) != 0) set = set | AxisSet{axes[i]};
        }
        std::vector<int> seen(static_cast<size_t>(mesh.world()), 0);
        for (const std::vector<int64_t>& group : mesh.groups(set)) {
          ASSERT_EQ(static_cast<int64_t>(group.size()), mesh.size(set));
          ASSERT_TRUE(std::is_sorted(group.begin(), group.end()));
          for (size_t i = 0; i < group.size(); ++i) {
            ++seen[static_cast<size_t>(group[i])];
            ASSERT_EQ(mesh.group_of(group[i], set), group);
            ASSERT_EQ(mesh.index_in_group(group[i], set), static_cast<int64_t>(i));
            // Members differ only in the set's axes.
            for (const Axis axis : (side - set).axes()) {
              ASSERT_EQ(mesh.coordinate(group[i], axis), mesh.coordinate(group[0], axis));
            }
          }
        }
        ASSERT_THAT(seen, testing::Each(1));
      }
    }
  }
}

TEST(MeshProperty, CoordinatesAndRanksAreInverse) {
  Draw draw("mesh/coordinates");
  for (int round = 0; round < 40; ++round) {
    const Mesh mesh = random_mesh(draw);
    for (int64_t rank = 0; rank < mesh.world(); ++rank) {
      const auto at = mesh.coordinates(rank);
      const auto c = [&](Axis axis) { return std::pair(axis, at[static_cast<size_t>(axis)]); };
      ASSERT_EQ(mesh.rank_at({c(kPp), c(kDp), c(kCp), c(kTp)}), rank);
      ASSERT_EQ(mesh.rank_at({c(kPp), c(kEdp), c(kEp), c(kEtp)}), rank);
    }
  }
}

TEST(MeshProperty, EveryGroupKindPartitionsOrJoinsEnds) {
  const Mesh mesh(32, {.pp = 2, .cp = 2, .tp = 2, .ep = 4, .etp = 2});
  std::vector<std::string> names;
  for (const GroupKind& kind : mesh.group_kinds()) names.push_back(kind.name);
  EXPECT_THAT(names, testing::ElementsAre("dp-cp", "dp", "cp", "pp-tp", "tp", "pp", "dp-cp-tp", "dp-tp",
                                          "cp-tp", "ep", "etp", "ep-etp", "pp-ep-etp", "edp"));
  for (const GroupKind& kind : mesh.group_kinds()) {
    int64_t ranks = 0;
    for (const std::vector<int64_t>& group : kind.groups) ranks += static_cast<int64_t>(group.size());
    EXPECT_EQ(ranks, 32) << kind.name;
  }
}

void expect_refused(int64_t world, MeshShape shape, const std::string& words) {
  try {
    const Mesh mesh(world, shape);
    ADD_FAILURE() << "accepted: " << mesh.text();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_THAT(error.what(), testing::HasSubstr(words));
  }
}

TEST(MeshRefusal, ImpossibleSizesSayWhy) {
  expect_refused(0, {}, "needs ranks");
  expect_refused(8, {.tp = 0}, "tp is impossible");
  expect_refused(8, {.ep = -2}, "ep is impossible");
  expect_refused(8, {.cp = 3}, "dense layers do not fit on 8 ranks");
  expect_refused(8, {.tp = 16}, "dense layers do not fit on 8 ranks");
  expect_refused(12, {.tp = 2, .copies = 4}, "a divisor of the 6 data ranks");
  expect_refused(8, {.copies = 0}, "a divisor of the 8 data ranks");
  expect_refused(12, {.tp = 3, .ep = 8}, "experts do not fit on 12 ranks");
  expect_refused(8, {.pp = int64_t{1} << 40, .tp = int64_t{1} << 40}, "more than 2^63");
}

TEST(MeshRefusal, AxesOfBothSidesAreABug) {
  const Mesh mesh(4, {.tp = 2, .ep = 2});
  EXPECT_THROW(mesh.groups({kTp, kEp}), Error);
  EXPECT_THROW(mesh.rank_at({{kTp, 0}, {kEp, 0}}), Error);
  EXPECT_THROW(mesh.coordinate(4, kTp), Error);
}

TEST(AxisSetTest, SetOperationsAndText) {
  constexpr AxisSet set = {kCp, kDp};
  static_assert(set.contains(kDp) && !set.contains(kTp));
  EXPECT_EQ(set.text(), "dp-cp");
  EXPECT_EQ((set - AxisSet{kDp}).text(), "cp");
  EXPECT_EQ((set & AxisSet{kTp}).text(), "none");
  EXPECT_TRUE((set | AxisSet{kTp}).contains(set));
  EXPECT_FALSE(set.contains(set | AxisSet{kTp}));
}

}  // namespace
}  // namespace longhaul::layout
