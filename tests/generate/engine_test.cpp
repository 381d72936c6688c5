// Many requests in one engine: each has the bits that it has alone, whatever is beside it, in the cache or
// taken from it; what it held is given back; and the settings of a request do what they say.
// ctest: label=fast timeout=180
#include "generate/engine.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/threads/parallel.h"
#include "model/context.h"
#include "model/parallel_ops.h"
#include "model/state.h"
#include "support/variant_models.h"

namespace longhaul::generate {
namespace {

using namespace longhaul::testing;

constexpr int64_t kPageOfEngine = PrefixCache::kTokens;

// What came of requests, by request and sequence.
using Texts = std::vector<std::vector<Generation>>;

struct Wanted {
  std::vector<int64_t> prompt;
  GenerateSettings settings;
};

GenerateSettings exact_settings(uint64_t seed, int64_t tokens) {
  return {.tokens = tokens,
          .temperature = 1.1,
          .top_p = 0.98,
          .frequency_penalty = 0.3,
          .seed = seed,
          .log_probabilities = true,
          .top_log_probabilities = 3};
}

Request request_of(const Wanted& wanted, std::vector<Generation>& into) {
  into.resize(static_cast<size_t>(wanted.settings.count));
  return {.prompt = wanted.prompt,
          .settings = wanted.settings,
          .on_end = [&into](int64_t sequence, Generation generation) {
            into[static_cast<size_t>(sequence)] = std::move(generation);
          }};
}

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

class EngineSettings : public ::testing::Test {
 protected:
  EngineSettings() : decoder_(filled_decoder(hybrid_pre_norm_tied(), "fp32")) {}
  Generation run(const GenerateSettings& settings, std::function<bool(const Drawn&)> on_token = {}) {
    Engine engine(decoder_, {});
    Generation found;
    engine.submit({.prompt = prompt_,
                   .settings = settings,
                   .on_token = std::move(on_token),
                   .on_end = [&](int64_t, Generation generation) { found = std::move(generation); }});
    while (engine.step()) {
    }
    EXPECT_EQ(engine.state().page_bytes_in_use(), 0);
    return found;
  }
  // The model's own logits after prompt and text, in fp64.
  std::vector<double> logits_after(const std::vector<int64_t>& text) {
    model::DecoderState state = decoder_.make_state();
    std::vector<int64_t> ids = prompt_;
    ids.insert(ids.end(), text.begin(), text.end());
    const Continuation all{state.add(), ids};
    const Tensor logits = advance(decoder_, std::span(&all, 1), state)[0].to(at::kDouble).contiguous();
    return {logits.const_data_ptr<double>(), logits.const_data_ptr<double>() + logits.numel()};
  }
  static int64_t likeliest(const std::vector<double>& logits) {
    return std::ranges::max_element(logits) - logits.begin();
  }

