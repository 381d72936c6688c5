// ctest: label=full timeout=300
// The probability that a model in bf16 gives to each next token, in training (all tokens at once, with a
// graph) and in decoding (a prompt, then token by token from a state): the same but for rounding, for every
// mixer. MiniMax-M1 found its reinforcement learning broken where these differed, and asks for a correlation
// above 0.99 (arXiv 2506.13585 §3.2); told of each model are the correlation and the largest difference.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cmath>
#include <set>

#include "generate/generate.h"
#include "model/state.h"
#include "support/models.h"
#include "support/variant_models.h"

namespace longhaul::generate {
namespace {

using longhaul::testing::filled_decoder;
using longhaul::testing::id_tensor;
using longhaul::testing::NamedConfig;
using longhaul::testing::random_ids;

constexpr int64_t kTokensOfText = 96, kPromptOfText = 16;

// Every mixer that reads from left to right, in some model.
std::vector<NamedConfig> models_that_decode() {
  std::vector<NamedConfig> all = longhaul::testing::small_models();
  for (const NamedConfig& each : longhaul::testing::variant_models()) all.push_back(each);
  std::erase_if(all, [](const NamedConfig& each) { return !each.config.causal; });
  for (NamedConfig& each : all) {
    if (each.config.max_positions > 0) each.config.max_positions = kTokensOfText;
  }
  return all;
}

// Of each token but the first.
using Probabilities = std::vector<double>;

void add_probability(const Tensor& logits_v, int64_t id, Probabilities& to) {
  to.push_back(logits_v.to(at::kDouble).softmax(0)[id].item<double>());
}

Probabilities in_training(model::Decoder& decoder, const std::vector<int64_t>& ids) {
  model::LocalOps ops;
  model::Context context(ops, decoder.precision());
  const Tensor hidden =
      decoder.hidden(context, id_tensor(ids), layout::make_single(static_cast<int64_t>(ids.size())));
  EXPECT_TRUE(hidden.requires_grad());
  const Tensor logits = decoder.logits(hidden.detach());
  Probabilities found;
  for (size_t t = 0; t + 1 < ids.size(); ++t)
    add_probability(logits[static_cast<int64_t>(t)], ids[t + 1], found);
  return found;
}

Probabilities in_decoding(model::Decoder& decoder, const std::vector<int64_t>& ids) {
  model::DecoderState state = decoder.make_state();
  const int64_t row = state.add();
  Probabilities found;
  for (size_t t = 0; t + 1 < ids.size(); ++t) {
    const bool prompt = t + 1 < static_cast<size_t>(kPromptOfText);
    if (prompt) continue;  // read in one pass, whose last token predicts the next one
    const size_t first = t + 1 == static_cast<size_t>(kPromptOfText) ? 0 : t;
    const Continuation next{
        row,
        {ids.begin() + static_cast<std::ptrdiff_t>(first), ids.begin() + static_cast<std::ptrdiff_t>(t + 1)}};
    add_probability(advance(decoder, std::span(&next, 1), state)[0], ids[t + 1], found);
  }
  return found;
}

double pearson(const Probabilities& a, const Probabilities& b) {
  double mean_a = 0, mean_b = 0, both = 0, of_a = 0, of_b = 0;
  for (size_t i = 0; i < a.size(); ++i)
    mean_a += a[i] / static_cast<double>(a.size()), mean_b += b[i] / static_cast<double>(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    both += (a[i] - mean_a) * (b[i] - mean_b);
    of_a += (a[i] - mean_a) * (a[i] - mean_a);
    of_b += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return both / std::sqrt(of_a * of_b);
}

class TrainAndDecode : public ::testing::TestWithParam<NamedConfig> {};

TEST_P(TrainAndDecode, GiveTokensTheSameProbabilities) {
  model::Decoder decoder = filled_decoder(GetParam().config, "bf16");
  const std::vector<int64_t> ids = random_ids(kTokensOfText, GetParam().config.vocabulary, 5);
  const Probabilities all = in_training(decoder, ids), decoded = in_decoding(decoder, ids);
  const Probabilities trained(all.begin() + kPromptOfText - 1, all.end());
  ASSERT_EQ(trained.size(), decoded.size());
  double largest = 0;
  for (size_t i = 0; i < trained.size(); ++i) largest = std::max(largest, std::abs(trained[i] - decoded[i]));
  const double correlation = pearson(trained, decoded);
  RecordProperty("largest_difference", fmt::format("{:.3g}", largest));
  RecordProperty("pearson", fmt::format("{:.6f}", correlation));
  EXPECT_GT(correlation, 0.99) << "the largest difference of a probability is " << largest;
  fmt::print("{}: Pearson {:.6f}, largest difference {:.3g}\n", GetParam().name, correlation, largest);
}

INSTANTIATE_TEST_SUITE_P(Models, TrainAndDecode, ::testing::ValuesIn(models_that_decode()),
                         [](const auto& each) { return each.param.name; });

TEST(TrainAndDecodeOf, EveryMixerThatDecodesIsAmongTheModels) {
  std::set<recipe::Mixer> found;
  for (const NamedConfig& each : models_that_decode()) {
    for (const recipe::Mixer mixer : recipe::mixers_used(each.config)) found.insert(mixer);
  }
  for (size_t m = 0; m < names_of(recipe::Mixer{}).size(); ++m)
    EXPECT_TRUE(found.contains(static_cast<recipe::Mixer>(m))) << names_of(recipe::Mixer{})[m];
}

}  // namespace
}  // namespace longhaul::generate
