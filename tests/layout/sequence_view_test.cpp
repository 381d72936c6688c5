// What a rank sees of a packed row, by hand: two sequences of 6 tokens; documents of 4, 2 and 6.
#include "layout/sequence_view.h"

#include <gtest/gtest.h>

namespace longhaul::layout {
namespace {

using Numbers = std::vector<int64_t>;

SequenceLayout row() { return in_rows(make_packed(Numbers{4, 2, 6}), 6); }
Numbers text_positions(const SequenceView& view) {
  const auto positions = view.positions_of_axis(0);
  return {positions.begin(), positions.end()};
}

TEST(SequenceView, OfTheOnlyRankIsTheWholeRow) {
  const SequenceView view(row());
  EXPECT_EQ(view.tokens(), 12);
  EXPECT_EQ(view.own, (Range{0, 12}));
  EXPECT_EQ(view.own_row_offsets, (Numbers{0, 6, 12}));
  EXPECT_EQ(text_positions(view), (Numbers{0, 1, 2, 3, 0, 1, 0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(view.context_order(), (Numbers{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
}

// Chunks of 3: rank 0 has the first and the last, rank 1 those between.
TEST(SequenceView, ZigzagKeepsPositionsAndSequences) {
  const SequenceView first(row(), {.context_ranks = 2, .context_rank = 0}),
      second(row(), {.context_ranks = 2, .context_rank = 1});
  EXPECT_EQ(first.token_index, (Numbers{0, 1, 2, 9, 10, 11}));
  EXPECT_EQ(text_positions(first), (Numbers{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(first.own_row_offsets, (Numbers{0, 3, 6}));
  EXPECT_EQ(second.token_index, (Numbers{3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(text_positions(second), (Numbers{3, 0, 1, 0, 1, 2}));
  EXPECT_EQ(second.context_order(), (Numbers{0, 1, 2, 9, 10, 11, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(second.context_lengths(), (Numbers{6, 6}));
}

// Of rank 1's six tokens the tensor ranks own two each: the last one none of the first sequence.
TEST(SequenceView, TensorRanksOwnPartsOfAContextRanksTokens) {
  RowShare share{.context_ranks = 2, .context_rank = 1, .tensor_ranks = 3, .tensor_rank = 2};
  const SequenceView last(row(), share);
  EXPECT_EQ(last.own, (Range{4, 2}));
  EXPECT_EQ(last.own_row_offsets, (Numbers{0, 0, 2}));
  EXPECT_EQ(last.tensor_lengths(), (Numbers{2, 2, 2}));
  share.tensor_rank = 1;
  EXPECT_EQ(SequenceView(row(), share).own_row_offsets, (Numbers{0, 1, 2}));
}

}  // namespace
}  // namespace longhaul::layout
