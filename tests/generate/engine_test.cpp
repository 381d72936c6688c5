// Many requests in one engine: each has the bits that it has alone, whatever is beside it, in the cache or
// taken from it, and what it held is given back.
// ctest: label=fast timeout=180
#include "generate/engine.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/threads/parallel.h"
#include "generate/engine_for_tests.h"
#include "model/context.h"
#include "model/parallel_ops.h"
#include "model/state.h"
#include "support/variant_models.h"

namespace longhaul::generate {
namespace {

using namespace longhaul::testing;

// Each begins so many passes after the one before.
Texts run_all(Engine& engine, const std::vector<Wanted>& wanted, int passes_between = 0) {
  Texts texts(wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    engine.submit(request_of(wanted[i], texts[i]));
    for (int pass = 0; pass < passes_between; ++pass) engine.step();
  }
  while (engine.step()) {
  }
  return texts;
}

Texts each_alone(model::Decoder& decoder, const std::vector<Wanted>& wanted,
                 const EngineOptions& options = {}) {
  Texts texts;
  for (const Wanted& one : wanted) {
    Engine engine(decoder, options);
    texts.push_back(run_all(engine, {one}).front());
  }
  return texts;
}

void expect_same_bits(const Texts& found, const Texts& expected, const std::string& how) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t r = 0; r < found.size(); ++r) {
    ASSERT_EQ(found[r].size(), expected[r].size());
    for (size_t s = 0; s < found[r].size(); ++s) {
      const Generation &a = found[r][s], &b = expected[r][s];
      EXPECT_EQ(a.ids, b.ids) << how << ": request " << r << " sequence " << s;
      EXPECT_EQ(a.finish, b.finish) << how << ": request " << r << " sequence " << s;
      EXPECT_EQ(a.log_probabilities, b.log_probabilities) << how << ": request " << r << " sequence " << s;
      ASSERT_EQ(a.top.size(), b.top.size()) << how;
      for (size_t t = 0; t < a.top.size(); ++t) {
        for (size_t k = 0; k < a.top[t].size(); ++k) {
          EXPECT_EQ(a.top[t][k].id, b.top[t][k].id) << how;
          EXPECT_EQ(a.top[t][k].log_probability, b.top[t][k].log_probability) << how;
        }
      }
    }
  }
}

recipe::ModelConfig with_long_positions(recipe::ModelConfig config) {
  if (config.max_positions > 0) config.max_positions = 2048;
  return config;
}

class EngineOf : public ::testing::TestWithParam<NamedConfig> {
 protected:
  EngineOf() : config_(with_long_positions(GetParam().config)) {}
  std::vector<Wanted> requests() const {
    const auto ids = [&](int64_t count, uint64_t seed) {
      return random_ids(count, config_.vocabulary, seed);
    };
    std::vector<int64_t> longer = ids(250, 1);
    const std::vector<int64_t> rest = ids(250, 3);
    longer.insert(longer.end(), rest.begin(), rest.end());
    GenerateSettings several = exact_settings(9, 11);
    several.count = 2;
    return {{ids(250, 1), exact_settings(5, 12)},
            {ids(250, 2), several},
            {longer, exact_settings(7, 16)},
            {ids(3, 4), exact_settings(8, 5)}};
  }
  recipe::ModelConfig config_;
};

TEST_P(EngineOf, GivesEachRequestTheBitsThatItHasAlone) {
  for (const char* dtype : {"bf16", "fp32"}) {
    SCOPED_TRACE(dtype);
    model::Decoder decoder = filled_decoder(config_, dtype);
    const std::vector<Wanted> wanted = requests();
    const Texts alone = each_alone(decoder, wanted);
    EXPECT_NE(alone[1][0].ids, alone[1][1].ids);

    Engine together(decoder,
                    {.sequences = 5, .prompt_tokens = kPageOfEngine, .prompts_tokens = 2 * kPageOfEngine});
    expect_same_bits(run_all(together, wanted), alone, "together");
    expect_same_bits(run_all(together, wanted, 2), alone, "one after the other");
    EXPECT_EQ(together.state().sequences(), 0);

    // Five pages: each of the first three needs two or three of them at its end, and must wait or give way.
    model::DecoderState shape = decoder.make_state();
    const int64_t row = shape.row_bytes(), page = shape.page_bytes();
    if (page > 0) {
      Engine narrow(decoder, {.sequences = 5,
                              .prompt_tokens = kPageOfEngine,
                              .prompts_tokens = kPageOfEngine,
                              .bytes = 5 * row + 5 * page});
      expect_same_bits(run_all(narrow, wanted), alone, "with little memory");
      EXPECT_GT(narrow.counts().parkings, 0);
      EXPECT_LE(narrow.state().bytes(), 5 * row + 5 * page);
      EXPECT_EQ(narrow.state().page_bytes_in_use(), 0);
    }

    set_threads(2);
    const Texts on_two = each_alone(decoder, wanted);
    set_threads(1);
    const Texts on_one = each_alone(decoder, wanted);
    set_threads(0);
    expect_same_bits(on_two, on_one, "on two threads");
  }
}

