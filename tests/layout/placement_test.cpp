// Placement: first copies tile the tensor on random meshes, copies agree, known rectangles, refusals.
#include "layout/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <numeric>

#include "base/error.h"
#include "layout/expert_spread.h"
#include "layout/random.h"

namespace longhaul::layout::placement_test {
namespace {

using enum Axis;

Mesh random_placement_mesh(Draw& draw) {
  const auto size = [&] { return draw.one_of<int64_t>({1, 2, 3}); };
  const MeshShape shape{.pp = draw.between(1, 2), .cp = size(), .tp = size(), .ep = size(), .etp = size()};
  return Mesh(shape.pp * std::lcm(shape.cp * shape.tp, shape.ep * shape.etp) * draw.between(1, 2), shape);
}

// A random placement of one side: each axis cuts some dimension, is pinned, or is unused.
Placement random_placement(Draw& draw, const Mesh& mesh, size_t dimensions) {
  Placement placement = Placement::replicated(dimensions);
  for (const Axis axis : (draw.coin() ? kDenseAxes : kExpertAxes).axes()) {
    const int64_t use = draw.between(0, 3);
    if (use == 0) placement.pins.push_back({axis, draw.between(0, mesh.size(axis) - 1)});
    if (use >= 2)
      placement.dimensions[static_cast<size_t>(draw.between(0, static_cast<int64_t>(dimensions) - 1))]
          .push_back({axis, 1});
  }
  return placement;
}

// What each rank holds is cut once more, by rows, over `axes`.
Placement rows_cut_too(Placement placement, const Mesh& mesh, AxisSet axes) {
  for (const Axis axis : axes.axes()) {
    if (mesh.size(axis) > 1) placement.dimensions.front().push_back({axis, 1});
  }
  return placement;
}

TEST(PlacementProperty, FirstCopiesTileTheTensor) {
  Draw draw("placement/tile");
  for (int round = 0; round < 300; ++round) {
    const Mesh mesh = random_placement_mesh(draw);
    Shape shape;
    for (int64_t d = draw.between(1, 3); d > 0; --d) shape.push_back(draw.between(0, 11));
    Placement placement = random_placement(draw, mesh, shape.size());
    if (draw.coin()) {
      const AxisSet side = kDenseAxes.contains(placement.axes()) ? kDenseAxes : kExpertAxes;
      placement = rows_cut_too(placement, mesh, side - placement.axes());
    }
    SCOPED_TRACE(mesh.text() + " " + placement.text() + " " + shape_text(shape));
    std::vector<Rectangle> first;
    for (int64_t rank = 0; rank < mesh.world(); ++rank) {
      const Rectangle held = rectangle_of(placement, mesh, rank, shape);
      ASSERT_TRUE(held.inside(shape));
      if (is_first_copy(placement, mesh, rank)) first.push_back(held);
      for (const Pin& pin : placement.pins) {
        if (mesh.coordinate(rank, pin.axis) != pin.coordinate) {
          ASSERT_TRUE(held.empty());
        }
      }
    }
    EXPECT_EQ(covering_defect(shape, first), std::nullopt);
  }
}

TEST(PlacementProperty, RanksThatDifferOnlyInUnusedAxesHoldTheSame) {
  Draw draw("placement/copies");
  for (int round = 0; round < 100; ++round) {
    const Mesh mesh = random_placement_mesh(draw);
    const Shape shape = {draw.between(1, 9), draw.between(1, 9)};
    const Placement placement = random_placement(draw, mesh, 2);
    const AxisSet side = kDenseAxes.contains(placement.axes()) ? kDenseAxes : kExpertAxes;
    for (const std::vector<int64_t>& copies : mesh.groups(side - placement.axes())) {
      int64_t first = 0;
      for (const int64_t rank : copies) {
        ASSERT_EQ(rectangle_of(placement, mesh, rank, shape),
                  rectangle_of(placement, mesh, copies[0], shape));
        first += is_first_copy(placement, mesh, rank) ? 1 : 0;
      }
      ASSERT_LE(first, 1);
    }
  }
}

TEST(PlacementKnown, HeadsOverTensorRanksThenRowsOverDataRanks) {
  // 5 heads of 4 rows on tp 2: 3 heads and 2; the 12 rows of the first over dp 2 · cp 2.
  const Mesh mesh(8, {.cp = 2, .tp = 2});
  Placement placement = Placement::replicated(2);
  placement.dimensions[0] = {{kTp, 4}};
  EXPECT_EQ(rectangle_of(placement, mesh, 0, {20, 6}), (Rectangle{{0, 0}, {12, 6}}));
  EXPECT_EQ(rectangle_of(placement, mesh, 1, {20, 6}), (Rectangle{{12, 0}, {8, 6}}));
  const Placement cut = rows_cut_too(placement, mesh, {kCp, kDp});
  EXPECT_EQ(cut.text(), "[tp·dp·cp, -]");
  EXPECT_EQ(rectangle_of(cut, mesh, 0, {20, 6}), (Rectangle{{0, 0}, {3, 6}}));
  EXPECT_EQ(rectangle_of(cut, mesh, 2, {20, 6}), (Rectangle{{3, 0}, {3, 6}}));   // cp 1
  EXPECT_EQ(rectangle_of(cut, mesh, 4, {20, 6}), (Rectangle{{6, 0}, {3, 6}}));   // dp 1
  EXPECT_EQ(rectangle_of(cut, mesh, 7, {20, 6}), (Rectangle{{18, 0}, {2, 6}}));  // last of all
}

// Two heads of 3 rows on tp 4: neighbours have the same one, and the rows of each are cut over dp 2 and the
// two that have it.
TEST(PlacementKnown, HeadsThatTensorRanksOutnumber) {
  const Mesh mesh(8, {.tp = 4, .key_copies = 2});
  Placement placement = Placement::replicated(2);
  placement.dimensions[0] = {{kTps, 3}};
  placement.pins = {{kPp, 0}};
  EXPECT_EQ(copied_over(placement), (AxisSet{kDp, kCp, kTpr}));
  std::vector<int64_t> first;
  for (int64_t rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(rectangle_of(placement, mesh, rank, {6, 5}), (Rectangle{{rank % 4 / 2 * 3, 0}, {3, 5}}))
        << rank;
    if (is_first_copy(placement, mesh, rank)) first.push_back(rank);
  }
  EXPECT_THAT(first, testing::ElementsAre(0, 2));
  const Placement cut = rows_cut_too(placement, mesh, copied_over(placement));
  EXPECT_EQ(cut.text(), "[tps·dp·tpr, -] at pp=0");
  EXPECT_EQ(rectangle_of(cut, mesh, 2, {6, 5}), (Rectangle{{3, 0}, {1, 5}}));
  EXPECT_EQ(rectangle_of(cut, mesh, 7, {6, 5}), (Rectangle{{6, 0}, {0, 5}})) << "the fourth of three rows";
}

TEST(PlacementKnown, MoreRanksThanRowsAndUnevenElements) {
  const Mesh mesh(4, {});
  const Placement matrix = rows_cut_too(Placement::replicated(2), mesh, {kDp}),
                  vector = rows_cut_too(Placement::replicated(1), mesh, {kDp});
  for (int64_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(rectangle_of(matrix, mesh, rank, {3, 1000}).length[1], 1000);
    EXPECT_EQ(rectangle_of(matrix, mesh, rank, {3, 1000}).length[0], rank < 3 ? 1 : 0);
    EXPECT_EQ(rectangle_of(vector, mesh, rank, {10}).length[0], rank < 2 ? 3 : 2);
  }
}

TEST(PlacementKnown, ColumnsCutOverTensorRanksAndRowsOverDataRanks) {
  const Mesh mesh(4, {.tp = 2});
  Placement placement = Placement::replicated(2);
  placement.dimensions[1] = {{kTp, 1}};
  EXPECT_EQ(rectangle_of(rows_cut_too(placement, mesh, {kDp}), mesh, 3, {6, 8}), (Rectangle{{3, 4}, {3, 4}}));
}

void expect_refused(const Placement& placement, const Mesh& mesh, const Shape& shape,
                    const std::string& words) {
  try {
    rectangle_of(placement, mesh, 0, shape);
    ADD_FAILURE() << "accepted: " << placement.text();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_THAT(error.what(), testing::HasSubstr(words));
  }
}

TEST(PlacementRefusal, SaysWhatIsWrong) {
  const Mesh mesh(4, {.tp = 2, .ep = 2});
  expect_refused({{{{kTp, 1}}, {{kTp, 1}}}, {}}, mesh, {4, 4}, "uses tp twice");
  expect_refused({{{{kTp, 1}}, {{kTps, 1}}}, {}}, mesh, {4, 4}, "uses tps twice");
  expect_refused({{{{kTp, 1}}, {{kEp, 1}}}, {}}, mesh, {4, 4}, "mixes both sides");
  expect_refused({{{{kTp, 3}}}, {}}, mesh, {8}, "units of 3");
  expect_refused({{{{kTp, 1}, {kDp, 2}}}, {}}, mesh, {8}, "units of 2");
  expect_refused({{{}}, {{kEp, 2}}}, mesh, {8}, "outside the mesh");
  expect_refused({{{}}, {}}, mesh, {8, 8}, "does not fit its tensor");
  expect_refused({{}, {}}, mesh, {}, "does not fit its tensor");
}

// Every set of `chosen` out of `experts`, counted.
TEST(ExpertSpread, ChanceOfAnyIsWhatCountingGives) {
  for (int64_t experts = 1; experts <= 8; ++experts) {
    for (int64_t of_rank = 1; of_rank <= experts; ++of_rank) {
      for (int64_t chosen = 1; chosen <= experts; ++chosen) {
        int64_t all = 0, with_any = 0;
        for (unsigned set = 0; set < 1u << experts; ++set) {
          if (std::popcount(set) != chosen) continue;
          ++all;
          with_any += (set & ((1u << of_rank) - 1)) != 0 ? 1 : 0;
        }
        EXPECT_NEAR(chance_of_any(experts, of_rank, chosen),
                    static_cast<double>(with_any) / static_cast<double>(all), 1e-14)
            << of_rank << " of " << experts << ", " << chosen;
      }
    }
  }
}

}  // namespace
}  // namespace longhaul::layout::placement_test
