// Models whose linear layers all have weights in eight bits by groups (Use::kIntegers without spikes): which
// parameters those are, the same numbers as a wide model that was rounded beforehand, and that a sequence is
// what it is whatever is decoded beside it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/spikes/group_weight.h"
#include "model/state.h"
#include "support/models.h"

namespace longhaul::model::int8_weights_test {
namespace {

using namespace longhaul::testing;

// More than one group of inputs, the last one in part.
recipe::ModelConfig wider_than_a_group() {
  recipe::ModelConfig config = hybrid_experts_post_norm();
  config.hidden = 168;
  config.intermediate = 140;
  config.shared_experts = 1;
  return config;
}

std::vector<NamedConfig> causal_models() {
  std::vector<NamedConfig> all = small_models();
  all.push_back({"wider_than_a_group", wider_than_a_group()});
  return all;
}

Decoder narrow_decoder(const recipe::ModelConfig& config, const char* dtype = "fp32") {
  return Decoder(config, Precision::named(dtype), at::kCPU, Use::kIntegers);
}

// The weights of `from` in both: rounded where `narrow` keeps eight bits.
void give_weights(Decoder& from, Decoder& narrow, Decoder& rounded) {
  const auto &wide = from.parameters().all(), &kept = narrow.parameters().all(),
             &simulated = rounded.parameters().all();
  ASSERT_EQ(wide.size(), kept.size());
  for (size_t p = 0; p < wide.size(); ++p) {
    const Tensor value = wide[p]->value.detach();
    if (kept[p]->narrow()) {
      for (size_t i = 0; i < kept[p]->parts.size(); ++i) kept[p]->write_narrow(i, wide[p]->part_of(value, i));
      simulated[p]->value.copy_(kernels::rounded_in_groups(value));
    } else {
      kept[p]->value.copy_(value);
      simulated[p]->value.copy_(value);
    }
    kept[p]->written();
    simulated[p]->written();
  }
}

Tensor hidden_of(Decoder& decoder, const layout::SequenceLayout& layout, const std::vector<int64_t>& ids,
                 const DecoderRows* rows = nullptr) {
  const at::NoGradGuard guard;
  LocalOps ops;
  Context context(ops, decoder.precision());
  context.training = false;
  return decoder.hidden(context, id_tensor(ids), layout, rows);
}

class Int8Weights : public ::testing::TestWithParam<NamedConfig> {};

TEST_P(Int8Weights, AreThoseOfMatrixProducts) {
  const recipe::ModelConfig& config = GetParam().config;
  const Decoder decoder = narrow_decoder(config);
  int64_t kept = 0;
  for (const auto& parameter : decoder.parameters().all()) {
    const std::string& name = parameter->name;
    if (parameter->narrow()) ++kept;
    const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
    if (has("norm") || has("router") || has("bias") || has("position")) {
      EXPECT_FALSE(parameter->narrow()) << name;
    }
    if (name == "embedding.weight") {
      EXPECT_EQ(parameter->narrow(), config.tie_embeddings);
    }
    if (name == "head.weight" || has("gate_up.weight") || has("down.weight") || has("qkv.weight") ||
        has("output.weight")) {
      EXPECT_TRUE(parameter->narrow()) << name;
    }
  }
  EXPECT_GE(kept, 2 * config.layers + 1);
}

TEST_P(Int8Weights, AreThoseOfAModelThatWasRoundedBefore) {
  const at::NoGradGuard guard;
  const recipe::ModelConfig& config = GetParam().config;
  Decoder wide = filled_decoder(config, "fp32"), narrow = narrow_decoder(config),
          rounded = filled_decoder(config, "fp32");
  give_weights(wide, narrow, rounded);
  const auto ids = random_ids(19, config.vocabulary, 5);
  const auto layout = layout::make_packed(std::vector<int64_t>{8, 11});
  const Tensor of_narrow = hidden_of(narrow, layout, ids), of_rounded = hidden_of(rounded, layout, ids);
  const Tensor logits = narrow.logits(of_narrow), expected = rounded.logits(of_rounded);
  EXPECT_LT(relative_error(logits, expected), 2e-4);
  EXPECT_GT(relative_error(logits, wide.logits(hidden_of(wide, layout, ids))), 1e-4) << "nothing is rounded";
  const Tensor labels = id_tensor(layout::shifted_labels(layout, ids));
  const Tensor each = narrow.loss_each(of_narrow, labels);
  const Tensor by_hand = logits.to(at::kDouble)
                             .log_softmax(1)
                             .gather(1, labels.clamp_min(0).unsqueeze(1))
                             .squeeze(1)
                             .neg()
                             .masked_fill(labels.lt(0), 0);
  EXPECT_EQ(labels.lt(0).sum().item<int64_t>(), 2);
  EXPECT_LT((each.to(at::kDouble) - by_hand).abs().max().item<double>(), 1e-5);
}

// Alone, and beside two others in one pass, bit by bit; the prompt in one part and in two.
TEST_P(Int8Weights, ASequenceDoesNotDependOnItsNeighbours) {
  const at::NoGradGuard guard;
  const recipe::ModelConfig& config = GetParam().config;
  for (const char* dtype : {"fp32", "bf16"}) {
    Decoder wide = filled_decoder(config, "fp32"), rounded = filled_decoder(config, "fp32"),
            narrow = narrow_decoder(config, dtype);
    give_weights(wide, narrow, rounded);
    const auto ids = random_ids(9, config.vocabulary, 5), others = random_ids(12, config.vocabulary, 6);
    DecoderState alone = narrow.make_state(), together = narrow.make_state();
    const int64_t row = alone.add();
    const std::vector<int64_t> rows = {together.add(), together.add(), together.add()};
    const auto packed = [](const std::vector<int64_t>& lengths, const std::vector<int64_t>& firsts) {
      return layout::make_packed(lengths, firsts);
    };
    const DecoderRows one{alone, {row}}, three{together, rows};
    const std::vector<int64_t> prompt(ids.begin(), ids.begin() + 8), last = {ids[8]};
    hidden_of(narrow, packed({8}, {0}), prompt, &one);
    const Tensor expected = narrow.logits(hidden_of(narrow, packed({1}, {8}), last, &one));
    std::vector<int64_t> all(others.begin(), others.begin() + 5);
    all.insert(all.end(), prompt.begin(), prompt.end());
    all.insert(all.end(), others.begin() + 5, others.begin() + 9);
    hidden_of(narrow, packed({5, 8, 4}, {0, 0, 0}), all, &three);
    const Tensor found = narrow.logits(
        hidden_of(narrow, packed({1, 1, 1}, {5, 8, 4}), {others[9], last[0], others[10]}, &three));
    EXPECT_TRUE(found[1].equal(expected[0])) << dtype;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Int8Weights, ::testing::ValuesIn(causal_models()),
                         [](const auto& named) { return named.param.name; });

}  // namespace
}  // namespace longhaul::model::int8_weights_test