  model::Decoder decoder_;
  std::vector<int64_t> prompt_ = {3, 14, 3, 7};
};

// Step by step by hand: each penalty changes which token is the likeliest.
TEST_F(EngineSettings, PenaltiesAndBiasChangeTheLogits) {
  const GenerateSettings each[] = {{.tokens = 12, .temperature = 0, .repetition_penalty = 3},
                                   {.tokens = 12, .temperature = 0, .frequency_penalty = 0.9},
                                   {.tokens = 12, .temperature = 0, .presence_penalty = 1.5},
                                   {.tokens = 12, .temperature = 0, .logit_bias = {{5, 2.5}, {6, -100}}},
                                   {.tokens = 12, .temperature = 0, .never = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}}};
  const Generation plain = run({.tokens = 12, .temperature = 0});
  for (const GenerateSettings& settings : each) {
    const Generation found = run(settings);
    EXPECT_NE(found.ids, plain.ids);
    std::vector<int64_t> text;
    for (const int64_t id : found.ids) {
      std::vector<double> logits = logits_after(text);
      for (size_t v = 0; v < logits.size(); ++v) {
        const auto in = [&](const std::vector<int64_t>& ids) {
          return std::ranges::count(ids, static_cast<int64_t>(v));
        };
        if (in(text) + in(prompt_) > 0)
          logits[v] *= logits[v] > 0 ? 1 / settings.repetition_penalty : settings.repetition_penalty;
        logits[v] -= settings.frequency_penalty * static_cast<double>(in(text));
        if (in(text) > 0) logits[v] -= settings.presence_penalty;
        for (const auto& [biased, bias] : settings.logit_bias)
          logits[v] += biased == static_cast<int64_t>(v) ? bias : 0;
        if (in(settings.never) > 0) logits[v] = -1e30;
      }
      EXPECT_EQ(id, likeliest(logits)) << "after " << text.size() << " tokens";
      text.push_back(id);
    }
  }
}

TEST_F(EngineSettings, TopTokensAreTheLikeliestWithTheirProbabilities) {
  const Generation found =
      run({.tokens = 3, .temperature = 2, .log_probabilities = true, .top_log_probabilities = 4});
  std::vector<int64_t> text;
  for (size_t t = 0; t < found.ids.size(); ++t) {
    std::vector<double> logits = logits_after(text);
    double sum = 0;
    for (const double logit : logits) sum += std::exp(logit / 2);
    EXPECT_NEAR(found.log_probabilities[t], logits[static_cast<size_t>(found.ids[t])] / 2 - std::log(sum),
                1e-5);
    ASSERT_EQ(found.top[t].size(), 4u);
    for (const TokenProbability& top : found.top[t]) {
      EXPECT_EQ(top.id, likeliest(logits));
      EXPECT_NEAR(top.log_probability, logits[static_cast<size_t>(top.id)] / 2 - std::log(sum), 1e-5);
      logits[static_cast<size_t>(top.id)] = -1e30;
    }
    text.push_back(found.ids[t]);
  }
}

TEST_F(EngineSettings, TextsEndWhereTheyAreToEnd) {
  const Generation plain = run({.tokens = 20, .temperature = 0});
  const int64_t third = plain.ids[2];
  const auto first = std::ranges::find(plain.ids, third) - plain.ids.begin();
  const Generation by_set = run({.tokens = 20, .temperature = 0, .stop_ids = {28, third}});
  EXPECT_EQ(by_set.finish, Finish::kStop);
  EXPECT_EQ(by_set.stop_id, third);
  EXPECT_EQ(std::ssize(by_set.ids), first) << "the stop token is no part of the text";
  const Generation by_caller =
      run({.tokens = 20, .temperature = 0}, [n = 0](const Drawn&) mutable { return ++n < 4; });
  EXPECT_EQ(by_caller.finish, Finish::kStop);
  EXPECT_EQ(by_caller.ids, std::vector<int64_t>(plain.ids.begin(), plain.ids.begin() + 4));
  EXPECT_EQ(plain.finish, Finish::kTokens);
}

// A bias makes every token certain; the rule counts tokens in a row.
TEST_F(EngineSettings, ALoopEndsTheText) {
  GenerateSettings certain{.tokens = 50, .temperature = 1, .logit_bias = {{4, 1000}}, .loop_tokens = 6};
  const Generation looped = run(certain);
  EXPECT_EQ(looped.finish, Finish::kLoop);
  EXPECT_EQ(looped.ids, std::vector<int64_t>(6, 4));
  certain.logit_bias.clear();
  certain.top_p = 1;
  EXPECT_EQ(run(certain).finish, Finish::kTokens);
}

TEST_F(EngineSettings, CancelledRequestsLeaveNothing) {
  const int64_t page = decoder_.make_state().page_bytes();
  Engine engine(
      decoder_,
      {.sequences = 2, .prompt_tokens = kPageOfEngine, .prompts_tokens = kPageOfEngine, .bytes = 64 * page});
  Texts texts(3);
  std::vector<int64_t> numbers;
  const Wanted wanted{random_ids(700, 29, 1), {.tokens = 50}};
  for (auto& text : texts) numbers.push_back(engine.submit(request_of(wanted, text)));
  // the first writes, the second is half read, the third waits
  for (int pass = 0; pass < 5; ++pass) engine.step();
  EXPECT_EQ(engine.counts().writing, 1);
  EXPECT_EQ(engine.counts().reading, 1);
  EXPECT_EQ(engine.counts().waiting, 1);
  for (const int64_t number : numbers) engine.cancel(number);
  EXPECT_EQ(engine.state().page_bytes_in_use(), 0);
  EXPECT_EQ(engine.state().sequences(), 0);
  for (const auto& text : texts) EXPECT_EQ(text[0].finish, Finish::kCancelled);
  EXPECT_GT(texts[0][0].ids.size(), 0u) << "what was written until then";
  EXPECT_FALSE(engine.step());
  EXPECT_EQ(engine.state().layers()[0].pages()->pool().bytes(), 0) << "memory of pages is given back";
}

TEST_F(EngineSettings, OneRequestsErrorIsNotTheOthers) {
  Engine engine(decoder_, {});
  Generation good, bad;
  GenerateSettings none{.tokens = 4};
  for (int64_t id = 0; id < 29; ++id) none.never.push_back(id);
  engine.submit({.prompt = prompt_, .settings = none, .on_end = [&](int64_t, Generation each) {
                   bad = std::move(each);
                 }});
  engine.submit({.prompt = prompt_, .settings = {.tokens = 4}, .on_end = [&](int64_t, Generation each) {
                   good = std::move(each);
                 }});
  while (engine.step()) {
  }
  EXPECT_EQ(bad.finish, Finish::kError);
  EXPECT_THROW(std::rethrow_exception(bad.error), Error);
  EXPECT_EQ(good.finish, Finish::kTokens);
  EXPECT_EQ(good.ids.size(), 4u);
}

TEST_F(EngineSettings, WhatCanNeverRunIsRefusedAtOnce) {
  const model::DecoderState shape = decoder_.make_state();
  const int64_t bytes = 2 * shape.row_bytes() + 4 * shape.page_bytes();
  Engine engine(decoder_, {.sequences = 2, .bytes = bytes});
  const auto code = [&](const Request& request) {
    try {
      engine.submit(request);
    } catch (const Error& error) {
      return error.code();
    }
    return ExitCode::kDone;
  };
  EXPECT_EQ(engine.limit_of_tokens(), 3 * kPageOfEngine);
  EXPECT_EQ(code({.prompt = {}}), ExitCode::kUsage);
  EXPECT_EQ(code({.prompt = {1, -1}}), ExitCode::kData);
  EXPECT_EQ(code({.prompt = {29}}), ExitCode::kData);
  EXPECT_EQ(code({.prompt = {1}, .settings = {.logit_bias = {{29, 1}}}}), ExitCode::kData);
  EXPECT_EQ(code({.prompt = {1}, .settings = {.count = 3}}), ExitCode::kUsage);
  EXPECT_EQ(code({.prompt = {1}, .settings = {.repetition_penalty = 0}}), ExitCode::kUsage);
  EXPECT_EQ(code({.prompt = {1}, .settings = {.min_p = 1.5}}), ExitCode::kUsage);
  EXPECT_EQ(code({.prompt = random_ids(3 * kPageOfEngine + 1, 29, 1)}), ExitCode::kUsage);
  EXPECT_EQ(code({.prompt = random_ids(3 * kPageOfEngine, 29, 1)}), ExitCode::kDone);
  EXPECT_THROW(Engine(decoder_, {.sequences = 2, .bytes = bytes - 2 * shape.page_bytes() - 1}), Error);
}

// A text that would outgrow its memory ends there, and says so.
// A page that two sequences share is copied by the one that writes on: that is a page more than the tokens
// need.
TEST_F(EngineSettings, TheCopyOfASharedPageCounts) {
  model::DecoderState state = decoder_.make_state();
  const int64_t row = state.add();
  advance(decoder_, std::vector<Continuation>{{row, {1, 2, 3}}}, state);
  EXPECT_EQ(state.page_bytes_to_append(row, 1), 0);
  const int64_t fork = state.fork(row);
  EXPECT_EQ(state.page_bytes_to_append(row, 1), state.page_bytes());
  EXPECT_EQ(state.page_bytes_to_append(fork, 1), state.page_bytes());
  EXPECT_EQ(state.page_bytes_to_append(fork, kPageOfEngine), 2 * state.page_bytes()) << "and the next page";
  state.drop(fork);
  EXPECT_EQ(state.page_bytes_to_append(row, 1), 0) << "nobody shares it any more";
}

TEST_F(EngineSettings, ATextEndsWhereMemoryDoes) {
  const model::DecoderState shape = decoder_.make_state();
  Engine engine(decoder_, {.sequences = 1, .bytes = shape.row_bytes() + 2 * shape.page_bytes()});
  Generation found;
  engine.submit({.prompt = random_ids(250, 29, 1),
                 .settings = {.tokens = 50},
                 .on_end = [&](int64_t, Generation each) { found = std::move(each); }});
  while (engine.step()) {
  }
  EXPECT_EQ(found.finish, Finish::kPositions);
  EXPECT_EQ(found.ids.size(), 7u) << "256 tokens are read, and one more was drawn";
}

}  // namespace
}  // namespace longhaul::generate
