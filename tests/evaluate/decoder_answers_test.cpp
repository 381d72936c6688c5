// What a decoder answers, against log-softmax in fp64 over all logits of the whole passage, which
// DecoderAnswers never makes.
#include "evaluate/decoder_answers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "data/support.h"
#include "support/models.h"

namespace longhaul::evaluate {
namespace {

using namespace longhaul::testing;

std::vector<Judged> plainly(model::Decoder& decoder, const Passage& passage) {
  const at::NoGradGuard guard;
  model::LocalOps ops;
  model::Context context(ops, decoder.precision());
  context.training = false;
  const Tensor logits = decoder.logits(decoder.hidden(
      context, id_tensor(passage.ids), layout::make_single(static_cast<int64_t>(passage.ids.size()))));
  std::vector<Judged> judged;
  for (const Target& target : passage.targets) {
    double sum = 0, most = -1e300;
    int64_t best = -1;
    for (int64_t v = 0; v < logits.size(1); ++v) {
      const double logit = logits[target.position][v].item<double>();
      sum += std::exp(logit);
      if (logit > most) most = logit, best = v;
    }
    judged.push_back({logits[target.position][target.id].item<double>() - std::log(sum), best});
  }
  return judged;
}

Passage passage_of(int64_t length, int64_t vocabulary, std::vector<int64_t> positions) {
  Passage passage;
  for (int64_t t = 0; t < length; ++t) passage.ids.push_back((t * t * 7 + length) % vocabulary);
  for (const int64_t position : positions)
    passage.targets.push_back({position, (position * 5 + 3) % vocabulary});
  return passage;
}

class DecoderAnswersOf : public ::testing::TestWithParam<int64_t> {};

// One pass, several passages in a pass, and pieces of one passage give the same. The tolerance is that of
// sums in another order.
TEST_P(DecoderAnswersOf, AreThoseOfAllLogits) {
  for (const auto& config : {hybrid_experts_post_norm(), hgrn2_hybrid(), hybrid_pre_norm_tied()}) {
    model::Decoder decoder = filled_decoder(config);
    const int64_t vocabulary = config.vocabulary;
    const std::vector<Passage> passages = {
        passage_of(1, vocabulary, {0}), passage_of(9, vocabulary, {2, 3, 8}),
        passage_of(23, vocabulary, {0, 11, 22}), passage_of(5, vocabulary, {}),
        passage_of(40, vocabulary, {7, 8, 39})};
    DecoderAnswers answers(decoder, {.tokens_per_pass = GetParam()});
    const auto judged = answers.judge(passages);
    ASSERT_EQ(judged.size(), passages.size());
    for (size_t p = 0; p < passages.size(); ++p) {
      const auto expected = plainly(decoder, passages[p]);
      ASSERT_EQ(judged[p].size(), expected.size());
      for (size_t t = 0; t < expected.size(); ++t) {
        EXPECT_NEAR(judged[p][t].log_probability, expected[t].log_probability, 1e-10) << p << " " << t;
        EXPECT_EQ(judged[p][t].predicted, expected[t].predicted);
      }
    }
  }
}
// A model may have more rows than its tokenizer has tokens: those are never the likeliest, and count in the
// probabilities all the same.
TEST(DecoderAnswers, PredictOnlyWhatTheTokenizerHas) {
  model::Decoder decoder = filled_decoder(hybrid_experts_post_norm());
  std::vector<int64_t> positions(40);
  std::iota(positions.begin(), positions.end(), 0);
  const Passage passage = passage_of(40, decoder.config().vocabulary, positions);
  const std::vector<Judged> all = plainly(decoder, passage);
  constexpr int64_t kTokens = 5;
  const std::vector<Judged> some =
      DecoderAnswers(decoder, {.vocabulary = kTokens}).judge({&passage, 1}).front();
  int64_t beyond = 0;
  for (size_t t = 0; t < all.size(); ++t) {
    beyond += all[t].predicted >= kTokens ? 1 : 0;
    EXPECT_LT(some[t].predicted, kTokens);
    EXPECT_NEAR(some[t].log_probability, all[t].log_probability, 1e-10);
    if (all[t].predicted >= kTokens) continue;
    EXPECT_EQ(some[t].predicted, all[t].predicted);
  }
  EXPECT_GT(beyond, 0) << "nothing would be seen here otherwise";
}

INSTANTIATE_TEST_SUITE_P(Passes, DecoderAnswersOf, ::testing::Values(1000, 24, 8, 3));

TEST(DecoderAnswers, GoOnGreedily) {
  model::Decoder decoder = filled_decoder(hybrid_experts_post_norm());
  const Passage prompt = passage_of(11, decoder.config().vocabulary, {10});
  std::vector<int64_t> expected;
  Passage longer = prompt;
  for (int i = 0; i < 6; ++i) {
    longer.targets = {{static_cast<int64_t>(longer.ids.size()) - 1, 0}};
    expected.push_back(plainly(decoder, longer).front().predicted);
    longer.ids.push_back(expected.back());
  }
  for (const int64_t tokens_per_pass : {100, 4}) {
    DecoderAnswers answers(decoder, {.tokens_per_pass = tokens_per_pass});
    EXPECT_EQ(answers.complete(prompt.ids, 6, {}), expected);
    const std::vector<int64_t> until(expected.begin(), std::ranges::find(expected, expected[3]));
    const std::vector<int64_t> stops = {decoder.config().vocabulary, expected[3]};
    EXPECT_EQ(answers.complete(prompt.ids, 6, stops), until);
    DecoderAnswers other(decoder, {.tokens_per_pass = tokens_per_pass, .never = {expected[0]}});
    EXPECT_EQ(std::ranges::count(other.complete(prompt.ids, 6, {}), expected[0]), 0);
  }
}

TEST(DecoderAnswers, RefusesWhatTheModelCannotRead) {
  model::Decoder decoder = filled_decoder(gpt2_like());
  const recipe::ModelConfig& config = decoder.config();
  DecoderAnswers answers(decoder, {});
  const Passage too_long = passage_of(config.max_positions + 1, config.vocabulary, {0});
  EXPECT_EQ(data::error_of([&] { answers.judge({&too_long, 1}); }).code(), ExitCode::kUsage);
  const Passage outside{.ids = {config.vocabulary}, .targets = {}};
  EXPECT_EQ(data::error_of([&] { answers.judge({&outside, 1}); }).code(), ExitCode::kData);
}

}  // namespace
}  // namespace longhaul::evaluate
