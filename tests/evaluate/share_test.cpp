// Tasks that ranks share: to the bit what one process finds, whatever their number, and each question asked
// once.
#include "evaluate/share.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "evaluate/choice.h"
#include "evaluate/decoder_answers.h"
#include "evaluate/grid.h"
#include "evaluate/known_answers.h"
#include "evaluate/ranks.h"
#include "evaluate/recall.h"
#include "support/models.h"

namespace longhaul::evaluate {
namespace {

using namespace longhaul::testing;

// What it says depends on the passage alone, is right now and then, and sums of its numbers depend on their
// order.
class Moody final : public Answers {
 public:
  explicit Moody(std::atomic<int64_t>& asked) : asked_(asked) {}
  std::vector<std::vector<Judged>> judge(std::span<const Passage> passages) override {
    asked_ += static_cast<int64_t>(passages.size());
    std::vector<std::vector<Judged>> result;
    for (const Passage& passage : passages) {
      auto& judged = result.emplace_back();
      uint64_t mood = 1;
      for (const int64_t id : passage.ids)
        mood = mood * 6364136223846793005ULL + static_cast<uint64_t>(id) + 1442695040888963407ULL;
      for (const Target& target : passage.targets) {
        mood = mood * 6364136223846793005ULL + static_cast<uint64_t>(target.id);
        judged.push_back({.log_probability = -std::exp(static_cast<double>(mood >> 40) / 1e6),
                          .predicted = mood >> 60 < 6 ? target.id : -1});
      }
    }
    return result;
  }
  std::vector<int64_t> complete(std::span<const int64_t> prompt, int64_t tokens,
                                std::span<const int64_t>) override {
    ++asked_;
    // all numbers that stand there: now and then the right one
    std::vector<int64_t> said(prompt.begin(), prompt.end());
    const size_t most = static_cast<size_t>(tokens) + prompt.size() % 3 * 400;
    if (said.size() > most) said.erase(said.begin(), said.end() - static_cast<ptrdiff_t>(most));
    return said;
  }

