// Prompts that begin like earlier ones: the same tokens as without, what was not read again, and how much
// memory is held for it. ctest: label=fast timeout=120
#include "generate/prefix_cache.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "generate/generate.h"
#include "support/variant_models.h"

namespace longhaul::generate {
namespace {

using namespace longhaul::testing;

constexpr int64_t kPage = PrefixCache::kTokens;

std::vector<int64_t> joined(std::vector<int64_t> a, const std::vector<int64_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

recipe::ModelConfig long_enough(recipe::ModelConfig config) {
  if (config.max_positions > 0) config.max_positions = 2048;
  if (std::ranges::count(config.mixers, recipe::Mixer::kCosformer) > 0) config.cosformer.longest = 2048;
  return config;
}

// Logits after these tokens, which a new sequence reads in parts that end at the stops.
Tensor logits_after(model::Decoder& decoder, model::DecoderState& state, const std::vector<int64_t>& ids,
                    const std::vector<int64_t>& stops) {
  const int64_t row = state.add();
  Tensor logits;
  for (const int64_t stop : stops) {
    const Continuation part{row, {ids.begin() + state.tokens(row), ids.begin() + stop}};
    logits = advance(decoder, std::span(&part, 1), state);
  }
  return logits;
}

// The least used makes room: a was kept before b, but used after it; c takes b's place, and d then a's, for c
// is newer.
TEST(KeptBeginnings, WhatWasNotUsedForLongestMakesRoom) {
  const recipe::ModelConfig config = long_enough(small_models().front().config);
  model::Decoder decoder = filled_decoder(config, "fp32");
  model::DecoderState state = decoder.make_state();
  PrefixCache one(state, int64_t{1} << 40, 64);
  const int64_t bytes = [&] {
    const std::vector<int64_t> ids = random_ids(kPage, config.vocabulary, 1);
    const int64_t row = state.add();
    const Continuation all{row, ids};
    advance(decoder, std::span(&all, 1), state);
    one.keep(ids, row);
    return one.bytes();
  }();
  PrefixCache cache(state, 2 * bytes, 64);  // two beginnings have room
  const auto ids_of = [&](uint64_t seed) { return random_ids(kPage + 100, config.vocabulary, seed); };
  const auto keep = [&](uint64_t seed) {
    const std::vector<int64_t> ids = ids_of(seed);
    const int64_t row = state.add();
    const Continuation page{row, {ids.begin(), ids.begin() + kPage}};
    advance(decoder, std::span(&page, 1), state);
    cache.keep(std::span(ids).first(kPage), row);
    state.drop(row);
  };
  const auto found = [&](uint64_t seed) {
    const int64_t row = cache.begin(ids_of(seed)).row, tokens = state.tokens(row);
    state.drop(row);
    return tokens;
  };
  constexpr uint64_t kA = 11, kB = 12, kC = 13, kD = 14;
  keep(kA);
  keep(kB);
  EXPECT_EQ(found(kA), kPage);
  keep(kC);
  keep(kD);
  EXPECT_EQ(found(kC), kPage) << "newer than a's last use";
  EXPECT_EQ(found(kD), kPage);
  EXPECT_EQ(found(kA), 0);
  EXPECT_EQ(found(kB), 0);
  EXPECT_EQ(cache.kept(), 2);
}

class Prefixes : public ::testing::TestWithParam<NamedConfig> {};

// The first 600 tokens are shared by all, 512 of them whole pages; the second prompt ends on a page, and the
// third goes on from there.
TEST_P(Prefixes, ContinueWithTheSameLogitsAndTokens) {
  const PoisonFreshMemory poison;
  const recipe::ModelConfig config = long_enough(GetParam().config);
  const std::vector<int64_t> first = random_ids(600, config.vocabulary, 1),
                             second = joined(first, random_ids(168, config.vocabulary, 2)),
                             third = joined(second, random_ids(80, config.vocabulary, 3)),
                             other = random_ids(300, config.vocabulary, 4);
  const std::vector<std::vector<int64_t>> prompts = {first, second, third, other, first};
  for (const char* dtype : {"bf16", "fp32"}) {
    model::Decoder decoder = filled_decoder(config, dtype);
    const GenerateSettings settings{.tokens = 6, .temperature = 1.2, .top_p = 0.97, .seed = 11, .count = 2};
    // each prompt by itself: a delta rule in bf16 rounds long ones by what is beside them
    std::vector<Generation> without;
    for (size_t p = 0; p < prompts.size(); ++p) {
      GenerateSettings own = settings;
      own.seed += 2 * p;
      for (Generation& each : generate_batch(decoder, std::span(&prompts[p], 1), own))
        without.push_back(std::move(each));
    }
    Generator generator(decoder, int64_t{1} << 30);
    const std::vector<Generation> with = generator.run(prompts, settings);
    const int64_t continued[] = {0, 512, 768, 0, 512};
    for (size_t i = 0; i < with.size(); ++i) {
      EXPECT_EQ(with[i].ids, without[i].ids) << dtype << " sequence " << i;
      EXPECT_EQ(with[i].continued_tokens, continued[i / 2]) << dtype << " sequence " << i;
    }
    // A later call finds what an earlier one left, and its sequences are gone.
    const std::vector<Generation> again = generator.run(std::span(&prompts[2], 1), settings);
    EXPECT_EQ(again[0].continued_tokens, 768) << dtype;
    const PrefixCache::Counts& counts = generator.prefixes().counts();
    EXPECT_EQ(counts.prompts, 6);
    EXPECT_EQ(counts.continued, 4);
    EXPECT_EQ(counts.tokens, 600 + 768 + 848 + 300 + 600 + 848);
    EXPECT_EQ(counts.tokens_not_read, 512 + 768 + 512 + 768);
    // Of a prompt that ends with a kept page something is left to be read, since nobody kept its logits.
    const std::vector<Generation> page = generator.run(std::span(&prompts[1], 1), settings);
    EXPECT_EQ(page[0].continued_tokens, 512) << dtype;
    EXPECT_EQ(page[0].ids, generate_batch(decoder, std::span(&prompts[1], 1), settings)[0].ids) << dtype;
    const int64_t kept = least_read_at_once(config) == 64 ? 3 : 4;
    EXPECT_EQ(generator.prefixes().kept(), kept)
        << "256, 512 and 768 of the first three, and 256 of the fourth where 44 more tokens are enough";
    EXPECT_EQ(generator.state().sequences(), kept) << "and nothing else";
  }
}

// Not tokens only. A state that stopped at a page and went on, and one that read all at once, say the same to
// the bit.
TEST_P(Prefixes, StoppingAtAPageChangesNoBit) {
  const recipe::ModelConfig config = long_enough(GetParam().config);
  const std::vector<int64_t> ids = random_ids(700, config.vocabulary, 5);
  for (const char* dtype : {"bf16", "fp32"}) {
    model::Decoder decoder = filled_decoder(config, dtype);
    model::DecoderState state = decoder.make_state();
    const auto read = [&](const std::vector<int64_t>& stops) {
      return logits_after(decoder, state, ids, stops);
    };
    const Tensor whole = read({700});
    EXPECT_TRUE(read({kPage, 2 * kPage, 700}).equal(whole))
        << dtype << " " << relative_error(read({kPage, 2 * kPage, 700}), whole);
    EXPECT_TRUE(read({2 * kPage, 700}).equal(whole)) << dtype;
    for (const std::vector<int64_t>& stops :
         {std::vector<int64_t>{64, 256, 512, 576, 700}, {448, 700}, {192, 384, 576, 700}})
      EXPECT_TRUE(read(stops).equal(whole)) << dtype << " stops at " << stops.front();
  }
}

// What is left behind the last stop may be as short as least_read_at_once says, and one token more.
TEST_P(Prefixes, AShortEndHasTheBitsOfTheWhole) {
  const recipe::ModelConfig config = long_enough(GetParam().config);
  const int64_t least = least_read_at_once(config);
  for (const char* dtype : {"bf16", "fp32"}) {
    model::Decoder decoder = filled_decoder(config, dtype);
    model::DecoderState state = decoder.make_state();
    for (const int64_t end : {least, least + 1}) {
      const std::vector<int64_t> ids = random_ids(kPage + end, config.vocabulary, 6);
      EXPECT_TRUE(logits_after(decoder, state, ids, {kPage, kPage + end})
                      .equal(logits_after(decoder, state, ids, {kPage + end})))
          << dtype << " " << end;
    }
  }
}

// The prompt of a second turn begins with the first one's 1,200 tokens, of which the last step that leaves
// enough ends after 1,152, and after 1,088 where delta rules want 64.
TEST_P(Prefixes, TheNextTurnGoesOnAtTheLastStep) {
  const PoisonFreshMemory poison;
  const recipe::ModelConfig config = long_enough(GetParam().config);
  const int64_t least = least_read_at_once(config), last = least == 64 ? 1088 : 1152;
  const std::vector<int64_t> first = random_ids(1200, config.vocabulary, 1);
  const auto after = [&](int64_t same, int64_t others) {
    return joined({first.begin(), first.begin() + same}, random_ids(others, config.vocabulary, 2));
  };
  const std::vector<std::vector<int64_t>> prompts = {first, after(1200, 150), after(last - 1, 100),
                                                     after(last, least - 1), after(last, least)};
  const int64_t continued[] = {0, last, 1024, 1024, last};
  for (const char* dtype : {"bf16", "fp32"}) {
    model::Decoder decoder = filled_decoder(config, dtype);
    Generator generator(decoder, int64_t{1} << 30);
    for (size_t p = 0; p < prompts.size(); ++p) {
      const GenerateSettings settings{.tokens = 4, .temperature = 1.2, .seed = 3, .log_probabilities = true};
      const Generation with = generator.run(std::span(&prompts[p], 1), settings).front(),
                       without = generate_batch(decoder, std::span(&prompts[p], 1), settings).front();
      EXPECT_EQ(with.continued_tokens, continued[p]) << dtype << " prompt " << p;
      EXPECT_EQ(with.ids, without.ids) << dtype << " prompt " << p;
      EXPECT_EQ(with.log_probabilities, without.log_probabilities) << dtype << " prompt " << p;
    }
  }
}

TEST(Stops, AreAtPagesAndAtTheLastStepOfALongPrompt) {
  using Stops = std::vector<int64_t>;
  model::Decoder decoder = filled_decoder(small_models().front().config, "fp32");
  model::DecoderState state = decoder.make_state();
  const auto stops_of = [&](int64_t least, int64_t tokens, int64_t read = 0) {
    const PrefixCache cache(state, 0, least);
    Stops stops;
    for (; read < tokens; stops.push_back(read)) read = cache.next_stop(read, tokens);
    return stops;
  };
  EXPECT_EQ(stops_of(64, 1), (Stops{1}));
  EXPECT_EQ(stops_of(64, 319), (Stops{319}));
  EXPECT_EQ(stops_of(64, 320), (Stops{256, 320}));
  EXPECT_EQ(stops_of(64, 1023), (Stops{256, 512, 768, 1023})) << "no long prompt";
  EXPECT_EQ(stops_of(64, 1024), (Stops{256, 512, 768, 960, 1024}));
  EXPECT_EQ(stops_of(64, 1088), (Stops{256, 512, 768, 1024, 1088}));
  EXPECT_EQ(stops_of(64, 1200), (Stops{256, 512, 768, 1024, 1088, 1200}));
  EXPECT_EQ(stops_of(64, 1279, 1088), (Stops{1152, 1279}));
  EXPECT_EQ(stops_of(64, 1350, 1088), (Stops{1280, 1350}));
  EXPECT_EQ(stops_of(8, 263), (Stops{263}));
  EXPECT_EQ(stops_of(8, 264), (Stops{256, 264}));
  EXPECT_EQ(stops_of(8, 1031), (Stops{256, 512, 768, 960, 1031}));
  EXPECT_EQ(stops_of(8, 1032), (Stops{256, 512, 768, 1024, 1032}));
  EXPECT_EQ(stops_of(8, 1200), (Stops{256, 512, 768, 1024, 1152, 1200}));
}

TEST(LeastReadAtOnce, IsMoreForDeltaRules) {
  recipe::ModelConfig config = small_models().front().config;
  EXPECT_EQ(least_read_at_once(config), 8);
  config.mixers.back() = recipe::Mixer::kGatedDeltaNet;
  EXPECT_EQ(least_read_at_once(config), 64);
}

// Heads of more than 64 channels have longer blocks.
std::vector<NamedConfig> wide_heads() {
  recipe::ModelConfig fixed = hybrid_experts_post_norm(), gated = gated_lineage();
  fixed.head_dim = gated.head_dim = 72;
  return {{"fixed_decay", fixed}, {"gated", gated}};
}
INSTANTIATE_TEST_SUITE_P(WideHeads, Prefixes, ::testing::ValuesIn(wide_heads()),
                         [](const auto& named) { return named.param.name; });
INSTANTIATE_TEST_SUITE_P(Models, Prefixes, ::testing::ValuesIn(small_models()),
                         [](const auto& named) { return named.param.name; });
INSTANTIATE_TEST_SUITE_P(Variants, Prefixes, ::testing::ValuesIn(variants_of_states()),
                         [](const auto& named) { return named.param.name; });

class KeptPrefixes : public ::testing::Test {
 protected:
  // Lightning, lightning, softmax: a beginning is two recurrences and a page of one layer.
  KeptPrefixes()
      : decoder_(filled_decoder(hybrid_experts_post_norm(), "fp32")), state_(decoder_.make_state()) {}
  int64_t bytes_of_one() const { return 2 * state_.row_bytes() + state_.page_bytes(); }
  std::vector<int64_t> prompt(uint64_t seed, int64_t pages) const {
    return random_ids(pages * kPage + 70, 29, seed);
  }
  int64_t continued(Generator& generator, const std::vector<int64_t>& ids) {
    return generator.run(std::span(&ids, 1), {.tokens = 1, .temperature = 0}).front().continued_tokens /
           kPage;
  }

  model::Decoder decoder_;
  model::DecoderState state_;
};

TEST_F(KeptPrefixes, StayWithinTheirBytes) {
  EXPECT_EQ(state_.row_bytes(), 2 * 4 * 8 * 8 * 4);
  EXPECT_EQ(state_.page_bytes(), 2 * kPage * 16 * 4);
  const int64_t limit = 5 * bytes_of_one() + 1;
  Generator generator(decoder_, limit);
  for (uint64_t seed = 0; seed < 12; ++seed) {
    continued(generator, prompt(seed % 7, 1 + static_cast<int64_t>(seed % 4)));
    EXPECT_LE(generator.prefixes().bytes(), limit);
    EXPECT_EQ(generator.state().sequences(), generator.prefixes().kept());
  }
  EXPECT_EQ(generator.prefixes().kept(), 5);
  EXPECT_GT(generator.prefixes().counts().dropped, 10);
  // One sequence of at most five pages at a time was beside them, and a row for the next.
  EXPECT_LE(generator.state().bytes(), limit + 4 * state_.row_bytes() + 5 * state_.page_bytes());
}

TEST_F(KeptPrefixes, MakeRoomFromTheEndsThatWereNotUsedForLongest) {
  Generator generator(decoder_, 4 * bytes_of_one());
  const auto a = prompt(1, 2), b = prompt(2, 2), c = prompt(3, 1);
  EXPECT_EQ(continued(generator, a), 0);
  EXPECT_EQ(continued(generator, b), 0);
  EXPECT_EQ(continued(generator, a), 2);
  EXPECT_EQ(continued(generator, c), 0) << "room is made by the longer one of b";
  EXPECT_EQ(continued(generator, a), 2);
  EXPECT_EQ(generator.prefixes().counts().dropped, 1);
  EXPECT_EQ(continued(generator, b), 1) << "whose longer one comes back in the place of c";
  EXPECT_EQ(continued(generator, b), 2);
  EXPECT_EQ(continued(generator, c), 0);
}

TEST_F(KeptPrefixes, OfALongPromptAreAsManyAsHaveRoom) {
  Generator generator(decoder_, 3 * bytes_of_one());
  const auto ids = prompt(1, 6);
  EXPECT_EQ(continued(generator, ids), 0);
  EXPECT_EQ(generator.prefixes().kept(), 3);
  EXPECT_EQ(continued(generator, ids), 3);
  Generator none(decoder_, bytes_of_one() - 1);
  EXPECT_EQ(continued(none, ids), 0);
  EXPECT_EQ(continued(none, ids), 0);
  EXPECT_FALSE(none.prefixes().keeps());
}

}  // namespace
}  // namespace longhaul::generate
