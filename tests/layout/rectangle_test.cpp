// Rectangles: intersection and covering against element-by-element counting, copy plans against
// element-by-element copying.
#include "layout/rectangle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>

#include "base/error.h"
#include "layout/random.h"
#include "layout/split.h"

namespace longhaul::layout {
namespace {

// Visits every index of a shape in row-major order.
void for_each_index(const Shape& shape, const std::function<void(const std::vector<int64_t>&)>& visit) {
  if (volume(shape) == 0) return;
  std::vector<int64_t> index(shape.size(), 0);
  for (int64_t i = 0; i < volume(shape); ++i) {
    visit(index);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}

bool holds(const Rectangle& rectangle, const std::vector<int64_t>& index) {
  for (size_t d = 0; d < index.size(); ++d) {
    if (index[d] < rectangle.offset[d] || index[d] >= rectangle.offset[d] + rectangle.length[d]) return false;
  }
  return true;
}

Shape random_shape(Draw& draw, int64_t longest = 7) {
  Shape shape;
  for (int64_t d = draw.between(1, 4); d > 0; --d) shape.push_back(draw.between(1, longest));
  return shape;
}

Rectangle random_rectangle(Draw& draw, const Shape& shape) {
  Rectangle rectangle;
  for (const int64_t length : shape) {
    const int64_t a = draw.between(0, length);
    int64_t b = draw.between(0, length);
    if (a == b && draw.between(0, 7) != 0) b = a == length ? 0 : length;  // seldom empty
    rectangle.offset.push_back(std::min(a, b));
    rectangle.length.push_back(std::max(a, b) - std::min(a, b));
  }
  return rectangle;
}

TEST(RectangleProperty, IntersectionHoldsWhatBothHold) {
  Draw draw("rectangle/intersection");
  int meetings = 0;
  for (int round = 0; round < 300; ++round) {
    const Shape shape = random_shape(draw, 5);
    const Rectangle a = random_rectangle(draw, shape);
    const Rectangle b = random_rectangle(draw, shape);
    const Rectangle common = intersection(a, b);
    int64_t in_a = 0;
    int64_t outside_b = 0;
    for_each_index(shape, [&](const std::vector<int64_t>& index) {
      ASSERT_EQ(holds(common, index), holds(a, index) && holds(b, index)) << a.text() << b.text();
      in_a += holds(a, index) ? 1 : 0;
      outside_b += holds(a, index) && !holds(b, index) ? 1 : 0;
    });
    EXPECT_EQ(a.volume(), in_a);
    EXPECT_EQ(b.contains(a), outside_b == 0) << a.text() << b.text();
    EXPECT_TRUE(Rectangle::whole(shape).contains(a));
    EXPECT_TRUE(a.inside(shape));
    meetings += common.empty() ? 0 : 1;
  }
  EXPECT_GT(meetings, 100);
}

// Tiles a shape by cutting random pieces in two, again and again.
std::vector<Rectangle> random_tiling(Draw& draw, const Shape& shape, int64_t cuts) {
  std::vector<Rectangle> pieces = {Rectangle::whole(shape)};
  for (int64_t i = 0; i < cuts; ++i) {
    const auto chosen = static_cast<size_t>(draw.between(0, static_cast<int64_t>(pieces.size()) - 1));
    const auto d = static_cast<size_t>(draw.between(0, static_cast<int64_t>(shape.size()) - 1));
    const int64_t first = draw.between(0, pieces[chosen].length[d]);
    Rectangle second = pieces[chosen];
    second.offset[d] += first;
    second.length[d] -= first;
    pieces[chosen].length[d] = first;
    pieces.push_back(second);
  }
  return pieces;
}

TEST(RectangleProperty, CoveringFindsHolesAndOverlaps) {
  Draw draw("rectangle/covering");
  for (int round = 0; round < 200; ++round) {
    const Shape shape = random_shape(draw);
    std::vector<Rectangle> tiles = random_tiling(draw, shape, draw.between(0, 12));
    EXPECT_EQ(covering_defect(shape, tiles), std::nullopt);
    const auto chosen = static_cast<size_t>(draw.between(0, static_cast<int64_t>(tiles.size()) - 1));
    if (tiles[chosen].empty()) continue;
    std::vector<Rectangle> holed = tiles;
    holed.erase(holed.begin() + static_cast<ptrdiff_t>(chosen));
    EXPECT_THAT(covering_defect(shape, holed).value_or("covered"), testing::HasSubstr("missing"));
    // A hole and an overlap of the same volume must not cancel.
    std::vector<Rectangle> doubled = tiles;
    doubled.push_back(tiles[chosen]);
    EXPECT_THAT(covering_defect(shape, doubled).value_or("covered"), testing::HasSubstr("overlap"));
  }
}

TEST(RectangleCovering, HoleAndOverlapOfOneSizeDoNotCancel) {
  const std::vector<Rectangle> pieces = {{{0, 0}, {2, 2}}, {{0, 1}, {2, 2}}};
  EXPECT_THAT(covering_defect({2, 4}, pieces).value_or("covered"),
              testing::HasSubstr("[0:2, 0:2] and [0:2, 1:3] overlap"));
}

TEST(RectangleCovering, RefusesWhatLeavesTheShape) {
  const int64_t huge = std::numeric_limits<int64_t>::max();
  for (const Rectangle& outside : {Rectangle{{-1}, {2}}, Rectangle{{1}, {4}}, Rectangle{{0}, {-1}},
                                   Rectangle{{huge}, {huge}}, Rectangle{{0, 0}, {1, 1}}}) {
    EXPECT_THAT(covering_defect({4}, std::vector{outside}).value_or("covered"),
                testing::HasSubstr("not inside"))
        << outside.text();
  }
  EXPECT_EQ((Rectangle{{1, huge}, {2, huge}}.text()),
            "[1:3, 9223372036854775807:9223372036854775807+9223372036854775807]");
  EXPECT_THAT(covering_defect({4}, {}).value_or("covered"), testing::HasSubstr("4 of 4 elements"));
  EXPECT_EQ(covering_defect({0, 4}, {}), std::nullopt);
}

TEST(RectangleProperty, CopyPlanEqualsElementwiseCopy) {
  Draw draw("rectangle/copy");
  int plans = 0;
  for (int round = 0; round < 300; ++round) {
    const Shape shape = random_shape(draw, 6);
    const Rectangle source = random_rectangle(draw, shape);
    const Rectangle target = random_rectangle(draw, shape);
    // Every element of the source holds its global index; the target starts as -1.
    std::vector<int32_t> from(static_cast<size_t>(source.volume()));
    std::vector<int32_t> expected(static_cast<size_t>(target.volume()), -1);
    std::vector<int32_t> to = expected;
    size_t next_source = 0;
    size_t next_target = 0;
    int32_t element = 0;
    for_each_index(shape, [&](const std::vector<int64_t>& index) {
      if (holds(source, index)) from[next_source++] = element;
      if (holds(target, index)) expected[next_target++] = holds(source, index) ? element : -1;
      ++element;
    });
    int64_t copied = 0;
    int64_t source_end = 0;
    int64_t target_end = -1;
    for (const CopyRun& run : copy_plan(source, target, sizeof(int32_t))) {
      ASSERT_GE(run.source_offset, source_end) << "runs ascend and do not overlap";
      ASSERT_FALSE(run.source_offset == source_end && run.target_offset == target_end)
          << "two runs that could be one";
      source_end = run.source_offset + run.length;
      target_end = run.target_offset + run.length;
      ASSERT_LE(source_end, static_cast<int64_t>(from.size() * sizeof(int32_t)));
      ASSERT_LE(run.target_offset + run.length, static_cast<int64_t>(to.size() * sizeof(int32_t)));
      std::memcpy(reinterpret_cast<char*>(to.data()) + run.target_offset,
                  reinterpret_cast<const char*>(from.data()) + run.source_offset,
                  static_cast<size_t>(run.length));
      copied += run.length;
    }
    EXPECT_EQ(to, expected) << source.text() << " to " << target.text();
    EXPECT_EQ(copied, intersection(source, target).volume() * 4);
    plans += copied > 0 ? 1 : 0;
  }
  EXPECT_GT(plans, 100);
}

TEST(CopyPlan, TakesTheFewestRuns) {
  const Rectangle whole = Rectangle::whole({8, 16, 4});
  EXPECT_EQ(copy_plan(whole, whole, 2), (std::vector<CopyRun>{{0, 0, 1024}}));
  // Whole rows: one run. A band of columns: one run a row.
  EXPECT_EQ(copy_plan(whole, {{2, 0, 0}, {3, 16, 4}}, 2), (std::vector<CopyRun>{{256, 0, 384}}));
  EXPECT_EQ(copy_plan(whole, {{2, 4, 0}, {3, 8, 4}}, 2),
            (std::vector<CopyRun>{{288, 0, 64}, {416, 64, 64}, {544, 128, 64}}));
  EXPECT_TRUE(copy_plan({{0}, {4}}, {{4}, {4}}, 2).empty());
}

TEST(SplitProperty, PartsAreEvenOrderedAndFoundAgain) {
  Draw draw("split/even");
  for (int round = 0; round < 200; ++round) {
    const int64_t total = draw.between(0, 40);
    const int64_t parts = draw.between(1, 12);
    int64_t end = 0;
    int64_t longest = total;
    for (int64_t i = 0; i < parts; ++i) {
      const Range part = even_part(total, parts, i);
      ASSERT_EQ(part.begin, end);
      ASSERT_LE(part.length, longest) << "longer parts come first";
      ASSERT_TRUE(part.length == total / parts || part.length == total / parts + 1);
      longest = part.length;
      end = part.end();
      for (int64_t element = part.begin; element < part.end(); ++element)
        ASSERT_EQ(even_owner(total, parts, element), i);
      ASSERT_EQ(even_part(Range{100, total * 3}, parts, i, 3),
                (Range{100 + part.begin * 3, part.length * 3}));
    }
    ASSERT_EQ(end, total);
  }
  EXPECT_THROW(even_part(Range{0, 7}, 2, 0, 3), Error);
  EXPECT_THROW(even_part(4, 2, 2), Error);
}

}  // namespace
}  // namespace longhaul::layout
