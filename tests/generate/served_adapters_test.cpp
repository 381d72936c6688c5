// Texts of several adapters and of their base in one batch: each has the bits that it has alone, those of a
// model that was opened with this adapter, and, in fp64, the numbers of a model with the adapter merged into
// its weights.
// ctest: label=full timeout=300
#include "model/served_adapters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "generate/engine_for_tests.h"
#include "layout/adapters.h"
#include "support/models.h"
#include "support/refused.h"

namespace longhaul::generate::served_adapters_test {
namespace {

using namespace longhaul::testing;
using Matrices = std::map<std::string, model::ServedAdapters::Matrix>;
constexpr double kScale = 2.0;  // alpha 8, rank 4

recipe::ModelConfig with_adapters(recipe::ModelConfig config, const std::vector<std::string>& targets) {
  config.lora = {.rank = 4, .alpha = 8, .targets = targets};
  return config;
}

// The adapters of a filled model that has them.
Matrices adapters_of(const model::Decoder& adapted) {
  Matrices matrices;
  recipe::ModelConfig plain = adapted.config();
  plain.lora = {};
  const auto value = [&](const std::string& name) {
    size_t part = 0;
    const model::Parameter* const holder = adapted.parameters().holder_of(name, &part);
    return holder->part_of(holder->value.detach(), part).clone();
  };
  for (const layout::ParameterSpec& spec : layout::parameters(plain)) {
    if (!layout::is_adapted(adapted.config().lora, spec)) continue;
    matrices[spec.tensor.name] = {.down_ri = value(layout::adapter_down_name(spec.tensor.name)),
                                  .up_or = value(layout::adapter_up_name(spec.tensor.name)),
                                  .scale = kScale};
  }
  return matrices;
}

// The tensors of `from` that `to` has too.
void copy_weights(const model::Decoder& from, model::Decoder& to, const Matrices& merged = {}) {
  const at::NoGradGuard guard;
  for (const auto& parameter : to.parameters().all()) {
    for (size_t i = 0; i < parameter->parts.size(); ++i) {
      const std::string& name = parameter->parts[i].spec.tensor.name;
      size_t part = 0;
      const model::Parameter* const holder = from.parameters().holder_of(name, &part);
      if (holder == nullptr) continue;
      Tensor value = holder->part_of(holder->value.detach(), part);
      if (const auto found = merged.find(name); found != merged.end())
        value = value + found->second.scale * at::mm(found->second.up_or, found->second.down_ri);
      parameter->part_of(parameter->value.detach(), i).copy_(value);
    }
    parameter->written();
  }
}

struct Asked {
  int64_t adapter = 0;
  Wanted wanted;
};

Texts texts_of(model::Decoder& decoder, const std::vector<Asked>& all, bool prefixes = false) {
  EngineOptions options{.sequences = 8};
  if (prefixes) {
    options.bytes = int64_t{64} << 20;
    options.prefix_bytes = int64_t{32} << 20;
    options.keeps_prompts = true;
  }
  Engine engine(decoder, options);
  Texts texts(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    Request request = request_of(all[i].wanted, texts[i]);
    request.adapter = all[i].adapter;
    engine.submit(std::move(request));
    engine.step();
  }
  while (engine.step()) {
  }
  return texts;
}

void expect_same(const std::vector<Generation>& found, const std::vector<Generation>& expected,
                 double tolerance, const std::string& how) {
  ASSERT_EQ(found.size(), expected.size()) << how;
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].ids, expected[i].ids) << how;
    ASSERT_EQ(found[i].log_probabilities.size(), expected[i].log_probabilities.size()) << how;
    for (size_t t = 0; t < found[i].log_probabilities.size(); ++t)
      EXPECT_NEAR(found[i].log_probabilities[t], expected[i].log_probabilities[t], tolerance) << how;
  }
}

