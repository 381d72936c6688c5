// The experts of single tokens, beside those of one pass over the whole text. ctest: label=fast timeout=120
#include "generate/token_experts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "generate/engine.h"
#include "model/context.h"
#include "model/parallel_ops.h"
#include "support/models.h"
#include "support/refused.h"

namespace longhaul::generate {
namespace {

using namespace longhaul::testing;

// What was drawn of one sequence, and the experts that were told with it.
struct Told {
  std::vector<int64_t> ids;
  std::vector<std::vector<LayerExperts>> experts;
};

Request asked(const std::vector<int64_t>& prompt, bool experts, std::vector<Told>& told) {
  Request request{.prompt = prompt,
                  .settings = {.tokens = 5, .temperature = 1, .seed = 4, .count = std::ssize(told)}};
  request.settings.experts = experts;
  request.on_token = [&told](const Drawn& drawn) {
    Told& of = told[static_cast<size_t>(drawn.sequence)];
    of.ids.push_back(drawn.id);
    of.experts.emplace_back(drawn.experts.begin(), drawn.experts.end());
    return true;
  };
  return request;
}

// One pass without a state over prompt and text.
void expect_those_of_one_pass(model::Decoder& decoder, const std::vector<int64_t>& prompt, const Told& told) {
  std::vector<int64_t> all = prompt;
  all.insert(all.end(), told.ids.begin(), told.ids.end());
  const at::NoGradGuard guard;
  model::LocalOps ops;
  model::Context context(ops, decoder.precision());
  context.training = false;
  context.recorded_routes = std::make_shared<model::Routes>();
  context.recorded_weights = std::make_shared<model::Routes>();
  decoder.hidden(context, id_tensor(all), layout::make_single(std::ssize(all)));
  ASSERT_EQ(told.experts.size(), 5U);
  for (size_t t = 0; t < told.experts.size(); ++t) {
    const auto row = std::ssize(prompt) - 1 + static_cast<int64_t>(t);
    ASSERT_EQ(told.experts[t].size(), 3U);
    for (size_t layer = 0; layer < 3; ++layer) {
      const std::string block = "layers." + std::to_string(layer) + ".experts";
      const Tensor choice = context.recorded_routes->at(block)[row],
                   weight = context.recorded_weights->at(block)[row];
      EXPECT_EQ(told.experts[t][layer].layer, static_cast<int64_t>(layer));
      ASSERT_EQ(told.experts[t][layer].chosen.size(), 2U);
      double sum = 0, before = 1;
      for (int64_t i = 0; i < 2; ++i) {
        const auto& [expert, share] = told.experts[t][layer].chosen[static_cast<size_t>(i)];
        EXPECT_EQ(expert, choice[i].item<int64_t>()) << "token " << t << " layer " << layer;
        EXPECT_NEAR(share, weight[i].item<double>(), 1e-5) << "token " << t << " layer " << layer;
        EXPECT_LE(share, before) << "best first";
        sum += before = share;
      }
      EXPECT_NEAR(sum, 1, 1e-6) << "they share the token between them";
    }
  }
}

TEST(TokenExperts, AreThoseOfTheTokenBefore) {
  model::Decoder decoder = filled_decoder(hybrid_experts_post_norm(), "fp32");
  Engine engine(decoder, {.sequences = 8,
                          .prompts_tokens = 512,
                          .bytes = int64_t{64} << 20,
                          .prefix_bytes = int64_t{16} << 20,
                          .keeps_prompts = true});
  const std::vector<int64_t> longer = random_ids(400, 29, 1), shorter = random_ids(7, 29, 2);
  std::vector<Told> two(2), silent(1), again(1);
  engine.submit(asked(longer, true, two));
  engine.submit(asked(shorter, false, silent));
  while (engine.step()) {
  }
  for (const Told& each : two) expect_those_of_one_pass(decoder, longer, each);
  for (const auto& each : silent.front().experts) EXPECT_TRUE(each.empty()) << "nobody asked";
  // The cache has this prompt as a whole, without its experts.
  const int64_t found = engine.prefixes().counts().continued;
  engine.submit(asked(longer, true, again));
  while (engine.step()) {
  }
  EXPECT_EQ(engine.prefixes().counts().continued, found + 1);
  expect_those_of_one_pass(decoder, longer, again.front());
  EXPECT_EQ(again.front().ids, two.front().ids);
}

TEST(TokenExperts, AreRefusedWhereThereAreNone) {
  model::Decoder decoder = filled_decoder(hybrid_pre_norm_tied(), "fp32");
  Engine engine(decoder, {});
  std::vector<Told> told(1);
  const auto refusal = [&](Engine& which) {
    return refused([&] { which.submit(asked({1, 2}, true, told)); });
  };
  EXPECT_THAT(refusal(engine), ::testing::HasSubstr("a model without experts"));
  model::Decoder mixture = filled_decoder(hybrid_experts_post_norm(), "fp32");
  Engine on_ranks(mixture,
                  {.pass = [](std::span<const Continuation>, model::DecoderState&) -> Tensor { return {}; }});
  EXPECT_THAT(refusal(on_ranks), ::testing::HasSubstr("several ranks"));
}

}  // namespace
}  // namespace longhaul::generate
