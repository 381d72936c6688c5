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

}  // namespace
}  // namespace longhaul::posttrain
