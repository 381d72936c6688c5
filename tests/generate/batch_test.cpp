// Many sequences in one batch, against each of them alone and against the full pass without any cache.
// ctest: label=fast timeout=120
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/threads/parallel.h"
#include "generate/generate.h"
#include "kernels/dispatch.h"
#include "model/state.h"
#include "support/int8_experts.h"
#include "support/variant_models.h"

namespace longhaul::generate {
namespace {

using namespace longhaul::testing;

// All mixers, experts, and eight query heads to a key head.
recipe::ModelConfig all_mixers() {
  recipe::ModelConfig config = small_config();
  config.mixers = {recipe::Mixer::kLightning, recipe::Mixer::kSoftmax, recipe::Mixer::kHgrn2,
                   recipe::Mixer::kSoftmax};
  config.layers = 4;
  config.hidden = 48;
  config.vocabulary = 300;
  config.heads = 8;
  config.softmax.kv_heads = 1;
  config.head_dim = 16;
  config.intermediate = 32;
  config.experts = 4;
  config.experts_per_token = 2;
  config.max_positions = 0;
  return config;
}

std::vector<NamedConfig> models() {
  std::vector<NamedConfig> all = small_models();
  all.push_back({"all_mixers", all_mixers()});
  return all;
}

Generation alone(model::Decoder& decoder, const std::vector<int64_t>& prompt, GenerateSettings settings,
                 uint64_t sequence) {
  settings.count = 1;
  settings.seed += sequence;
  return generate(decoder, prompt, settings);
}

class Batched : public ::testing::TestWithParam<NamedConfig> {
 protected:
  int64_t vocabulary() const { return GetParam().config.vocabulary; }
  // Whatever it draws, a sequence goes on: for a longer text where positions allow.
  int64_t positions() const {
    return GetParam().config.max_positions > 0 ? GetParam().config.max_positions : 1000;
  }
};

// Seeds differ, so that the sequences do; some end early by a stop token, some by their length, and the
// others go on without them.
TEST_P(Batched, EachHasTheTokensThatItHasAlone) {
  for (const char* dtype : {"bf16", "fp32"}) {
    model::Decoder decoder = filled_decoder(GetParam().config, dtype);
    const std::vector<int64_t> prompt = random_ids(9, vocabulary(), 4);
    for (const int64_t count : {5, 16}) {
      const GenerateSettings settings{.tokens = 30,
                                      .min_tokens = 3,
                                      .temperature = 1.3,
                                      .top_p = 0.97,
                                      .seed = 40,
                                      .count = count,
                                      .stop_ids = {7}};
      std::vector<std::vector<int64_t>> streamed(static_cast<size_t>(count));
      const auto all = generate_batch(
          decoder, std::span(&prompt, 1), settings,
          [&](int64_t sequence, int64_t id) { streamed[static_cast<size_t>(sequence)].push_back(id); });
      ASSERT_EQ(all.size(), static_cast<size_t>(count));
      for (size_t i = 0; i < all.size(); ++i) {
        const Generation expected = alone(decoder, prompt, settings, i);
        EXPECT_EQ(all[i].ids, expected.ids) << dtype << " sequence " << i;
        EXPECT_EQ(all[i].finish, expected.finish) << dtype << " sequence " << i;
        EXPECT_EQ(all[i].prefill_tokens, 9);
        EXPECT_EQ(streamed[i], expected.ids);
      }
      EXPECT_NE(all[0].ids, all[1].ids);
    }
  }
}

TEST_P(Batched, PromptsMayDiffer) {
  for (const char* dtype : {"bf16", "fp32"}) {
    model::Decoder decoder = filled_decoder(GetParam().config, dtype);
    std::vector<std::vector<int64_t>> prompts;
    for (const int64_t length : {2, 301, 4, 71, 1, 23}) {
      prompts.push_back(
          random_ids(std::min(length, positions() - 1), vocabulary(), 10 + static_cast<uint64_t>(length)));
    }
    const GenerateSettings settings{
        .tokens = 12, .temperature = 1.1, .top_k = 20, .seed = 3, .count = 2, .stop_ids = {5}};
    const auto all = generate_batch(decoder, prompts, settings);
    ASSERT_EQ(all.size(), 12u);
    for (size_t i = 0; i < all.size(); ++i) {
      const Generation expected = alone(decoder, prompts[i / 2], settings, i);
      EXPECT_EQ(all[i].ids, expected.ids) << dtype << " sequence " << i;
      EXPECT_EQ(all[i].finish, expected.finish) << dtype << " sequence " << i;
    }
  }
}

// Not tokens only: the logits of a sequence are the same bits, whatever beside it.
void expect_bits_of_each_alone(model::Decoder& decoder, int64_t positions) {
  std::vector<std::vector<int64_t>> ids;
  for (const int64_t length : {1, 260, 7, 64, 2})
    ids.push_back(random_ids(std::min(length, positions - 3), decoder.config().vocabulary, 5));
  const auto run = [&](const std::vector<size_t>& which) {
    model::DecoderState state = decoder.make_state();
    std::vector<Continuation> prefill, next;
    for (const size_t i : which) prefill.push_back({state.add(), ids[i]});
    for (size_t n = 0; n < which.size(); ++n)
      next.push_back({prefill[n].row, {static_cast<int64_t>(which[n]) + 3}});
    std::vector<Tensor> logits{advance(decoder, prefill, state)};
    for (int step = 0; step < 2; ++step) logits.push_back(advance(decoder, next, state));
    return at::stack(logits, 1);  // [sequences, passes, vocabulary]
  };
  const Tensor together = run({0, 1, 2, 3, 4});
  EXPECT_TRUE(run({3, 0, 4}).equal(together.index_select(0, at::tensor({3, 0, 4}, at::kLong))));
  for (size_t i = 0; i < ids.size(); ++i)
    EXPECT_TRUE(run({i})[0].equal(together[static_cast<int64_t>(i)])) << i;
}

TEST_P(Batched, LogitsAreThoseOfEachAloneBitForBit) {
  const PoisonFreshMemory poison;
  for (const char* dtype : {"bf16", "fp32"}) {
    SCOPED_TRACE(dtype);
    model::Decoder decoder = filled_decoder(GetParam().config, dtype);
    expect_bits_of_each_alone(decoder, positions());
  }
}

TEST(Batch, ExpertsInEightBitsHaveTheBitsThatTheyHaveAlone) {
  const PoisonFreshMemory poison;
  for (const char* dtype : {"bf16", "fp32"}) {
    SCOPED_TRACE(dtype);
    model::Decoder wide = filled_decoder(all_mixers(), dtype), decoder = int8_copy_of(wide);
    expect_bits_of_each_alone(decoder, 1000);
    EXPECT_EQ(kernels::Dispatcher::last("int8_grouped_feed_forward").chosen, "fused");
  }
}

// [vocabulary] after these tokens, without any state.
Tensor full_logits_after(model::Decoder& decoder, const std::vector<int64_t>& ids) {
  const at::NoGradGuard guard;
  model::LocalOps ops;
  model::Context context(ops, decoder.precision());
  context.training = false;
  return decoder.logits(
      decoder.hidden(context, id_tensor(ids), layout::make_single(static_cast<int64_t>(ids.size()))))[-1];
}

// Sequences begin, fork and end at different times; parts of one token and of several meet in one pass. After
// each pass the logits are those of the full pass over the sequence's own tokens.
TEST_P(Batched, EqualsTheFullPassOfEachSequence) {
  const PoisonFreshMemory poison;
  const std::pair<const char*, double> precisions[] = {{"fp64", 1e-10}, {"fp32", 1e-4}};
  for (const auto& [dtype, tolerance] : precisions) {
    model::Decoder decoder = filled_decoder(GetParam().config, dtype);
    model::DecoderState state = decoder.make_state();
    std::map<int64_t, std::vector<int64_t>> texts;  // by row
    uint64_t seed = 20;
    const auto pass = [&](const std::vector<std::pair<int64_t, int64_t>>& parts) {  // row, tokens
      std::vector<Continuation> continuations;
      for (const auto& [row, count] : parts) {
        continuations.push_back({row, random_ids(count, vocabulary(), ++seed)});
        texts[row].insert(texts[row].end(), continuations.back().ids.begin(), continuations.back().ids.end());
      }
      const Tensor logits = advance(decoder, continuations, state);
      for (size_t i = 0; i < parts.size(); ++i) {
        EXPECT_LT(relative_error(logits[static_cast<int64_t>(i)],
                                 full_logits_after(decoder, texts[parts[i].first])),
                  tolerance)
            << dtype << " row " << parts[i].first << " after " << texts[parts[i].first].size() << " tokens";
      }
    };
    const int64_t a = state.add(), b = state.add();
    pass({{b, 6}, {a, 1}});
    const int64_t c = state.fork(b);
    texts[c] = texts[b];
    pass({{a, 3}, {b, 1}, {c, 1}});
    pass({{c, 4}, {a, 1}});
    state.drop(b);
    const int64_t d = state.add();
    texts[d].clear();
    EXPECT_EQ(d, b);
    const int64_t e = state.fork(c);
    texts[e] = texts[c];
    pass({{d, 2}, {c, 1}, {e, 1}, {a, 1}});
    pass({{a, 1}, {e, 1}, {d, 1}});
    EXPECT_EQ(state.tokens(a), 7);
    EXPECT_EQ(state.sequences(), 4);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Batched, ::testing::ValuesIn(models()),
                         [](const auto& named) { return named.param.name; });
INSTANTIATE_TEST_SUITE_P(Variants, Batched, ::testing::ValuesIn(variants_of_states()),
                         [](const auto& named) { return named.param.name; });

// So many channels in all that threads share the rows of an operator, and cut inside of one: 61 rows of 560.
TEST(Batch, RowsAreNotRoundedByWhereThreadsCutThem) {
  recipe::ModelConfig config = hgrn2_hybrid();
  config.heads = 8;
  config.hgrn2.expand = 70;
  model::Decoder decoder = filled_decoder(config, "fp32");
  set_threads(2);
  const auto logits_of = [&](int64_t first, int64_t count) {
    model::DecoderState state = decoder.make_state();
    std::vector<Continuation> next;
    for (int64_t i = 0; i < count; ++i) next.push_back({state.add(), {(first + i) % config.vocabulary}});
    return advance(decoder, next, state);
  };
  const Tensor together = logits_of(0, 61);
  for (int64_t i = 0; i < 61; ++i) EXPECT_TRUE(logits_of(i, 1)[0].equal(together[i])) << i;
  set_threads(0);
}

// 5,000 tokens through layers with windows of 300 and 20 keys: as the full pass has them, from a cache whose
// pages are those of the windows and of one pass of the prompt.
TEST(Batch, WindowsKeepTheirKeysAndNoOthers) {
  recipe::ModelConfig config = llama_like();
  config.softmax.windows = {300, 20};
  model::Decoder decoder = filled_decoder(config, "fp32");
  Generator generator(decoder);
  const std::vector<std::vector<int64_t>> prompts = {random_ids(5000, config.vocabulary, 1)};
  const Generation generation =
      generator.run(prompts, {.tokens = 600, .min_tokens = 600, .temperature = 0}).front();
  std::vector<int64_t> text = prompts[0];
  text.insert(text.end(), generation.ids.begin(), generation.ids.end());
  const int64_t last = text.back();
  text.pop_back();
  EXPECT_EQ(full_logits_after(decoder, text).argmax().item<int64_t>(), last);
  int64_t bytes = 0;
  for (const model::MixerState& layer : generator.state().layers()) {
    const int64_t page = layer.pages()->pool().page_bytes(), window = 300;
    EXPECT_LE(layer.pages()->pool().bytes(),
              page * ((Generator::kTokensOfPass + window) / kernels::PagePool::kTokens + 2));
    bytes += layer.pages()->pool().bytes();
  }
  EXPECT_LT(bytes, generator.state().page_bytes() * 5600 / kernels::PagePool::kTokens)
      << "less than all tokens would take";
  // Read token by token, a window takes its own pages and one more.
  model::DecoderState state = decoder.make_state();
  const int64_t row = state.add();
  for (int64_t t = 0; t < 1500; ++t) {
    const Continuation next{row, {text[static_cast<size_t>(t)]}};
    advance(decoder, std::span(&next, 1), state);
  }
  EXPECT_EQ(state.layers()[0].pages()->pool().bytes(), 3 * state.layers()[0].pages()->pool().page_bytes());
  EXPECT_EQ(state.layers()[1].pages()->pool().bytes(), 2 * state.layers()[1].pages()->pool().page_bytes());
}

TEST(Batch, EndsEachByItsOwnPositions) {
  model::Decoder decoder(gpt2_like(), Precision::named("fp32"));  // 24 positions; all weights zero
  const std::vector<std::vector<int64_t>> prompts = {
      std::vector<int64_t>(24, 1), std::vector<int64_t>(21, 1), {1, 1}};
  const auto all = generate_batch(decoder, prompts, {.tokens = 8, .temperature = 0, .stop_ids = {28}});
  EXPECT_EQ(all[0].ids.size(), 1u);
  EXPECT_EQ(all[0].finish, Finish::kPositions);
  EXPECT_EQ(all[1].ids.size(), 4u);
  EXPECT_EQ(all[1].finish, Finish::kPositions);
  EXPECT_EQ(all[2].ids.size(), 8u);
  EXPECT_EQ(all[2].finish, Finish::kTokens);
}

TEST(Batch, RefusesWhatIsNothing) {
  model::Decoder decoder(gpt2_like(), Precision::named("fp32"));
  const auto code = [&](const std::vector<std::vector<int64_t>>& prompts, const GenerateSettings& settings) {
    try {
      generate_batch(decoder, prompts, settings);
    } catch (const Error& error) {
      return error.code();
    }
    return ExitCode::kDone;
  };
  EXPECT_EQ(code({{1}}, {.count = 0}), ExitCode::kUsage);
  EXPECT_EQ(code({{1}, {}}, {.stop_ids = {28}}), ExitCode::kUsage);
  EXPECT_EQ(code({{1}, std::vector<int64_t>(25, 1)}, {}), ExitCode::kUsage);
  EXPECT_EQ(code({{1}, {29}}, {}), ExitCode::kData);
  EXPECT_TRUE(generate_batch(decoder, {}, {}).empty());
  const std::vector<std::vector<int64_t>> one = {{1}};
  EXPECT_EQ(generate_batch(decoder, one, {.tokens = 0, .count = 3}).size(), 3u);
}

}  // namespace
}  // namespace longhaul::generate