TEST_P(EngineOf, HasTheSameBitsAfterAHitOfTheCache) {
  for (const char* dtype : {"bf16", "fp32"}) {
    SCOPED_TRACE(dtype);
    model::Decoder decoder = filled_decoder(config_, dtype);
    const auto first = random_ids(600, config_.vocabulary, 1);
    std::vector<int64_t> second = first, third(first.begin(), first.begin() + 40);
    const auto more = random_ids(90, config_.vocabulary, 2);
    second.insert(second.end(), more.begin(), more.end());
    std::vector<Wanted> wanted;
    for (const auto& prompt : {first, second, third, first, third})
      wanted.push_back({prompt, exact_settings(wanted.size(), 6)});
    const Texts alone = each_alone(decoder, wanted);
    Engine engine(decoder, {.sequences = 4,
                            .prompt_tokens = kPageOfEngine,
                            .prompts_tokens = kPageOfEngine,
                            .prefix_bytes = int64_t{1} << 30,
                            .keeps_prompts = true});
    const Texts found = run_all(engine, wanted, 3);
    expect_same_bits(found, alone, "with a cache");
    const int64_t continued[] = {0, 512, 0, 600, 40};
    for (size_t r = 0; r < found.size(); ++r)
      EXPECT_EQ(found[r][0].continued_tokens, continued[r]) << "request " << r;
    EXPECT_EQ(engine.counts().read_tokens, 600 + (690 - 512) + 40) << "what was kept is not read again";
    expect_same_bits(run_all(engine, wanted), alone, "a second time");
    EXPECT_EQ(engine.state().sequences(), engine.prefixes().kept());
  }
}

// The log probability of each token of the text by one pass over prompt and text, as training makes it.
std::vector<double> in_training_pass(model::Decoder& decoder, const std::vector<int64_t>& prompt,
                                     const std::vector<int64_t>& text) {
  std::vector<int64_t> ids = prompt;
  ids.insert(ids.end(), text.begin(), text.end());
  model::LocalOps ops;
  model::Context context(ops, decoder.precision());
  const Tensor hidden = decoder.hidden(context, id_tensor(ids), layout::make_single(std::ssize(ids)));
  const Tensor logits = decoder.logits(hidden.detach()).to(at::kDouble);
  std::vector<double> found;
  for (size_t t = 0; t < text.size(); ++t) {
    const auto before = static_cast<int64_t>(prompt.size() + t) - 1;
    found.push_back(logits[before].log_softmax(0)[text[t]].item<double>());
  }
  return found;
}

TEST_P(EngineOf, LogProbabilitiesAreThoseOfTraining) {
  const std::pair<const char*, double> precisions[] = {{"fp64", 1e-12}, {"fp32", 1e-5}};
  for (const auto& [dtype, tolerance] : precisions) {
    model::Decoder decoder = filled_decoder(config_, dtype);
    const std::vector<int64_t> prompt = random_ids(70, config_.vocabulary, 6);
    Engine engine(decoder, {});
    const Generation text = run_all(
        engine,
        {{prompt, {.tokens = 40, .temperature = 1, .top_p = 1, .seed = 2, .log_probabilities = true}}})[0][0];
    const std::vector<double> trained = in_training_pass(decoder, prompt, text.ids);
    ASSERT_EQ(text.log_probabilities.size(), trained.size());
    for (size_t t = 0; t < trained.size(); ++t)
      EXPECT_NEAR(text.log_probabilities[t], trained[t], tolerance * std::max(1.0, std::abs(trained[t])))
          << dtype << " token " << t;
  }
}

