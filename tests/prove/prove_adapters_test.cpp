// Models with adapters on several ranks give what one process gives: each way in which a layout cuts them.
// ctest: label=full timeout=600
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proved_models.h"

namespace longhaul::prove {
namespace {

using ::testing::HasSubstr;

recipe::ModelConfig adapted(recipe::ModelConfig config,
                            recipe::AdapterKind kind = recipe::AdapterKind::kLora) {
  config.lora = {.rank = 3, .alpha = 9, .kind = kind};
  return config;
}

recipe::ModelConfig grouped_keys() {
  recipe::ModelConfig config;
  config.mixers = {recipe::Mixer::kSoftmax, recipe::Mixer::kGatedDeltaNet};
  config.heads = 4;
  config.softmax.kv_heads = 2;
  config.softmax.bias = recipe::AttentionBias::kQkv;
  return config;
}

TEST(ProveAdapters, OfDenseModels) {
  expect_proved(adapted(grouped_keys()), {{.tp = 2},
                                          {.tp = 4},
                                          {.pp = 2},
                                          {.tp = 2, .cp = 2},
                                          {.ranks = 2, .zero = 1},
                                          {.ranks = 2, .zero = 2},
                                          {.ranks = 2, .zero = 3},
                                          {.ranks = 4, .tp = 2, .zero = 3},
                                          {.ranks = 4, .pp = 2, .zero = 2}});
}

TEST(ProveAdapters, OfExperts) {
  expect_proved(adapted(hybrid()),
                {{.ranks = 2, .ep = 2}, {.ranks = 4, .tp = 2, .ep = 2}, {.ranks = 4, .ep = 2, .zero = 3}});
  const std::vector<Proof> refused =
      prove({.model = adapted(hybrid()), .layouts = {proof_layout({.ranks = 2, .etp = 2})}});
  EXPECT_EQ(refused.at(0).status, Proof::Status::kRefused);
  EXPECT_THAT(refused.at(0).reason, HasSubstr("etp"));
}

TEST(ProveAdapters, OfDoraWhereRowsAreWhole) {
  recipe::ModelConfig config = adapted(grouped_keys(), recipe::AdapterKind::kDora);
  expect_proved(config, {{.pp = 2}, {.cp = 2}, {.ranks = 2, .zero = 3}});
  const std::vector<Proof> refused = prove({.model = config, .layouts = {proof_layout({.tp = 2})}});
  EXPECT_EQ(refused.at(0).status, Proof::Status::kRefused);
  EXPECT_THAT(refused.at(0).reason, HasSubstr("dora"));
  config.lora.targets = {"query", "key", "value"};
  config.mixers = {recipe::Mixer::kSoftmax};
  expect_proved(config, {{.tp = 2}, {.tp = 4}});
}

}  // namespace
}  // namespace longhaul::prove
