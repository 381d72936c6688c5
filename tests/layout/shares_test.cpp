#include "layout/shares.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace longhaul::layout {
namespace {

TEST(Shares, AreEvenWhereRowsAllowItAndEndBetweenRows) {
  // A matrix [5, 7], padding up to 64, a vector [37], padding up to 128, a matrix of one long row.
  const std::vector<RowsInArena> tensors{{0, 7, 5}, {64, 1, 37}, {128, 100, 1}};
  EXPECT_EQ(shares_of(tensors, 256, 1), (std::vector<Range>{{0, 256}}));
  EXPECT_EQ(shares_of(tensors, 256, 2), (std::vector<Range>{{0, 128}, {128, 128}}));
  // 85.3 lies in the vector, 170.7 in the long row, nearer to its beginning.
  EXPECT_EQ(shares_of(tensors, 256, 3), (std::vector<Range>{{0, 86}, {86, 42}, {128, 128}}));
  // 32 of 8: the row of 28 to 35, nearer to its end.
  EXPECT_EQ(shares_of(tensors, 256, 8)[0], (Range{0, 35}));
}

TEST(Shares, TileTheArenaAndNeverCutARow) {
  for (int64_t seed = 1; seed < 60; ++seed) {
    std::vector<RowsInArena> tensors;
    int64_t elements = 0;
    for (int64_t i = 0; i < 1 + seed % 7; ++i) {
      tensors.push_back({elements, 1 + seed * 31 * (i + 1) % 90, seed * 17 * (i + 2) % 23});
      elements = (tensors.back().end() + 63) / 64 * 64;
    }
    for (const int64_t ranks : {1, 2, 3, 5, 16, 97}) {
      const std::vector<Range> shares = shares_of(tensors, elements, ranks);
      ASSERT_EQ(static_cast<int64_t>(shares.size()), ranks);
      int64_t longest_row = 1, at = 0;
      for (const RowsInArena& tensor : tensors) longest_row = std::max(longest_row, tensor.row);
      for (const Range& share : shares) {
        ASSERT_EQ(share.begin, at);
        ASSERT_GE(share.length, 0);
        EXPECT_LE(share.length, elements / ranks + 1 + longest_row);
        at = share.end();
        for (const RowsInArena& tensor : tensors) {
          EXPECT_TRUE(at <= tensor.begin || at >= tensor.end() || (at - tensor.begin) % tensor.row == 0);
        }
      }
      EXPECT_EQ(at, elements);
    }
  }
}

}  // namespace
}  // namespace longhaul::layout