// Three pages for two texts that want two each: the second one waits in a file, so that the first ends first.
TEST(EngineGivesWay, TheYoungestIsParkedAndTheOldestEndsFirst) {
  const recipe::ModelConfig config = llama_like();
  model::Decoder decoder = filled_decoder(config, "fp32");
  const model::DecoderState shape = decoder.make_state();
  Engine engine(decoder, {.sequences = 2,
                          .prompt_tokens = kPageOfEngine,
                          .prompts_tokens = 2 * kPageOfEngine,
                          .bytes = 2 * shape.row_bytes() + 3 * shape.page_bytes()});
  std::vector<int> ended;
  for (const int text : {0, 1}) {
    engine.submit({.prompt = random_ids(250, config.vocabulary, static_cast<uint64_t>(text)),
                   .settings = exact_settings(3, 16),
                   .on_end = [&ended, text](int64_t, Generation) { ended.push_back(text); }});
  }
  while (engine.step()) {
  }
  EXPECT_EQ(engine.counts().parkings, 1);
  EXPECT_EQ(ended, (std::vector<int>{0, 1}));
}

// Keys and values in eight bits, beside each other, parked, and from the cache of prefixes.
TEST(EngineOfEightBits, GivesEachRequestTheBitsThatItHasAlone) {
  for (const recipe::ModelConfig& config : {llama_like(), qwen_like()}) {
    for (const char* dtype : {"bf16", "fp32"}) {
      model::Decoder decoder = filled_decoder(config, dtype);
      const auto ids = [&](int64_t count, uint64_t seed) {
        return random_ids(count, config.vocabulary, seed);
      };
      GenerateSettings several = exact_settings(9, 11);
      several.count = 2;
      const std::vector<Wanted> wanted = {{ids(250, 1), exact_settings(5, 12)},
                                          {ids(250, 2), several},
                                          {ids(500, 3), exact_settings(7, 16)},
                                          {ids(3, 4), exact_settings(8, 5)}};
      const EngineOptions narrow{.int8_keys_values = true};
      const Texts alone = each_alone(decoder, wanted, narrow), wide = each_alone(decoder, wanted);
      EXPECT_NE(alone[2][0].log_probabilities, wide[2][0].log_probabilities) << "nothing is rounded";
      model::DecoderState shape = decoder.make_state(), eight = decoder.make_state();
      eight.keep_keys_values_in_int8();
      EXPECT_LT(eight.page_bytes(), shape.page_bytes());
      Engine together(decoder, {.sequences = 5,
                                .prompt_tokens = kPageOfEngine,
                                .prompts_tokens = 2 * kPageOfEngine,
                                .int8_keys_values = true});
      expect_same_bits(run_all(together, wanted), alone, "together");
      Engine small(decoder, {.sequences = 5,
                             .prompt_tokens = kPageOfEngine,
                             .prompts_tokens = kPageOfEngine,
                             .bytes = 5 * eight.row_bytes() + 5 * eight.page_bytes(),
                             .int8_keys_values = true});
      expect_same_bits(run_all(small, wanted), alone, "with little memory");
      EXPECT_GT(small.counts().parkings, 0);
      EXPECT_EQ(small.counts().page_bytes, 0);
      const int64_t room = 64 * (eight.row_bytes() + eight.page_bytes());
      Engine keeping(decoder, {.sequences = 5,
                               .prompt_tokens = kPageOfEngine,
                               .bytes = room,
                               .prefix_bytes = room / 2,
                               .keeps_prompts = true,
                               .int8_keys_values = true});
      expect_same_bits(run_all(keeping, wanted), alone, "read");
      expect_same_bits(run_all(keeping, wanted), alone, "kept");
      EXPECT_GT(keeping.prefixes().counts().continued, 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, EngineOf, ::testing::ValuesIn(small_models()),
                         [](const auto& named) { return named.param.name; });
INSTANTIATE_TEST_SUITE_P(Variants, EngineOf, ::testing::ValuesIn(variants_of_states()),
                         [](const auto& named) { return named.param.name; });

}  // namespace
}  // namespace longhaul::generate
