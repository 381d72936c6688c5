#include "plan/flops.h"

#include <gtest/gtest.h>

#include "recipe/presets.h"

namespace longhaul::plan {
namespace {

recipe::ModelConfig text_01() { return recipe::preset_model("minimax-text-01"); }

// Known values: megascale.md §8.6, whose figures are given to four or five digits.
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

}  // namespace
}  // namespace longhaul::plan
