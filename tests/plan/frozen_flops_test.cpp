// FLOPs of a model some of whose tensors are frozen, worked out here from the definition: 2 for each element
// of a forward product, 2 where the gradient of the input is wanted, 2 where the tensor trains.
#include <gtest/gtest.h>

#include "plan/flops.h"

namespace longhaul::plan {
namespace {

constexpr double kHidden = 16, kInner = 12, kVocabulary = 50;
// Query, key, value and output; gate, up and down.
constexpr double kMixer = 4 * kHidden * kHidden, kChannel = 3 * kHidden * kInner,
                 kHead = kVocabulary * kHidden;
constexpr double kAll = 2 * (kMixer + kChannel) + kHead;
constexpr int64_t kSequence = 32;

recipe::ModelConfig two_layers_with(const std::vector<std::string>& frozen) {
  recipe::ModelConfig model{
      .layers = 2, .hidden = 16, .vocabulary = 50, .heads = 2, .head_dim = 8, .softmax = {.kv_heads = 2}};
  model.intermediate = 12;
  model.frozen = frozen;
  return model;
}

double products_of(const std::vector<std::string>& frozen) {
  return training_flops_per_token(two_layers_with(frozen), kSequence).matrices;
}

TEST(FrozenFlops, OfProductsAreWhatIsComputed) {
  EXPECT_EQ(products_of({}), 6 * kAll);
  EXPECT_EQ(products_of({"embedding.weight"}), 6 * kAll)
      << "the first norm trains and wants the gradient of all products after it";
  EXPECT_NEAR(products_of({"embedding.weight", "layers.0.mixer_norm.weight"}),
              6 * kAll - 2 * 3 * kHidden * kHidden, 1e-9);
  EXPECT_NEAR(products_of({"head.weight"}), 6 * kAll - 2 * kHead, 1e-9);
  EXPECT_NEAR(products_of({"layers.*.channel.*"}), 6 * kAll - 2 * 2 * kChannel, 1e-9)
      << "what lies before them trains";
  EXPECT_NEAR(products_of({"embedding.weight", "layers.0.*"}), 6 * kAll - 4 * (kMixer + kChannel), 1e-9)
      << "forward only";
  EXPECT_NEAR(products_of({"embedding.weight", "layers.*", "norm.weight"}), 2 * kAll + 2 * kHead, 1e-9)
      << "the head alone trains";
  // Query, key and value train, and their output's projection has to give them a gradient; its own is
  // missing.
  EXPECT_NEAR(products_of({"embedding.weight", "layers.0.mixer_norm.weight", "layers.0.mixer.output.weight"}),
              6 * kAll - 2 * 4 * kHidden * kHidden, 1e-9);
}

// Adapters of rank 3 beside the values of one layer: W forward; A forward and its own gradient, since no
// trained tensor made its input; B all three. The products that come after give the gradient of their inputs.
TEST(FrozenFlops, OfAdaptersAreWhatIsComputed) {
  constexpr double kA = 3 * kHidden, kB = kHidden * 3, kOutput = kHidden * kHidden;
  const auto products_with = [](const std::string& target) {
    recipe::ModelConfig model = two_layers_with({});
    model.lora = {.rank = 3, .targets = {target}};
    return training_flops_per_token(model, kSequence).matrices;
  };
  EXPECT_NEAR(products_with("layers.0.mixer.value.weight"),
              2 * kAll + 2 * (kOutput + kMixer + 2 * kChannel + kHead) + 4 * kA + 6 * kB, 1e-9);
  EXPECT_NEAR(products_with("layers.1.mixer.value.weight"),
              2 * kAll + 2 * (kOutput + kChannel + kHead) + 4 * kA + 6 * kB, 1e-9);
}

TEST(FrozenFlops, AHeadThatIsTheEmbeddingIsFrozenWithIt) {
  recipe::ModelConfig model = two_layers_with({"embedding.weight"});
  model.tie_embeddings = true;
  EXPECT_NEAR(training_flops_per_token(model, kSequence).matrices, 6 * kAll - 2 * kHead, 1e-9);
}

TEST(FrozenFlops, AttentionOfFrozenLayersHasAForwardPassOnly) {
  const double channels = 2 * (8 + 8), both = 2 * 6 * channels * kSequence;
  const auto attention = [](const std::vector<std::string>& frozen) {
    return training_flops_per_token(two_layers_with(frozen), kSequence).attention_full;
  };
  EXPECT_EQ(attention({}), both);
  EXPECT_EQ(attention({"layers.0.*"}), both) << "the embedding trains";
  EXPECT_NEAR(attention({"embedding.weight", "layers.0.*"}), both * (1 + 1.0 / 3) / 2, 1e-9);
  EXPECT_NEAR(attention({"embedding.weight", "layers.*"}), both / 3, 1e-9);
}

TEST(FrozenFlops, LayersWithoutABackwardPassAreNotRecomputed) {
  const auto again = [](const std::vector<std::string>& frozen) {
    return flops_again_per_token(two_layers_with(frozen), recipe::Recompute::kFull);
  };
  EXPECT_EQ(again({}), 2 * 2 * (kMixer + kChannel));
  EXPECT_EQ(again({"embedding.weight", "layers.0.*"}), 2 * (kMixer + kChannel));
}

}  // namespace
}  // namespace longhaul::plan
