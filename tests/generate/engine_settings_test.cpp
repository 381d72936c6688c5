// The settings of a request do what they say; requests that end early, fail or cannot run leave the others
// and the memory alone. ctest: label=fast timeout=180
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "generate/engine.h"
#include "generate/engine_for_tests.h"
#include "model/context.h"
#include "model/parallel_ops.h"
#include "model/state.h"
#include "support/variant_models.h"

namespace longhaul::generate {
namespace {

using namespace longhaul::testing;

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
