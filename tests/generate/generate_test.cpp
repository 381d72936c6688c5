// Decoding with caches against the full forward pass, and what ends a text.
#include "generate/generate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "model/state.h"
#include "support/variant_models.h"

namespace longhaul::generate {
namespace {

using namespace longhaul::testing;

// The logits [vocabulary] of a state with one sequence, after more tokens of it.
Tensor advance_one(model::Decoder& decoder, const std::vector<int64_t>& ids, model::DecoderState& state) {
  const Continuation continuation{0, ids};
  return advance(decoder, std::span(&continuation, 1), state)[0];
}

model::DecoderState state_of_one(const model::Decoder& decoder) {
  model::DecoderState state = decoder.make_state();
  EXPECT_EQ(state.add(), 0);
  return state;
}

// [tokens, vocabulary]: what the model says after each token, without any cache.
Tensor full_logits(model::Decoder& decoder, const std::vector<int64_t>& ids) {
  const at::NoGradGuard guard;
  model::LocalOps ops;
  model::Context context(ops, decoder.precision());
  context.training = false;
  return decoder.logits(
      decoder.hidden(context, id_tensor(ids), layout::make_single(static_cast<int64_t>(ids.size()))));
}

class Decoding : public ::testing::TestWithParam<NamedConfig> {};

TEST_P(Decoding, PrefillAndDecodeEqualTheFullPass) {
  const std::pair<const char*, double> precisions[] = {{"fp64", 1e-10}, {"fp32", 1e-4}};
  for (const auto& [dtype, tolerance] : precisions) {
    model::Decoder decoder = filled_decoder(GetParam().config, dtype);
    const auto ids = random_ids(18, GetParam().config.vocabulary, 8);
    const Tensor full = full_logits(decoder, ids);
    for (const int64_t prefill : {1, 2, 4, 7, 17, 18}) {
      model::DecoderState state = state_of_one(decoder);
      Tensor logits = advance_one(decoder, {ids.begin(), ids.begin() + prefill}, state);
      EXPECT_LT(relative_error(logits, full[prefill - 1]), tolerance) << dtype << " prefill " << prefill;
      for (int64_t t = prefill; t < 18; ++t) {
        logits = advance_one(decoder, {ids[static_cast<size_t>(t)]}, state);
        EXPECT_LT(relative_error(logits, full[t]), tolerance)
            << dtype << " prefill " << prefill << " token " << t;
      }
      EXPECT_EQ(state.tokens(0), 18);
    }
  }
}

// A prompt that comes in several parts, none of a chunk's length.
TEST_P(Decoding, ChunkedPrefill) {
  model::Decoder decoder = filled_decoder(GetParam().config);
  const auto ids = random_ids(18, GetParam().config.vocabulary, 9);
  model::DecoderState state = state_of_one(decoder);
  advance_one(decoder, {ids.begin(), ids.begin() + 5}, state);
  advance_one(decoder, {ids.begin() + 5, ids.begin() + 11}, state);
  const Tensor last = advance_one(decoder, {ids.begin() + 11, ids.end()}, state);
  EXPECT_LT(relative_error(last, full_logits(decoder, ids)[17]), 1e-10);
}

TEST_P(Decoding, GreedyTextIsTheFullPassRepeated) {
  model::Decoder decoder = filled_decoder(GetParam().config);
  const std::vector<int64_t> prompt = {28, 3, 1, 4};
  std::vector<int64_t> ids = prompt, expected;
  for (int i = 0; i < 8; ++i) {
    const int64_t next =
        full_logits(decoder, ids)[static_cast<int64_t>(ids.size()) - 1].argmax().item<int64_t>();
    if (next == 28) break;
    expected.push_back(next);
    ids.push_back(next);
  }
  std::vector<int64_t> streamed;
  const Generation generation = generate(decoder, prompt, {.tokens = 8, .temperature = 0, .stop_ids = {28}},
                                         [&](int64_t id) { streamed.push_back(id); });
  EXPECT_EQ(generation.ids, expected);
  EXPECT_EQ(streamed, expected);
  EXPECT_EQ(generation.prefill_tokens, 4);
}

const auto name_of_model = [](const auto& named) { return named.param.name; };
INSTANTIATE_TEST_SUITE_P(Small, Decoding, ::testing::ValuesIn(small_models()), name_of_model);
INSTANTIATE_TEST_SUITE_P(Variants, Decoding, ::testing::ValuesIn(variant_models()), name_of_model);

TEST(Generate, SameSeedSameText) {
  model::Decoder decoder = filled_decoder(hybrid_experts_post_norm(), "fp32");
  const auto text = [&](uint64_t seed) {
    return generate(decoder, {5}, {.tokens = 16, .temperature = 1, .top_p = 1, .seed = seed}).ids;
  };
  EXPECT_EQ(text(1).size(), 16u);
  EXPECT_EQ(text(1), text(1));
  EXPECT_NE(text(1), text(2));
}

// All weights zero: every id is as likely at every token. Five standard deviations of a count
// whose mean is 1,160 / 29 = 40 are 31.
TEST(Generate, DrawsSpreadOverTheVocabulary) {
  model::Decoder decoder(llama_like(), Precision::named("fp32"));
  const auto ids = generate(decoder, {1}, {.tokens = 1160, .temperature = 1, .top_p = 1}).ids;
  std::vector<int64_t> counts(29, 0);
  int64_t repeated = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    ++counts[static_cast<size_t>(ids[i])];
    repeated += i > 0 && ids[i] == ids[i - 1] ? 1 : 0;
  }
  for (int64_t id = 0; id < 29; ++id)
    EXPECT_NEAR(static_cast<double>(counts[static_cast<size_t>(id)]), 40, 31) << id;
  EXPECT_NEAR(static_cast<double>(repeated), 40, 31) << "neighbours are independent";
}

// All weights zero: every row is as likely. The tokenizer of this text has 3 tokens, the model 29 rows.
TEST(Generate, DrawsOnlyWhatTheTokenizerHas) {
  model::Decoder decoder(llama_like(), Precision::named("fp32"));
  const auto largest = [&](int64_t vocabulary) {
    const auto ids =
        generate(decoder, {1}, {.tokens = 200, .temperature = 1, .top_p = 1, .vocabulary = vocabulary}).ids;
    return *std::max_element(ids.begin(), ids.end());
  };
  EXPECT_EQ(largest(3), 2);
  EXPECT_GT(largest(0), 2);
  EXPECT_EQ(largest(1000), largest(0)) << "a tokenizer that knows more than the model";
}

// All weights zero: without the two it would be id 0 each time. A tokenizer.json may leave gaps, and its ids
// below the highest have rows here.
TEST(Generate, NeverDrawsWhatStandsForNothing) {
  model::Decoder decoder(llama_like(), Precision::named("fp32"));
  EXPECT_EQ(generate(decoder, {7}, {.tokens = 3, .temperature = 0, .never = {0, 1}}).ids,
            (std::vector<int64_t>{2, 2, 2}));
  const auto ids = generate(decoder, {7},
                            {.tokens = 200,
                             .temperature = 1,
                             .top_p = 1,
                             .vocabulary = 4,
                             .never = {0, 3, 50},
                             .stop_ids = {28}})
                       .ids;
  EXPECT_EQ(std::set<int64_t>(ids.begin(), ids.end()), (std::set<int64_t>{1, 2}));
}

// All weights zero: 29 tokens, of which two are never drawn, are equally likely.
TEST(Generate, SaysHowLikelyItsTokensWere) {
  model::Decoder decoder(llama_like(), Precision::named("fp32"));
  const Generation with = generate(decoder, {7},
                                   {.tokens = 9,
                                    .temperature = 1.7,
                                    .top_k = 3,
                                    .log_probabilities = true,
                                    .never = {0, 1},
                                    .stop_ids = {28}});
  EXPECT_EQ(with.ids.size(), 9u);
  ASSERT_EQ(with.log_probabilities.size(), with.ids.size());
  for (const double each : with.log_probabilities) EXPECT_NEAR(each, -std::log(27.0), 1e-6);
  EXPECT_TRUE(generate(decoder, {7}, {.tokens = 3}).log_probabilities.empty());
}

TEST(Generate, LeavesNoGradient) {
  model::Decoder decoder = filled_decoder(gpt2_like(), "fp32");
  model::DecoderState state = state_of_one(decoder);
  EXPECT_FALSE(advance_one(decoder, {1, 2}, state).requires_grad());
  const kernels::KeyValueCache& cache = *state.layers()[0].pages();
  EXPECT_FALSE(cache.pool().keys(cache.pages(0).at(0)).requires_grad());
  EXPECT_EQ(cache.tokens(0), 2);
}

// All weights zero: logits are equal, the likeliest token is id 0.
TEST(Generate, StopsAtAnyStopToken) {
  model::Decoder decoder(llama_like(), Precision::named("fp32"));
  const Generation stopped = generate(decoder, {7}, {.tokens = 5, .temperature = 0, .stop_ids = {28, 0}});
  EXPECT_TRUE(stopped.ids.empty());
  EXPECT_EQ(stopped.finish, Finish::kStop);
  const Generation all = generate(decoder, {28}, {.tokens = 5, .temperature = 0, .stop_ids = {28}});
  EXPECT_EQ(all.ids, (std::vector<int64_t>{0, 0, 0, 0, 0}));
  EXPECT_EQ(all.finish, Finish::kTokens);
  EXPECT_EQ(all.prefill_tokens, 1);
  EXPECT_TRUE(generate(decoder, {7}, {.tokens = 0}).ids.empty());
  const Generation later =
      generate(decoder, {7}, {.tokens = 5, .min_tokens = 2, .temperature = 0, .stop_ids = {0, 1}});
  EXPECT_EQ(later.ids, (std::vector<int64_t>{2, 2})) << "the next likeliest, until the text may end";
  EXPECT_EQ(later.finish, Finish::kStop);
}

// Behind cosformer.longest tokens a layer would weigh with the other sign.
TEST(Generate, WhatCosformerLayersCanWeighEnds) {
  recipe::ModelConfig config = llama_like();
  config.mixers = {recipe::Mixer::kCosformer};
  config.cosformer.longest = 24;
  model::Decoder decoder(config, Precision::named("fp32"));
  const GenerateSettings greedy{.tokens = 100, .temperature = 0, .stop_ids = {28}};
  const Generation full = generate(decoder, std::vector<int64_t>(21, 1), greedy);
  EXPECT_EQ(full.ids.size(), 4u) << "21 and 3 are read; the last one is drawn and not read";
  EXPECT_EQ(full.finish, Finish::kPositions);
  try {
    generate(decoder, std::vector<int64_t>(25, 1), greedy);
    ADD_FAILURE() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_NE(error.fields().expected.find("model.cosformer.longest"), std::string::npos);
  }
  // Whoever hands it a longer sequence directly is refused by the layer.
  model::LocalOps ops;
  model::Context context(ops, decoder.precision());
  const at::NoGradGuard no_gradients;
  EXPECT_NO_THROW(decoder.hidden(context, at::ones({24}, at::kLong), layout::make_single(24)));
  EXPECT_THROW(decoder.hidden(context, at::ones({25}, at::kLong), layout::make_single(25)), Error);
  EXPECT_NO_THROW(decoder.hidden(context, at::ones({36}, at::kLong), layout::make_batch(2, 18)))
      << "documents begin anew";
}

TEST(Generate, LearnedPositionsEnd) {
  model::Decoder decoder(gpt2_like(), Precision::named("fp32"));  // 24 positions
  const GenerateSettings greedy{.tokens = 100, .temperature = 0, .stop_ids = {28}};
  const Generation full = generate(decoder, std::vector<int64_t>(24, 1), greedy);
  EXPECT_EQ(full.ids.size(), 1u) << "the last token needs no position of its own";
  EXPECT_EQ(full.finish, Finish::kPositions);
  EXPECT_EQ(name_of(full.finish), "positions");
  EXPECT_EQ(generate(decoder, std::vector<int64_t>(21, 1), greedy).ids.size(), 4u);
  const auto code = [&](const std::vector<int64_t>& prompt, const GenerateSettings& settings) {
    try {
      generate(decoder, prompt, settings);
    } catch (const Error& error) {
      return error.code();
    }
    return ExitCode::kDone;
  };
  EXPECT_EQ(code(std::vector<int64_t>(25, 1), greedy), ExitCode::kUsage);
  EXPECT_EQ(code({}, {}), ExitCode::kUsage) << "nothing to continue";
  EXPECT_EQ(code({29}, greedy), ExitCode::kData);
  EXPECT_EQ(code({1}, {.temperature = -1}), ExitCode::kUsage);
  EXPECT_EQ(code({1}, {.tokens = 3, .min_tokens = 4}), ExitCode::kUsage);
  EXPECT_EQ(code({1}, {.tokens = 3, .min_tokens = 3}), ExitCode::kDone);
}

}  // namespace
}  // namespace longhaul::generate