 private:
  std::atomic<int64_t>& asked_;
};

constexpr int64_t kRanks[] = {2, 3, 7};

TEST(SharedTasks, RecallIsThatOfOneProcess) {
  const data::RecallShape shape{.sequence = 64, .pairs = 6, .vocabulary = 50};
  std::atomic<int64_t> asked = 0;
  Moody one(asked);
  const RecallScore expected = *score_recall(one, shape, 3, 70);
  EXPECT_GT(expected.accuracy, 0.2);
  EXPECT_LT(expected.accuracy, 0.6);
  for (const int64_t ranks : kRanks) {
    asked = 0;
    const auto found = on_ranks<RecallScore>(ranks, [&](const EvaluationShare& share) {
      Moody answers(asked);
      return *score_recall(answers, shape, 3, 70, {}, share);
    });
    EXPECT_EQ(asked, 70) << "each sequence once";
    for (const RecallScore& score : found) {
      EXPECT_EQ(score.accuracy, expected.accuracy) << ranks;
      EXPECT_EQ(score.whole, expected.whole) << ranks;
      EXPECT_EQ(score.loss, expected.loss) << ranks;
      EXPECT_EQ(score.answers, expected.answers) << ranks;
      EXPECT_EQ(score.sequences, 70) << ranks;
    }
  }
}

TEST(SharedTasks, ChoicesAreThoseOfOneProcess) {
  std::vector<ChoiceItem> items;
  for (int i = 0; i < 41; ++i) {
    const std::string word = "question " + std::to_string(i);
    items.push_back({{word}, {" a", " bb", " c" + word}, {"a", "bb", "c" + word}, i % 3});
    if (i % 4 == 0)
      items.back().continuations.pop_back(), items.back().choices.pop_back(), items.back().gold = 0;
  }
  std::atomic<int64_t> asked = 0;
  Moody one(asked);
  const ChoiceResult expected = score_choices(one, data::Tokenizer::bytes(), items);
  const int64_t all = asked;
  EXPECT_GT(expected.acc, 0.1);
  EXPECT_NE(expected.acc, expected.acc_mutual_info);
  for (const int64_t ranks : kRanks) {
    asked = 0;
    const auto found = on_ranks<ChoiceResult>(ranks, [&](const EvaluationShare& share) {
      Moody answers(asked);
      return score_choices(answers, data::Tokenizer::bytes(), items, {}, {}, share);
    });
    EXPECT_EQ(asked, all);
    for (const ChoiceResult& result : found) {
      EXPECT_EQ(result.items, expected.items);
      EXPECT_EQ(result.choices, expected.choices);
      EXPECT_EQ(result.acc, expected.acc) << ranks;
      EXPECT_EQ(result.acc_norm, expected.acc_norm) << ranks;
      EXPECT_EQ(result.acc_bytes, expected.acc_bytes) << ranks;
      EXPECT_EQ(result.acc_mutual_info, expected.acc_mutual_info) << ranks;
      EXPECT_EQ(result.acc_error, expected.acc_error) << ranks;
      EXPECT_EQ(result.chance, expected.chance) << ranks;
    }
  }
}

void expect_same(const Grid& found, const Grid& expected, int64_t ranks) {
  EXPECT_EQ(found.rows, expected.rows);
  EXPECT_EQ(found.columns, expected.columns);
  ASSERT_EQ(found.values.size(), expected.values.size());
  for (size_t r = 0; r < expected.values.size(); ++r) {
    ASSERT_EQ(found.values[r].size(), expected.values[r].size());
    for (size_t c = 0; c < expected.values[r].size(); ++c) {
      const double one = found.values[r][c], other = expected.values[r][c];
      EXPECT_TRUE(one == other || (std::isnan(one) && std::isnan(other)))
          << ranks << " ranks, entry " << r << ", " << c;
    }
  }
}

// Lengths at which some kinds have no question: nobody is asked, and the numbers of the others do not move.
TEST(SharedTasks, GridsAreThoseOfOneProcess) {
  const data::Tokenizer tokenizer = data::Tokenizer::bytes();
  const GridRequest request{.lengths = {500, 1900}, .samples = 2, .seed = 5, .haystack = {}};
  std::atomic<int64_t> asked = 0;
  Moody one(asked);
  const Grid needles = needle_grid(one, tokenizer, request, "values", {0, 0.4, 1});
  EXPECT_EQ(asked, 12);
  asked = 0;
  const Grid kinds = ruler_grid(one, tokenizer, request, ruler_kinds());
  const int64_t of_kinds = asked;
  EXPECT_LT(of_kinds, static_cast<int64_t>(4 * ruler_kinds().size())) << "nothing was left out";
  EXPECT_GT(needles.mean() + kinds.mean(), 0);
  for (const int64_t ranks : kRanks) {
    asked = 0;
    for (const Grid& grid : on_ranks<Grid>(ranks, [&](const EvaluationShare& share) {
           Moody answers(asked);
           return needle_grid(answers, tokenizer, request, "values", {0, 0.4, 1}, {}, share);
         })) {
      expect_same(grid, needles, ranks);
    }
    EXPECT_EQ(asked, 12);
    asked = 0;
    for (const Grid& grid : on_ranks<Grid>(ranks, [&](const EvaluationShare& share) {
           Moody answers(asked);
           return ruler_grid(answers, tokenizer, request, ruler_kinds(), {}, share);
         })) {
      expect_same(grid, kinds, ranks);
    }
    EXPECT_EQ(asked, of_kinds);
  }
}

// A decoder on each rank: the same passages stand beside each other as in one process.
TEST(SharedTasks, OfDecodersAreThoseOfOneProcess) {
  recipe::ModelConfig config = hybrid_experts_post_norm();
  config.vocabulary = 64;
  const data::RecallShape shape{.sequence = 32, .pairs = 4, .vocabulary = 64};
  const auto score = [&](const EvaluationShare& share) {
    model::Decoder decoder = filled_decoder(config, "bf16");
    DecoderAnswers answers(decoder, {.tokens_per_pass = 200});
    return *score_recall(answers, shape, 1, 50, {}, share);
  };
  const RecallScore expected = score({});
  for (const RecallScore& found : on_ranks<RecallScore>(3, score)) {
    EXPECT_EQ(found.loss, expected.loss);
    EXPECT_EQ(found.accuracy, expected.accuracy);
  }
}

}  // namespace
}  // namespace longhaul::evaluate
