#include "plan/flops.h"

#include <gtest/gtest.h>

#include "layout/schedule/pipeline.h"
#include "recipe/architecture/presets.h"
#include "recipe/mixers.h"

namespace longhaul::plan {
namespace {

recipe::ModelConfig text_01() { return recipe::preset_model("minimax-text-01"); }

// Known values: docs/sources/megascale.md §8.6, whose figures are given to four or five digits.
TEST(Flops, MiniMaxText01) {
  EXPECT_NEAR(training_flops_per_token(text_01(), 8192).matrices, 2.8304e11, 1e7);
  EXPECT_NEAR(training_flops_per_token(text_01(), 8192).recurrence, 8.81e8, 1e6);
  EXPECT_NEAR(training_flops_per_token(text_01(), 8192).full(), 2.9197e11, 1e7);
  EXPECT_NEAR(training_flops_per_token(text_01(), 8192).causal(), 2.8794e11, 1e7);
  EXPECT_NEAR(training_flops_per_token(text_01(), 1048576).full(), 1.3147e12, 1e8);
  EXPECT_NEAR(training_flops_per_token(text_01(), 1048576).causal(), 7.993e11, 1e8);
}

// Equation 8.2 (Narayanan 2021): h 12,288, 96 layers, 2,048 tokens, vocabulary 64,000.
TEST(Flops, DenseGpt) {
  recipe::ModelConfig config{.layers = 96,
                             .hidden = 12288,
                             .vocabulary = 64000,
                             .heads = 96,
                             .head_dim = 128,
                             .softmax = {.kv_heads = 96},
                             .channel = recipe::Channel::kGelu,
                             .intermediate = 4 * 12288};
  EXPECT_NEAR(training_flops_per_token(config, 2048).full(), 1.07739e12, 1e7);
  EXPECT_NEAR(training_flops_per_token(config, 2048).causal(), 1.06289e12, 1e7);
}

// A dense GPT's second forward pass is a third of its layers' products, whatever the sequence: attention is
// kept. Of Text-01's lightning layers the recurrence is a third too, and nothing is made again of its head.
TEST(Flops, WhatRecomputationMakesAgain) {
  recipe::ModelConfig config{.layers = 96,
                             .hidden = 12288,
                             .vocabulary = 64000,
                             .heads = 96,
                             .head_dim = 128,
                             .softmax = {.kv_heads = 96},
                             .channel = recipe::Channel::kGelu,
                             .intermediate = 4 * 12288};
  EXPECT_NEAR(flops_again_per_token(config, recipe::Recompute::kFull), 2.0 * 96 * 12 * 12288 * 12288, 1e3);
  EXPECT_EQ(flops_again_per_token(config, recipe::Recompute::kTokens),
            flops_again_per_token(config, recipe::Recompute::kFull));  // without a recurrence
  // Of 96 layers in four stages of 24, the first three of each.
  const auto again = layout::first_of_stages(layout::Pipeline(4), 96, 3);
  EXPECT_NEAR(flops_again_per_token(config, recipe::Recompute::kFull, again),
              flops_again_per_token(config, recipe::Recompute::kFull) / 8, 1e3);
  EXPECT_EQ(flops_again_per_token(config, recipe::Recompute::kSelective), 0);
  EXPECT_EQ(flops_again_per_token(config, recipe::Recompute::kNone), 0);
  const recipe::ModelConfig text = text_01();
  const TokenFlops once = training_flops_per_token(text, 8192);
  const double head = 6.0 * static_cast<double>(text.vocabulary * text.hidden);
  EXPECT_NEAR(flops_again_per_token(text, recipe::Recompute::kFull),
              (once.matrices - head + once.recurrence) / 3, 1e-6 * once.matrices);
  EXPECT_NEAR(flops_again_per_token(text, recipe::Recompute::kTokens), (once.matrices - head) / 3,
              1e-6 * once.matrices);
}

// PFLOPs of a step of 480 × 8,192 tokens, without embedding and head: arXiv 2406.16690, table 7. Its
// recurrence is the chunked form's, which is more than the minimum that counts here by 1/(6·heads) of the
// rest.
TEST(Flops, PublishedHgrn2) {
  struct Size {
    int64_t layers, hidden, heads, intermediate;
    double petaflops;
  };
  for (const Size& size : {Size{12, 768, 6, 2048, 2.1}, {32, 4096, 32, 11008, 153.6}}) {
    const recipe::ModelConfig config{.layers = size.layers,
                                     .hidden = size.hidden,
                                     .vocabulary = 100280,
                                     .heads = size.heads,
                                     .head_dim = 128,
                                     .mixers = {recipe::Mixer::kHgrn2},
                                     .intermediate = size.intermediate};
    const TokenFlops flops = training_flops_per_token(config, 8192);
    EXPECT_EQ(flops.attention_full, 0);
    EXPECT_EQ(flops.recurrence, 12.0 * static_cast<double>(size.layers * size.hidden * 128));
    const double head = 6.0 * static_cast<double>(config.vocabulary * config.hidden);
    EXPECT_NEAR((flops.full() - head) * 480 * 8192 / 1e15, size.petaflops, 0.03 * size.petaflops)
        << size.hidden;
  }
}

// A token sees at most 1,024 keys: over 4,096 tokens the first 1,024 of them see half as many in the mean,
// 1,024 − 1,024²/8,192 in all.
TEST(Flops, Windows) {
  recipe::ModelConfig config;
  config.layers = 1;
  config.softmax.windows = {1024};
  const TokenFlops flops = training_flops_per_token(config, 4096);
  EXPECT_NEAR(flops.attention_causal / flops.attention_full, 896.0 / 4096, 1e-12);
  config.layers = 2;
  config.softmax.windows = {0, 1024};  // every second layer
  const TokenFlops mixed = training_flops_per_token(config, 4096);
  EXPECT_NEAR(mixed.attention_causal / mixed.attention_full, (0.5 + 896.0 / 4096) / 2, 1e-12);
  config.layers = 1;
  EXPECT_NEAR(training_flops_per_token(config, 512).attention_causal /
                  training_flops_per_token(config, 512).attention_full,
              0.5, 1e-12);
}

// A module that predicts further ahead has a product with the head of its own, beside a layer and what joins
// two norms.
TEST(Flops, ModulesThatPredictAhead) {
  recipe::ModelConfig config;
  config.layers = 2;
  config.tie_embeddings = true;
  const double without = training_flops_per_token(config, 128).matrices;
  config.layers = 3;
  const double a_layer = training_flops_per_token(config, 128).matrices - without;
  config.layers = 2;
  config.predict_ahead = 1;
  const double hidden = static_cast<double>(config.hidden),
               head = static_cast<double>(config.vocabulary) * hidden;
  EXPECT_NEAR(training_flops_per_token(config, 128).matrices - without,
              a_layer + 6 * (head + 2 * hidden * hidden), 1);
}

// The delta rule makes three products of a state and a vector a token: what it has under the key, what it
// takes in, what it gives out.
TEST(Flops, DeltaRule) {
  const recipe::ModelConfig config = recipe::preset_model("deltanet-1.3b");
  double products = 0;
  for (int64_t l = 0; l < config.layers; ++l) {
    const auto [attention, recurrence, angles, delta_rule] = recipe::operators_of_layer(config, l);
    products += static_cast<double>(delta_rule.heads * delta_rule.key * delta_rule.value);
  }
  ASSERT_GT(products, 0);
  EXPECT_EQ(training_flops_per_token(config, 4096).recurrence, 3 * (3 * 2) * products)
      << "forward and twice that backward";
}

// Latent attention: products of what its matrices are, scores over key and shared channels, sums over the
// values' own.
TEST(Flops, LatentAttention) {
  recipe::ModelConfig config = recipe::preset_model("kimi-linear-48b"), without = config;
  without.mixers = {recipe::Mixer::kKda};
  config.mixers = {recipe::Mixer::kMla};
  config.layers = without.layers = 1;
  const TokenFlops flops = training_flops_per_token(config, 4096),
                   kda = training_flops_per_token(without, 4096);
  EXPECT_EQ(flops.attention_full, 3.0 * 2 * 32 * (192 + 128) * 4096);
  EXPECT_EQ(flops.attention_causal, 3.0 * 32 * (192 + 128) * 4096);
  EXPECT_EQ(flops.recurrence, 0);
  const double inner = 4096, latent = 2304 * 32 * 192 + 2304 * 576 + 512 * 32 * 256 + 2304 * inner;
  const double delta =
      2304 * (3 * inner + 32) + 2 * 2304 * 128 + 2 * 128 * inner + 4 * 3 * inner + 2304 * inner;
  EXPECT_EQ(flops.matrices - kda.matrices, 6 * (latent - delta));
}

// Without an order attention sees all keys in both conventions, and one sum over a document takes what a
// recurrence takes: its two products.
TEST(Flops, WithoutAnOrder) {
  recipe::ModelConfig config;
  config.layers = 2;
  config.mixers = {recipe::Mixer::kSoftmax, recipe::Mixer::kLightnet};
  config.lightnet.expand = 24;
  const TokenFlops causal = training_flops_per_token(config, 128);
  config.causal = false;
  const TokenFlops whole = training_flops_per_token(config, 128);
  EXPECT_EQ(whole.attention_full, 3.0 * 2 * 8 * (64 + 64) * 128);
  EXPECT_EQ(whole.attention_causal, whole.attention_full);
  EXPECT_EQ(causal.attention_causal, whole.attention_full / 2);
  EXPECT_EQ(whole.recurrence, 3.0 * 4 * 8 * 24 * 64);
  EXPECT_EQ(whole.matrices, causal.matrices);
}

// A Toeplitz encoding: two multiply-adds a channel and exponential, forward and twice that backward
// (docs/sources/linear-attention.md §8.3: 4 n d e forward); its coefficients are in no product. And of the
// published cosFormer2 models PFLOPs of a step, as above, whose table has the chunked recurrence.
TEST(Flops, ToeplitzEncoding) {
  recipe::ModelConfig config = recipe::preset_model("cosformer2-70m"), without = config;
  without.toeplitz = 0;
  const TokenFlops with = training_flops_per_token(config, 8192),
                   less = training_flops_per_token(without, 8192);
  EXPECT_EQ(with.recurrence - less.recurrence, 3.0 * 4 * 512 * 128);
  EXPECT_EQ(with.matrices, less.matrices);
}

}  // namespace
}  // namespace longhaul::plan
