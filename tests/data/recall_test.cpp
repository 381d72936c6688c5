// Sequences of random tokens: what stands where, checked by walking through them as somebody who answers
// would.
#include "data/order/recall.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "data/support.h"

namespace longhaul::data {
namespace {

using recipe::RecallKind;

TEST(RecallRows, MqarAsksForEveryPairOnce) {
  for (const RecallShape& shape :
       {RecallShape{.sequence = 64, .pairs = 4, .vocabulary = 64},
        RecallShape{.sequence = 65, .pairs = 16, .vocabulary = 8192},
        RecallShape{.sequence = 16, .pairs = 4, .vocabulary = 10, .nearness = 1}}) {
    for (int64_t index : {int64_t{0}, int64_t{7}, int64_t{-1}}) {
      const RecallRow row = recall_row(shape, 3, index);
      ASSERT_EQ(row.inputs.size(), static_cast<size_t>(shape.sequence));
      std::map<int64_t, int64_t> pairs;
      std::set<int64_t> values;
      for (int64_t p = 0; p < shape.pairs; ++p) {
        const int64_t key = row.inputs[static_cast<size_t>(2 * p)],
                      value = row.inputs[static_cast<size_t>(2 * p + 1)];
        EXPECT_TRUE(key >= 1 && key < shape.vocabulary / 2) << key;
        EXPECT_TRUE(value >= shape.vocabulary / 2 && value < shape.vocabulary) << value;
        EXPECT_TRUE(pairs.emplace(key, value).second) << "a key twice";
        EXPECT_TRUE(values.insert(value).second) << "a value twice";
      }
      std::set<int64_t> asked;
      for (int64_t t = 0; t < shape.sequence; ++t) {
        const int64_t label = row.labels[static_cast<size_t>(t)];
        if (label == -1) continue;
        EXPECT_GE(t, 2 * shape.pairs);
        EXPECT_EQ(t % 2, 0);
        EXPECT_EQ(label, pairs.at(row.inputs[static_cast<size_t>(t)]));
        EXPECT_TRUE(asked.insert(row.inputs[static_cast<size_t>(t)]).second);
      }
      EXPECT_EQ(asked.size(), static_cast<size_t>(shape.pairs));
    }
  }
}

TEST(RecallRows, CopySaysTheSameAgain) {
  const RecallShape shape{.kind = RecallKind::kCopy, .sequence = 21, .pairs = 6, .vocabulary = 9};
  const RecallRow row = recall_row(shape, 0, 5);
  const std::vector<int64_t> first(row.inputs.begin(), row.inputs.begin() + 6);
  for (const int64_t token : first) EXPECT_TRUE(token >= 2 && token < 9);
  for (size_t t = 6; t < 15; ++t) EXPECT_EQ(row.inputs[t], 0);
  EXPECT_EQ(row.inputs[15], 1);
  EXPECT_EQ(std::vector<int64_t>(row.labels.begin() + 15, row.labels.end()), first);
  EXPECT_EQ(std::vector<int64_t>(row.inputs.begin() + 16, row.inputs.end()),
            std::vector<int64_t>(first.begin(), first.end() - 1));
  for (size_t t = 0; t < 15; ++t) EXPECT_EQ(row.labels[t], -1);
}

TEST(RecallRows, AreFunctionsOfSeedAndIndex) {
  const RecallShape shape{.sequence = 32, .pairs = 4, .vocabulary = 100};
  EXPECT_EQ(recall_row(shape, 1, 2).inputs, recall_row(shape, 1, 2).inputs);
  EXPECT_NE(recall_row(shape, 1, 2).inputs, recall_row(shape, 1, 3).inputs);
  EXPECT_NE(recall_row(shape, 1, 2).inputs, recall_row(shape, 2, 2).inputs);
  EXPECT_NE(recall_row(shape, 1, 0).inputs, recall_row(shape, 1, -1).inputs);
}

// With a = 1 each of the slots is as likely; with a small one the first slot is drawn far more often than the
// last. The expected share of the first draw among S slots: s^(a−1) / Σ.
TEST(RecallRows, QuestionsFollowThePowerLaw) {
  const auto share_of_first_slot = [](double nearness) {
    const RecallShape shape{.sequence = 42, .pairs = 1, .vocabulary = 100, .nearness = nearness};
    int first = 0;
    for (int64_t i = 0; i < 4000; ++i) first += recall_row(shape, 9, i).labels[2] != -1;
    return first / 4000.0;
  };
  double sum = 0;
  for (int s = 1; s <= 20; ++s) sum += std::pow(s, -0.99);
  EXPECT_NEAR(share_of_first_slot(1), 1 / 20.0, 0.015);  // four standard deviations of 4,000 draws
  EXPECT_NEAR(share_of_first_slot(0.01), 1 / sum, 0.03);
}

TEST(RecallRows, RefusesWhatDoesNotFit) {
  EXPECT_EQ(error_of([] { recall_row({.sequence = 15, .pairs = 4, .vocabulary = 64}, 0, 0); }).code(),
            ExitCode::kUsage);
  EXPECT_EQ(error_of([] { recall_row({.sequence = 64, .pairs = 8, .vocabulary = 16}, 0, 0); }).code(),
            ExitCode::kUsage);
  EXPECT_EQ(error_of([] {
              recall_row({.kind = RecallKind::kCopy, .sequence = 7, .pairs = 4, .vocabulary = 64}, 0, 0);
            }).code(),
            ExitCode::kUsage);
  EXPECT_EQ(problem_of({.sequence = 16, .pairs = 4, .vocabulary = 10}), "");
  EXPECT_DOUBLE_EQ(chance_of({.sequence = 16, .pairs = 4, .vocabulary = 10}), 1 / 5.0);
}

}  // namespace
}  // namespace longhaul::data
