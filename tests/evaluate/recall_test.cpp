// Scores of recall: who looks up is right everywhere, who guesses is right by chance, and counts are those of
// a walk by hand.
#include "evaluate/recall.h"

#include <gtest/gtest.h>

#include <cmath>

#include "evaluate/known_answers.h"

namespace longhaul::evaluate {
namespace {

using recipe::RecallKind;

// Copies of more random tokens than there are kinds of them cannot be looked up by one token, so copy keeps
// tokens rare.
TEST(RecallScores, WhoLooksUpIsRight) {
  Lookup lookup;
  // A random filler may repeat a key with something else behind it: with so many tokens hardly ever.
  const auto mqar = *score_recall(lookup, {.sequence = 256, .pairs = 16, .vocabulary = 1 << 22}, 0, 40);
  EXPECT_EQ(mqar.accuracy, 1);
  EXPECT_EQ(mqar.whole, 1);
  EXPECT_EQ(mqar.loss, 0);
  EXPECT_EQ(mqar.answers, 16 * 40);
  // In a copy the first token follows the marker, which never stood there before: it alone cannot be looked
  // up.
  const auto copy = *score_recall(
      lookup, {.kind = RecallKind::kCopy, .sequence = 64, .pairs = 8, .vocabulary = 1 << 22}, 0, 40);
  EXPECT_DOUBLE_EQ(copy.accuracy, 7 / 8.0);
  EXPECT_EQ(copy.whole, 0);
  EXPECT_DOUBLE_EQ(copy.loss, 10 / 8.0);
}

TEST(RecallScores, WhoGuessesIsRightByChance) {
  const data::RecallShape shape{.sequence = 64, .pairs = 8, .vocabulary = 40};
  Guess guess(20, 40);
  const auto score = *score_recall(guess, shape, 0, 1000);
  // four standard deviations
  EXPECT_NEAR(score.accuracy, data::chance_of(shape), 4 * std::sqrt(0.05 * 0.95 / 8000));
  EXPECT_LT(score.whole, 0.001);
}

TEST(RecallScores, AreOfSequencesThatNobodyTrainsOn) {
  EXPECT_EQ(held_out_index(0), -1);
  EXPECT_EQ(held_out_index(7), -8);
}

TEST(RecallScores, StopsWhenToldTo) {
  Lookup lookup;
  int asked = 0;
  EXPECT_FALSE(score_recall(lookup, {.sequence = 64, .pairs = 4, .vocabulary = 64}, 0, 100,
                            [&] { return ++asked < 2; }));
  EXPECT_EQ(asked, 2);
}

}  // namespace
}  // namespace longhaul::evaluate