TEST(ServedAdapters, TextsInOneBatchHaveTheBitsThatTheyHaveAlone) {
  const std::vector<std::string> targets[] = {{"all-linear"}, {"query", "down"}};
  for (const recipe::ModelConfig& plain : {qwen_like(), hybrid_pre_norm_tied()}) {
    for (const char* dtype : {"fp32", "bf16", "fp64"}) {
      model::Decoder base = filled_decoder(plain, dtype), served = filled_decoder(plain, dtype);
      std::vector<Matrices> sets;
      std::vector<std::unique_ptr<model::Decoder>> adapted, merged;
      for (size_t a = 0; a < 2; ++a) {
        adapted.push_back(std::make_unique<model::Decoder>(
            filled_decoder(with_adapters(plain, targets[a]), dtype, 40 + 9 * a)));
        copy_weights(base, *adapted.back());
        sets.push_back(adapters_of(*adapted.back()));
        merged.push_back(std::make_unique<model::Decoder>(filled_decoder(plain, dtype)));
        copy_weights(base, *merged.back(), sets.back());
        EXPECT_EQ(served.parameters().served()->add(sets.back()), static_cast<int64_t>(a) + 1);
      }
      std::vector<Asked> all;
      for (int64_t i = 0; i < 7; ++i) {
        all.push_back({.adapter = i % 3,
                       .wanted = {random_ids(5 + 11 * (i / 3), plain.vocabulary, 3),
                                  exact_settings(static_cast<uint64_t>(8 + i / 3), 9)}});
      }
      all[4].wanted.settings.count = 2;
      const Texts together = texts_of(served, all);
      const bool wide = std::string(dtype) == "fp64";
      bool differ = false;
      for (size_t i = 0; i < all.size(); ++i) {
        const std::string how = fmt::format("{} text {} of adapter {}", dtype, i, all[i].adapter);
        expect_same(together[i], texts_of(served, {all[i]})[0], wide ? 1e-9 : 0, how + ", alone");
        const Asked of_own{.adapter = 0, .wanted = all[i].wanted};
        const auto a = static_cast<size_t>(all[i].adapter);
        model::Decoder& own = a == 0 ? base : *adapted[a - 1];
        expect_same(together[i], texts_of(own, {of_own})[0], wide ? 1e-9 : 0, how + ", a model of its own");
        if (wide && a > 0)
          expect_same(together[i], texts_of(*merged[a - 1], {of_own})[0], 1e-9, how + ", merged");
        differ = differ || (a > 0 && together[i][0].ids != together[i - a][0].ids);
      }
      EXPECT_TRUE(differ) << "adapters that change nothing show nothing";
    }
  }
}

// What one adapter has read of a prompt is no beginning for another.
TEST(ServedAdapters, KeepPrefixesOfTheirOwn) {
  const recipe::ModelConfig plain = hybrid_pre_norm_tied();
  model::Decoder served = filled_decoder(plain, "fp32");
  for (const uint64_t seed : {40, 49}) {
    served.parameters().served()->add(
        adapters_of(filled_decoder(with_adapters(plain, {"all-linear"}), "fp32", seed)));
  }
  std::vector<Asked> all;
  for (const int64_t adapter : {0, 1, 2, 1, 0, 2})
    all.push_back(
        {.adapter = adapter, .wanted = {random_ids(700, plain.vocabulary, 3), exact_settings(8, 4)}});
  const Texts kept = texts_of(served, all, true);
  for (size_t i = 0; i < all.size(); ++i) {
    expect_same(kept[i], texts_of(served, {all[i]})[0], 0, fmt::format("text {}", i));
    EXPECT_EQ(kept[i][0].continued_tokens > 0, i >= 3) << i;
  }
}

TEST(ServedAdapters, RefuseWhatTheyDoNotFit) {
  const recipe::ModelConfig plain = qwen_like();
  model::Decoder served = filled_decoder(plain, "fp32");
  model::ServedAdapters& all = *served.parameters().served();
  Matrices matrices = adapters_of(filled_decoder(with_adapters(plain, {"query"}), "fp32"));
  matrices["embedding.weight"] = matrices.begin()->second;
  EXPECT_THAT(refused([&] { all.add(matrices); }),
              ::testing::HasSubstr("a matrix that is served without adapters"));
  matrices.erase("embedding.weight");
  matrices.begin()->second.up_or = at::zeros({3, 4});
  EXPECT_THAT(refused([&] { all.add(matrices); }), ::testing::HasSubstr("another shape"));
  EXPECT_EQ(all.count(), 0);
}

}  // namespace
}  // namespace longhaul::generate::served_adapters_test
