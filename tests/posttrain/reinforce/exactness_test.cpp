// What the engine tells of the tokens that it draws, beside one pass of the same weights over the whole text.
// The two go through other kernels, and differ by roundings of fp32.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "generate/generate.h"
#include "layout/sequence_view.h"
#include "model/context.h"
#include "model/decoder.h"
#include "model/parallel_ops.h"
#include "model/state.h"
#include "recipe/load.h"
#include "tensor/to_tensor.h"

namespace longhaul::posttrain {
namespace {

recipe::ModelConfig small_model(const std::string& mixers) {
  return recipe::load_defaults({"model.layers=2", "model.hidden=64", "model.vocabulary=257", "model.heads=4",
                                "model.kv_heads=2", "model.head_dim=16", "model.mixers=" + mixers,
                                "model.intermediate=96", "model.rotary_dim=8", "data.tokenizer=bytes"})
      .recipe.model;
}

struct Gaps {
  double largest = 0;
  int64_t tokens = 0;
};

// Of 60 tokens that follow on a prompt of `prompt` tokens.
Gaps gaps(const recipe::ModelConfig& config, int64_t prompt_tokens) {
  const at::NoGradGuard guard;
  model::Decoder decoder(config, Precision::named("fp32"));
  decoder.parameters().initialise(7);
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < prompt_tokens; ++i) ids.push_back((i * 7 + 3) % 257);
  const auto text = generate::generate(
      decoder, ids, {.tokens = 60, .temperature = 1, .top_p = 1, .seed = 5, .log_probabilities = true});
  ids.insert(ids.end(), text.ids.begin(), text.ids.end());
  model::LocalOps ops;
  model::Context context(ops, decoder.precision());
  const Tensor logits =
      decoder.logits(decoder.hidden(context, to_tensor(ids), layout::make_single(std::ssize(ids))));
  Gaps gaps;
  for (size_t t = 0; t < text.ids.size(); ++t) {
    const Tensor row = logits[prompt_tokens + static_cast<int64_t>(t) - 1].contiguous();
    const double trained =
        generate::log_probability(std::span(row.const_data_ptr<float>(), 257), text.ids[t], 1);
    gaps.largest = std::max(gaps.largest, std::abs(trained - text.log_probabilities[t]));
    ++gaps.tokens;
  }
  return gaps;
}

TEST(Exactness, OfEngineAndTrainer) {
  for (const std::string mixers : {"softmax", "lightning", "lightning,softmax"}) {
    const Gaps found = gaps(small_model(mixers), 20);
    EXPECT_EQ(found.tokens, 60) << mixers;
    EXPECT_LT(found.largest, 1e-5) << mixers;
  }
}

// The outputs of blocks, [tokens, hidden], in the order of the pass.
using Blocks = std::vector<std::pair<std::string, Tensor>>;

Blocks blocks_of(model::Decoder& decoder, const std::vector<int64_t>& ids, const layout::SequenceView& view,
                 const model::DecoderRows* rows) {
  model::LocalOps ops;
  model::Context context(ops, decoder.precision());
  Blocks blocks;
  context.inspect = [&](const std::string& name, const Tensor& output) {
    blocks.emplace_back(name, output.clone());
  };
  const Tensor hidden = decoder.hidden(context, to_tensor(ids), view, rows);
  blocks.emplace_back("normed", hidden);
  blocks.emplace_back("logits", decoder.logits(hidden));
  return blocks;
}

// Where the two ways part, in fp32: in the first mixer, at every token. The first one sees itself alone, so
// it is not the order of its attention or recurrence alone: what stands around them in the mixer rounds
// differently too.
TEST(Exactness, TheFirstMixerDiffersFromTheFirstTokenOn) {
  const at::NoGradGuard guard;
  for (const std::string mixers : {"softmax", "lightning"}) {
    model::Decoder decoder(small_model(mixers), Precision::named("fp32"));
    decoder.parameters().initialise(7);
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < 80; ++i) ids.push_back((i * 7 + 3) % 257);
    const Blocks whole = blocks_of(decoder, ids, layout::make_single(std::ssize(ids)), nullptr);
    model::DecoderState state = decoder.make_state();
    model::DecoderRows rows{state, {state.add()}};
    for (int64_t t = 0; t < std::ssize(ids); ++t) {
      const Blocks alone =
          blocks_of(decoder, {ids[static_cast<size_t>(t)]},
                    layout::make_packed(std::vector<int64_t>{1}, std::vector<int64_t>{t}), &rows);
      ASSERT_EQ(alone.size(), whole.size());
      const auto same = [&](size_t block) {
        return at::equal(whole[block].second[t], alone[block].second[0]);
      };
      EXPECT_EQ(whole[0].first, "embedding");
      EXPECT_TRUE(same(0)) << mixers << ", token " << t;
      EXPECT_EQ(whole[1].first, "layers.0.mixer");
      EXPECT_FALSE(same(1)) << mixers << ", token " << t << ": tell docs/reproductions/reinforcement.md";
      const Tensor gap = (whole[1].second[t] - alone[1].second[0]).abs().max();
      EXPECT_LT(gap.item<double>(), 1e-5) << mixers << ", token " << t;
    }
  }
}

}  // namespace
}  // namespace longhaul::posttrain
