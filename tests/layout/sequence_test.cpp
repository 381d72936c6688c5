// SequenceLayout: documents, labels, and the context split: nothing lost, nothing twice, order kept, work
// balanced.
#include "layout/sequence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/error.h"
#include "layout/random.h"

namespace longhaul::layout {
namespace {

using testing::ElementsAre;

std::vector<int64_t> random_lengths(Draw& draw) {
  std::vector<int64_t> lengths;
  for (int64_t i = draw.between(0, 6); i > 0; --i) lengths.push_back(draw.between(0, 9));
  return lengths;
}

void expect_refused(const std::function<void()>& call, const std::string& words) {
  try {
    call();
    ADD_FAILURE() << "accepted; should say: " << words;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_THAT(error.what(), testing::HasSubstr(words));
  }
}

TEST(SequenceLayoutTest, PackedDocuments) {
  const SequenceLayout layout = make_packed(std::vector<int64_t>{3, 0, 2});
  EXPECT_THAT(layout.document_offsets, ElementsAre(0, 3, 3, 5));
  EXPECT_THAT(layout.positions, ElementsAre(0, 1, 2, 0, 1));
  EXPECT_EQ(layout.tokens(), 5);
  EXPECT_EQ(layout.documents(), 3);
  EXPECT_EQ(layout.document_of(2), 0);
  EXPECT_EQ(layout.document_of(3), 2);
  EXPECT_EQ(layout.document(1), (Range{3, 0}));
}

TEST(SequenceLayoutTest, SingleBatchAndContinued) {
  EXPECT_THAT(make_single(4).document_offsets, ElementsAre(0, 4));
  EXPECT_THAT(make_batch(2, 3).document_offsets, ElementsAre(0, 3, 6));
  EXPECT_THAT(make_batch(2, 3).positions, ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_THAT(make_packed(std::vector<int64_t>{2, 2}, std::vector<int64_t>{7, 0}).positions,
              ElementsAre(7, 8, 0, 1));
  EXPECT_EQ(make_batch(0, 3).tokens(), 0);
  SequenceLayout empty;
  empty.validate();
  EXPECT_EQ(empty.tokens(), 0);
}

TEST(SequenceLayoutTest, Rows) {
  EXPECT_TRUE(make_packed(std::vector<int64_t>{3, 5}).row_offsets.empty()) << "one row";
  EXPECT_THAT(make_batch(2, 3).row_offsets, ElementsAre(0, 3, 6));
  EXPECT_THAT(in_rows(make_packed(std::vector<int64_t>{3, 1, 4, 2}), 4).row_offsets,
              ElementsAre(0, 4, 8, 10));
  expect_refused([] { in_rows(make_packed(std::vector<int64_t>{3, 5}), 4); }, "reaches over token 4");
  expect_refused([] { in_rows(make_single(3), 0); }, "at least 1 token");
  const auto validate = [](std::vector<int64_t> rows) {
    return [rows] {
      SequenceLayout layout = make_packed(std::vector<int64_t>{2, 2});
      layout.row_offsets = rows;
      layout.validate();
    };
  };
  validate({0, 0, 2, 4})();
  expect_refused(validate({0, 2}), "rows of 4 tokens");
  expect_refused(validate({1, 4}), "row offsets that begin with 0");
  expect_refused(validate({0, 3, 4}), "reaches over token 3");
  expect_refused(validate({0, 4, 2, 4}), "ascending row offsets");
}

TEST(SequenceLayoutTest, LabelsAreShiftedInsideDocuments) {
  const SequenceLayout layout = make_packed(std::vector<int64_t>{3, 0, 1, 2});
  const std::vector<int64_t> tokens = {10, 11, 12, 20, 30, 31};
  EXPECT_THAT(shifted_labels(layout, tokens),
              ElementsAre(11, 12, kIgnoreLabel, kIgnoreLabel, 31, kIgnoreLabel));
  const std::vector<int64_t> next = {13, 99, kIgnoreLabel, 32};
  EXPECT_THAT(shifted_labels(layout, tokens, next), ElementsAre(11, 12, 13, kIgnoreLabel, 31, 32));
  EXPECT_THAT(ahead_in_documents(layout, tokens, 1),
              ElementsAre(11, 12, kIgnoreLabel, kIgnoreLabel, 31, kIgnoreLabel));
  EXPECT_THAT(ahead_in_documents(layout, tokens, 2),
              ElementsAre(12, kIgnoreLabel, kIgnoreLabel, kIgnoreLabel, kIgnoreLabel, kIgnoreLabel));
}

TEST(SequenceLayoutTest, PositionAxes) {
  SequenceLayout image = make_single(4);
  image.position_axes = 2;
  image.positions = {0, 0, 1, 1, 0, 1, 0, 1};
  image.validate();
  EXPECT_THAT(image.positions_of_axis(1), ElementsAre(0, 1, 0, 1));
  const LocalSequence last = local_view(image, 2, 1, ContextSplit::kContiguous);
  EXPECT_THAT(last.positions, ElementsAre(1, 1, 0, 1));
}

TEST(SequenceRefusal, SaysWhichRuleIsBroken) {
  const auto validate = [](std::vector<int64_t> offsets, int64_t axes, std::vector<int64_t> positions) {
    return [=] { SequenceLayout{offsets, axes, positions}.validate(); };
  };
  expect_refused(validate({}, 1, {}), "begin with 0");
  expect_refused(validate({1, 2}, 1, {0, 1}), "begin with 0");
  expect_refused(validate({0, 2, 1}, 1, {0}), "ascending");
  expect_refused(validate({0, 2}, 1, {0}), "2 positions");
  expect_refused(validate({0, 2}, 2, {0, 1}), "4 positions");
  expect_refused(validate({0, 2}, 0, {}), "at least one position axis");
  expect_refused(validate({0, 2}, 1, {0, -1}), "positions of at least 0");
  expect_refused([] { make_packed(std::vector<int64_t>{2, -1}); }, "at least 0 tokens");
  expect_refused([] { make_packed(std::vector<int64_t>{2}, std::vector<int64_t>{}); }, "first position");
  expect_refused([] { make_batch(-1, 2); }, "at least 0 sequences");
  expect_refused([] { shifted_labels(make_single(2), std::vector<int64_t>{1}); }, "2 token ids");
  expect_refused(
      [] {
        shifted_labels(make_single(1), std::vector<int64_t>{1}, std::vector<int64_t>{1, 2});
      },
      "next token");
}

TEST(ContextSplitTest, KnownZigzag) {
  // 8 tokens on 2 ranks: chunks of 2; rank 0 owns chunks 0 and 3, rank 1 chunks 1 and 2.
  EXPECT_THAT(split_permutation(8, 2, ContextSplit::kZigzag), ElementsAre(0, 1, 6, 7, 2, 3, 4, 5));
  EXPECT_THAT(split_permutation(5, 2, ContextSplit::kContiguous), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(context_chunks(16, 4, 1, ContextSplit::kZigzag), ElementsAre(Range{2, 2}, Range{12, 2}));
}

TEST(ContextSplitTest, KnownStripes) {
  EXPECT_THAT(split_permutation(8, 3, ContextSplit::kStriped), ElementsAre(0, 3, 6, 1, 4, 7, 2, 5));
  EXPECT_THAT(context_chunks(2, 4, 1, ContextSplit::kStriped), ElementsAre(Range{1, 1}));
  EXPECT_TRUE(context_chunks(2, 4, 2, ContextSplit::kStriped).empty());
}

TEST(ContextSplitProperty, EveryTokenOnceAndInverseUndoes) {
  Draw draw("sequence/split");
  for (int round = 0; round < 300; ++round) {
    const int64_t tokens = draw.between(0, 40);
    const int64_t ranks = draw.between(1, 6);
    const auto split = static_cast<ContextSplit>(draw.between(0, 2));
    const std::vector<int64_t> permutation = split_permutation(tokens, ranks, split);
    // refuses what is not a permutation
    const std::vector<int64_t> inverse = inverse_permutation(permutation);
    ASSERT_EQ(static_cast<int64_t>(permutation.size()), tokens);
    for (size_t i = 0; i < permutation.size(); ++i) {
      ASSERT_EQ(permutation[static_cast<size_t>(inverse[i])], static_cast<int64_t>(i));
      ASSERT_EQ(inverse[static_cast<size_t>(permutation[i])], static_cast<int64_t>(i));
    }
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const std::vector<int64_t> local = local_tokens(tokens, ranks, rank, split);
      ASSERT_TRUE(std::is_sorted(local.begin(), local.end())) << "local order follows the row's order";
    }
  }
  EXPECT_THROW(inverse_permutation(std::vector<int64_t>{0, 0}), Error);
  EXPECT_THROW(inverse_permutation(std::vector<int64_t>{0, 2}), Error);
}

// Pairs (query, key) of one causal document that spans the row.
int64_t causal_work(int64_t tokens, int64_t ranks, int64_t rank, ContextSplit split) {
  int64_t work = 0;
  for (const int64_t token : local_tokens(tokens, ranks, rank, split)) work += token + 1;
  return work;
}

TEST(ContextSplitProperty, ZigzagBalancesCausalWork) {
  Draw draw("sequence/balance");
  for (int round = 0; round < 100; ++round) {
    const int64_t ranks = draw.between(2, 8);
    const int64_t even = 2 * ranks * draw.between(1, 20);
    for (int64_t rank = 0; rank < ranks; ++rank) {
      ASSERT_EQ(causal_work(even, ranks, rank, ContextSplit::kZigzag), even * (even + 1) / 2 / ranks);
    }
    // When chunks differ by one token, no rank does more than two tokens' worth of work beyond the mean.
    const int64_t uneven = even + draw.between(1, 2 * ranks - 1);
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const int64_t mean = uneven * (uneven + 1) / 2 / ranks;
      ASSERT_LE(std::abs(causal_work(uneven, ranks, rank, ContextSplit::kZigzag) - mean), 2 * uneven);
    }
  }
  // Of stripes a rank has at most one key more than the rank before it, for each of its tokens.
  for (const int64_t tokens : {60, 61, 64}) {
    for (int64_t rank = 1; rank < 4; ++rank) {
      const int64_t more = causal_work(tokens, 4, rank, ContextSplit::kStriped) -
                           causal_work(tokens, 4, rank - 1, ContextSplit::kStriped);
      EXPECT_LE(std::abs(more), tokens) << tokens << " tokens, rank " << rank;
    }
  }
  EXPECT_GT(causal_work(64, 2, 1, ContextSplit::kContiguous),
            2 * causal_work(64, 2, 0, ContextSplit::kContiguous));
}

TEST(ContextSplitProperty, SegmentsTileTheRankAndTheDocuments) {
  Draw draw("sequence/segments");
  for (int round = 0; round < 300; ++round) {
    const SequenceLayout layout = make_packed(random_lengths(draw));
    const int64_t ranks = draw.between(1, 5);
    const auto split = static_cast<ContextSplit>(draw.between(0, 2));
    std::vector<int> seen(static_cast<size_t>(layout.tokens()), 0);
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const LocalSequence view = local_view(layout, ranks, rank, split);
      const std::vector<int64_t> local = local_tokens(layout.tokens(), ranks, rank, split);
      ASSERT_EQ(view.tokens, static_cast<int64_t>(local.size()));
      ASSERT_EQ(view.positions.size(), local.size());
      int64_t next = 0;
      for (const Segment& segment : view.segments) {
        ASSERT_EQ(segment.local_start, next);
        ASSERT_GT(segment.length, 0);
        const Range document = layout.document(segment.document);
        ASSERT_LE(segment.document_start + segment.length, document.length);
        for (int64_t i = 0; i < segment.length; ++i) {
          const int64_t token = document.begin + segment.document_start + i;
          const auto index = static_cast<size_t>(segment.local_start + i);
          ASSERT_EQ(local[index], token);
          ASSERT_EQ(view.positions[index], layout.positions[static_cast<size_t>(token)]);
          const Range chunk = view.chunks[static_cast<size_t>(segment.chunk)];
          ASSERT_TRUE(token >= chunk.begin && token < chunk.end());
          ++seen[static_cast<size_t>(token)];
        }
        next += segment.length;
      }
      ASSERT_EQ(next, view.tokens);
    }
    ASSERT_THAT(seen, testing::Each(1));
  }
}

}  // namespace
}  // namespace longhaul::layout
