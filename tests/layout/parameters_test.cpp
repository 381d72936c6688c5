// The parameter list: published counts, every name and shape of MiniMax-Text-01, initialisation, and splits
// that tile.
#include "layout/parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "recipe/architecture/presets.h"

namespace longhaul::layout {
namespace {

using recipe::Mixer;
using recipe::ModelConfig;

ModelConfig minimax_text_01() { return recipe::preset_model("minimax-text-01"); }
ModelConfig gpt2_124m() { return recipe::preset_model("gpt2-124m"); }
ModelConfig llama_3_8b() { return recipe::preset_model("llama-3-8b"); }

std::map<std::string, ParameterSpec> by_name(const ModelConfig& config) {
  std::map<std::string, ParameterSpec> map;
  for (ParameterSpec& spec : parameters(config)) {
    const std::string name = spec.tensor.name;
    EXPECT_TRUE(map.emplace(name, std::move(spec)).second) << name << " twice";
  }
  return map;
}

TEST(ParameterCount, PublishedModels) {
  EXPECT_EQ(parameter_count(minimax_text_01()), 456'089'655'296);
  EXPECT_EQ(activated_parameter_count(minimax_text_01()), 45'944'920'064);
  EXPECT_EQ(parameter_count(gpt2_124m()), 124'439'808);
  EXPECT_EQ(parameter_count(llama_3_8b()), 8'030'261'248);
  EXPECT_EQ(activated_parameter_count(llama_3_8b()), 8'030'261'248 - 2 * 128256 * 4096LL);
}

// By hand, of a layer of d channels: projections d (2 k + 2 v + 2 h), taps 4 (2 k + v), rate and step 2 h,
// norm d_v, output d v; of KDA gates through matrices of rank r, 2 d r + r (k + v), and a step for each
// channel.
TEST(ParameterCount, DeltaNets) {
  const int64_t d = 2048, channel = 3 * d * 5632 + 2 * d, ends = 2 * 32000 * d + d;
  int64_t h = 6, k = h * 256, v = h * 512;
  const int64_t gated = d * (2 * k + 2 * v + 2 * h) + 4 * (2 * k + v) + 2 * h + 512 + d * v;
  EXPECT_EQ(parameter_count(recipe::preset_model("deltanet-1.3b")), 21 * (gated + channel) + ends);
  EXPECT_EQ(parameter_count(recipe::preset_model("deltanet-1.3b")), 1'387'348'732);
  h = 16, k = v = h * 128;
  const int64_t kda =
      d * (2 * k + v + h) + 2 * d * 128 + 128 * (k + v) + 4 * (2 * k + v) + h + k + 128 + d * v;
  EXPECT_EQ(parameter_count(recipe::preset_model("deltanet-kda-1.3b")), 24 * (kda + channel) + ends);
  EXPECT_EQ(parameter_count(recipe::preset_model("deltanet-kda-1.3b")), 1'390'892'416);
}

// By hand: embedding and head V d; a SwiGLU of width f is 3 d f; softmax attention of H heads of c channels
// and G that are keys d c (2 H + 2 G).
TEST(ParameterCount, SpikingBrain) {
  const int64_t d = 3584, ffn = 3 * d * 18944, ends = 2 * 152064 * d + d, q = 28 * 128, kv = 4 * 128,
                qkv_bias = q + 2 * kv;
  const int64_t softmax = d * (2 * q + 2 * kv) + qkv_bias,
                linear = d * (2 * q + 2 * kv) + qkv_bias + d * 16 + 16 * kv + kv + 128;
  EXPECT_EQ(parameter_count(recipe::preset_model("spikingbrain-7b")),
            14 * (softmax + linear) + 28 * (ffn + 2 * d) + ends);
  EXPECT_EQ(parameter_count(recipe::preset_model("spikingbrain-7b")), 7'616'542'976);
  // Tied keys: their gate is where keys would be. Norms of both branches. Seven layers are dense, the others
  // have 16 experts and a shared one.
  const int64_t tied = d * (2 * q + 2 * kv) + 128, mixture = softmax + tied + 2 * d;
  const recipe::ModelConfig large = recipe::preset_model("spikingbrain-76b");
  EXPECT_EQ(parameter_count(large), 28 * (mixture + 2 * d) + 7 * ffn + 21 * (17 * ffn + 16 * d) + ends);
  EXPECT_EQ(parameter_count(large), 76'877'566'976);
  EXPECT_EQ(activated_parameter_count(large) + ends - d,
            28 * (mixture + 2 * d) + 7 * ffn + 21 * (2 * ffn + 16 * d) + ends);
  EXPECT_EQ(large.channel_mixer(2), recipe::ChannelMixer::kDense);
  EXPECT_EQ(large.channel_mixer(3), recipe::ChannelMixer::kExperts);
}

TEST(ParameterCount, TodaysHybrids) {
  const int64_t d = 2048, ends = 2 * 151936 * d + d;
  const int64_t experts = 512 * d + 512 * 3 * d * 512 + 3 * d * 512 + d;
  const int64_t softmax = d * (3 * 16 * 256 + 2 * 2 * 256) + 2 * 256;
  const int64_t k = 16 * 128, v = 32 * 128,
                delta = d * (2 * k + 2 * v + 2 * 32) + 4 * (2 * k + v) + 2 * 32 + 128 + v * d;
  const recipe::ModelConfig next = recipe::preset_model("qwen3-next-80b");
  EXPECT_EQ(parameter_count(next), 12 * softmax + 36 * delta + 48 * (experts + 2 * d) + ends);
  EXPECT_EQ(parameter_count(next), 79'674'391'296);
  const recipe::ModelConfig kimi = recipe::preset_model("kimi-linear-48b");
  const int64_t e = 2304, inner = 32 * 128;
  const int64_t kda =
      e * (3 * inner + 32) + 2 * e * 128 + 2 * 128 * inner + 4 * 3 * inner + 32 + inner + 128 + e * inner;
  const int64_t mla = e * 32 * (128 + 64) + e * (512 + 64) + 512 + 512 * 32 * (128 + 128) + e * inner;
  EXPECT_EQ(parameter_count(kimi), 20 * kda + 7 * mla + 27 * 2 * e + 3 * e * 9216 +
                                       26 * (256 * e + 256 + 257 * 3 * e * 1024) + 2 * 163840 * e + e);
  EXPECT_EQ(parameter_count(kimi), 49'122'681'728)
      << "total_parameters in the index of the published weights";
}

// By hand: input and output d², rows of expand, shrink and oscillation 3 k d, a layer norm 2 d.
TEST(ParameterCount, Lcsm) {
  const int64_t d = 256, k = 64, layer = 2 * d * d + 3 * k * d + 2 * d + 2 * d + 3 * d * 704;
  EXPECT_EQ(parameter_count(recipe::preset_model("lcsm-small")), 8 * layer + 8192 * d + d);
}

// As their model cards and configurations have them.
TEST(ParameterCount, PublishedFamilies) {
  const std::pair<const char*, int64_t> published[] = {
      {"llama-2-7b", 6'738'415'616},     {"llama-2-13b", 13'015'864'320},
      {"llama-2-70b", 68'976'648'192},   {"llama-3.1-8b", 8'030'261'248},
      {"mistral-7b", 7'241'732'096},     {"mixtral-8x7b", 46'702'792'704},
      {"qwen2.5-0.5b", 494'032'768},     {"qwen2.5-1.5b", 1'543'714'304},
      {"qwen2.5-7b", 7'615'616'512},     {"qwen3-0.6b", 596'049'920},
      {"qwen3-8b", 8'190'735'360},       {"qwen1.5-moe-a2.7b", 14'315'784'192},
      {"qwen3-30b-a3b", 30'532'122'624},
  };
  for (const auto& [preset, count] : published)
    EXPECT_EQ(parameter_count(recipe::preset_model(preset)), count) << preset;
}

ModelConfig hgrn2_of(int64_t layers, int64_t hidden, int64_t heads, int64_t intermediate) {
  return {.layers = layers,
          .hidden = hidden,
          .heads = heads,
          .head_dim = hidden / heads,
          .mixers = {Mixer::kHgrn2},
          .intermediate = intermediate};
}

// Non-embedding parameters, in millions to one digit: arXiv 2406.16690, table 2 (its norms have no weights).
// 1B: with the width that fits.
TEST(ParameterCount, PublishedHgrn2) {
  EXPECT_EQ(parameter_count(recipe::preset_model("hgrn2-1.3b")), 1'364'396'032);
  struct Size {
    ModelConfig config;
    double millions;
  };
  for (const auto& [config, millions] : {Size{hgrn2_of(6, 512, 4, 1536), 20.5},
                                         {hgrn2_of(12, 768, 6, 2048), 84.9},
                                         {hgrn2_of(26, 1024, 8, 2816), 334.0},
                                         {hgrn2_of(32, 1536, 16, 4096), 906.0},
                                         {hgrn2_of(35, 2560, 20, 6912), 2775.5},
                                         {hgrn2_of(32, 4096, 32, 11008), 6476.1}}) {
    int64_t count = 0;
    for (const ParameterSpec& spec : parameters(config)) {
      const Role role = spec.tensor.role;
      if (role != Role::kEmbedding && role != Role::kHead && role != Role::kNorm) count += spec.elements();
    }
    EXPECT_NEAR(static_cast<double>(count) / 1e6, millions, 0.051) << config.hidden;
    EXPECT_EQ(count, config.layers * (4 * config.hidden * config.hidden +
                                      3 * config.hidden * config.intermediate + config.hidden));
  }
}

TEST(ParameterNames, BoundsOfHgrn2AreOneTensorOfTheModel) {
  ModelConfig config = hgrn2_of(4, 32, 2, 8);
  config.hgrn2.expand = 5;
  config.mixers = {Mixer::kHgrn2, Mixer::kSoftmax};
  config.softmax.kv_heads = 1;
  const auto map = by_name(config);
  const ParameterSpec& bounds = map.at("hgrn2.lower_bounds.weight");
  EXPECT_EQ(bounds.tensor.global_shape, (Shape{4, 10}));
  EXPECT_EQ(bounds.tensor.role, Role::kLowerBound);
  EXPECT_EQ(bounds.init.kind, Init::Kind::kZeros);
  EXPECT_EQ(bounds.layer, -1);
  EXPECT_FALSE(bounds.decay);
  EXPECT_TRUE(kept_wide(bounds));
  EXPECT_EQ(placement_of(bounds, Mesh(2, {.tp = 2})).text(), "[-, tp] at pp=0");
  EXPECT_EQ(pipeline_ranks_of(bounds, config, Pipeline(2)), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(pipeline_ranks_of(bounds, config, Pipeline(4)), (std::vector<int64_t>{0, 2}))
      << "a softmax layer alone does not use it";
  EXPECT_EQ(map.at("layers.2.mixer.query.weight").tensor.global_shape, (Shape{10, 32}));
  EXPECT_EQ(map.at("layers.2.mixer.forget.weight").tensor.global_shape, (Shape{10, 32}));
  EXPECT_EQ(map.at("layers.2.mixer.value.weight").tensor.global_shape, (Shape{32, 32}));
  EXPECT_FALSE(map.contains("layers.1.mixer.forget.weight"));
  config.mixers = {Mixer::kSoftmax};
  EXPECT_FALSE(by_name(config).contains("hgrn2.lower_bounds.weight"));
}

TEST(ParameterCount, WhatATokenPassesThroughIsTheSumOverTheTensors) {
  for (const recipe::ModelConfig& config : {minimax_text_01(), gpt2_124m(), llama_3_8b()}) {
    int64_t sum = 0;
    for (const ParameterSpec& spec : parameters(config)) {
      const int64_t used = activated_elements(spec, config);
      EXPECT_TRUE(used == 0 || used == spec.elements()) << spec.tensor.name;
      sum += used;
    }
    EXPECT_EQ(sum, activated_parameter_count(config));
  }
  // The tables of words and positions are looked up or, as the head, left out by the published definition.
  for (const ParameterSpec& spec : parameters(gpt2_124m())) {
    const bool table = spec.tensor.name.starts_with("embedding") || spec.tensor.name.starts_with("position");
    EXPECT_EQ(activated_elements(spec, gpt2_124m()) == 0, table) << spec.tensor.name;
  }
}

TEST(ParameterNames, MiniMaxText01WholeList) {
  const auto map = by_name(minimax_text_01());
  // The public index holds 8,243 tensors; there a lightning layer's query, key and value are one.
  EXPECT_EQ(map.size(), 8243U + 70 * 2);
  std::map<std::string, Shape> expected = {
      {"embedding.weight", {200064, 6144}}, {"norm.weight", {6144}}, {"head.weight", {200064, 6144}}};
  for (int64_t layer = 0; layer < 80; ++layer) {
    const std::string prefix = fmt::format("layers.{}.", layer);
    const bool softmax = layer % 8 == 7;
    expected[prefix + "mixer_norm.weight"] = {6144};
    expected[prefix + "channel_norm.weight"] = {6144};
    expected[prefix + "mixer.query.weight"] = {8192, 6144};
    expected[prefix + "mixer.key.weight"] = {softmax ? 1024 : 8192, 6144};
    expected[prefix + "mixer.value.weight"] = {softmax ? 1024 : 8192, 6144};
    expected[prefix + "mixer.output.weight"] = {6144, 8192};
    if (!softmax) {
      expected[prefix + "mixer.gate.weight"] = {8192, 6144};
      expected[prefix + "mixer.norm.weight"] = {8192};
    }
    expected[prefix + "router.weight"] = {32, 6144};
    for (int64_t e = 0; e < 32; ++e) {
      const std::string expert = fmt::format("{}experts.{}.", prefix, e);
      expected[expert + "gate.weight"] = {9216, 6144};
      expected[expert + "up.weight"] = {9216, 6144};
      expected[expert + "down.weight"] = {6144, 9216};
    }
  }
  ASSERT_EQ(map.size(), expected.size());
  for (const auto& [name, shape] : expected) {
    ASSERT_TRUE(map.contains(name)) << name;
    EXPECT_EQ(map.at(name).tensor.global_shape, shape) << name;
  }
  EXPECT_EQ(map.at("layers.7.experts.3.up.weight").layer, 7);
  EXPECT_EQ(map.at("layers.7.experts.3.up.weight").expert, 3);
  EXPECT_EQ(map.at("layers.7.router.weight").expert, -1);
}

TEST(ParameterNames, OrderIsTheModelsOrder) {
  ModelConfig config;
  config.layers = 1;
  config.mixers = {Mixer::kLightning};
  std::vector<std::string> names;
  for (const ParameterSpec& spec : parameters(config)) names.push_back(spec.tensor.name);
  EXPECT_THAT(names, testing::ElementsAre("embedding.weight", "layers.0.mixer_norm.weight",
                                          "layers.0.mixer.query.weight", "layers.0.mixer.key.weight",
                                          "layers.0.mixer.value.weight", "layers.0.mixer.gate.weight",
                                          "layers.0.mixer.norm.weight", "layers.0.mixer.output.weight",
                                          "layers.0.channel_norm.weight", "layers.0.channel.gate.weight",
                                          "layers.0.channel.up.weight", "layers.0.channel.down.weight",
                                          "norm.weight", "head.weight"));
}

TEST(ParameterNames, BiasesAndLearnedPositions) {
  const auto map = by_name(gpt2_124m());
  EXPECT_EQ(map.size(), 2U + 12 * 16 + 2);
  EXPECT_EQ(map.at("position.weight").tensor.global_shape, (Shape{1024, 768}));
  for (const char* name : {"layers.11.mixer_norm.bias", "layers.11.mixer.query.bias",
                           "layers.11.mixer.output.bias", "layers.11.channel.down.bias", "norm.bias"}) {
    ASSERT_TRUE(map.contains(name)) << name;
    EXPECT_EQ(map.at(name).tensor.global_shape, (Shape{768}));
    EXPECT_EQ(map.at(name).tensor.role, Role::kBias);
  }
  EXPECT_EQ(map.at("layers.0.channel.up.bias").tensor.global_shape, (Shape{3072}));
  EXPECT_FALSE(map.contains("layers.0.channel.gate.weight"));
  EXPECT_FALSE(map.contains("head.weight"));
}

TEST(ParameterInit, DeepNormGainsOfTheReportedModel) {
  const auto map = by_name(minimax_text_01());
  const double beta = 0.19881768219176266;  // 640^-0.25
  const auto std_of = [&](const char* name) { return map.at(name).init.std; };
  EXPECT_DOUBLE_EQ(std_of("layers.0.mixer.query.weight"), std::sqrt(2.0 / (6144 + 8192)));
  EXPECT_DOUBLE_EQ(std_of("layers.7.mixer.key.weight"), std::sqrt(2.0 / (6144 + 1024)));
  EXPECT_DOUBLE_EQ(std_of("layers.0.mixer.gate.weight"), std::sqrt(2.0 / (6144 + 8192)));
  EXPECT_DOUBLE_EQ(std_of("layers.0.mixer.value.weight"), beta * std::sqrt(2.0 / (6144 + 8192)));
  EXPECT_DOUBLE_EQ(std_of("layers.0.mixer.output.weight"), beta * std::sqrt(2.0 / (6144 + 8192)));
  for (const char* name : {"gate", "up", "down"}) {
    EXPECT_DOUBLE_EQ(std_of(fmt::format("layers.3.experts.31.{}.weight", name).c_str()),
                     beta * std::sqrt(2.0 / (6144 + 9216)));
  }
  EXPECT_DOUBLE_EQ(std_of("layers.0.router.weight"), std::sqrt(2.0 / (6144 + 32)));
  EXPECT_DOUBLE_EQ(std_of("embedding.weight"), std::sqrt(2.0 / (6144 + 200064)));
  EXPECT_EQ(map.at("layers.0.mixer.value.weight").init.fan_in, 6144);
  EXPECT_EQ(map.at("layers.0.mixer.value.weight").init.fan_out, 8192);
  for (const auto& [name, spec] : map) {
    if (spec.tensor.role == Role::kNorm) {
      EXPECT_EQ(spec.init.kind, Init::Kind::kOnes) << name;
    } else {
      EXPECT_EQ(spec.init.kind, Init::Kind::kNormal) << name;
    }
    EXPECT_EQ(spec.decay, spec.tensor.role != Role::kNorm) << name;
    EXPECT_TRUE(spec.trainable);
  }
}

TEST(ParameterInit, PreNormAndGpt2ScaleWhatEntersTheResidualStream) {
  const auto gpt2 = by_name(gpt2_124m());
  EXPECT_DOUBLE_EQ(gpt2.at("layers.0.mixer.value.weight").init.std, 0.02);
  EXPECT_DOUBLE_EQ(gpt2.at("layers.0.mixer.output.weight").init.std, 0.02 / std::sqrt(24.0));
  EXPECT_DOUBLE_EQ(gpt2.at("layers.0.channel.down.weight").init.std, 0.02 / std::sqrt(24.0));
  EXPECT_DOUBLE_EQ(gpt2.at("embedding.weight").init.std, 0.02);
  EXPECT_EQ(gpt2.at("layers.0.mixer.query.bias").init.kind, Init::Kind::kZeros);
  EXPECT_FALSE(gpt2.at("layers.0.mixer.query.bias").decay);
  EXPECT_TRUE(gpt2.at("position.weight").decay);
  ModelConfig xavier = llama_3_8b();
  xavier.initialisation = recipe::Initialisation::kXavierDeepnorm;
  const auto llama = by_name(xavier);
  EXPECT_DOUBLE_EQ(llama.at("layers.0.mixer.value.weight").init.gain, 1);
  EXPECT_DOUBLE_EQ(llama.at("layers.0.channel.down.weight").init.gain, 1 / 8.0);
  EXPECT_DOUBLE_EQ(llama.at("layers.0.mixer.output.weight").init.std, std::sqrt(2.0 / 8192) / 8);
}

TEST(ParameterPlacement, EveryParameterIsTiledByItsFirstCopies) {
  ModelConfig config;
  config.layers = 2;
  config.hidden = 12;
  config.vocabulary = 37;  // not a multiple of anything: vocabulary rows may be uneven
  config.heads = 4;
  config.softmax.kv_heads = 2;
  config.head_dim = 6;
  config.mixers = {Mixer::kLightning, Mixer::kSoftmax};
  config.intermediate = 10;
  config.experts = 4;
  const Mesh mesh(16, {.pp = 2, .cp = 2, .tp = 2, .ep = 2, .etp = 2});
  std::vector<int64_t> held(16, 0);
  for (const ParameterSpec& spec : parameters(config)) {
    const Placement placement = placement_of(spec, mesh, spec.layer == 1 ? 1 : 0);
    std::vector<Rectangle> first;
    for (int64_t rank = 0; rank < mesh.world(); ++rank) {
      if (is_first_copy(placement, mesh, rank))
        first.push_back(rectangle_of(placement, mesh, rank, spec.tensor.global_shape));
    }
    EXPECT_EQ(covering_defect(spec.tensor.global_shape, first), std::nullopt)
        << spec.tensor.name << " " << placement.text();
    for (int64_t rank = 0; rank < mesh.world(); ++rank) {
      held[static_cast<size_t>(rank)] +=
          rectangle_of(placement, mesh, rank, spec.tensor.global_shape).volume();
    }
  }
  // Ranks of one stage hold the same amount but for the odd vocabulary row on tp 0.
  for (size_t rank = 0; rank < 8; ++rank) EXPECT_EQ(held[rank], held[rank % 2]) << rank;
  EXPECT_EQ(held[0] - held[1], 2 * 12) << "embedding and head";
  for (size_t rank = 9; rank < 16; ++rank) EXPECT_EQ(held[rank], held[8]) << rank;
}

TEST(ParameterPlacement, RulesByRole) {
  const auto map = by_name(minimax_text_01());
  const Mesh mesh(128, {.pp = 4, .cp = 1, .tp = 8, .ep = 16, .etp = 2});
  const auto text = [&](const char* name) { return placement_of(map.at(name), mesh, 2).text(); };
  EXPECT_EQ(text("layers.7.mixer.key.weight"), "[tp, -] at pp=2");
  EXPECT_EQ(text("layers.7.mixer.output.weight"), "[-, tp] at pp=2");
  EXPECT_EQ(text("layers.0.mixer.norm.weight"), "[tp] at pp=2");
  EXPECT_EQ(text("layers.0.mixer_norm.weight"), "[-] at pp=2");
  EXPECT_EQ(text("layers.0.router.weight"), "[-, -] at pp=2");
  EXPECT_EQ(text("layers.0.experts.31.up.weight"), "[etp, -] at pp=2, ep=15");
  EXPECT_EQ(text("layers.0.experts.2.down.weight"), "[-, etp] at pp=2, ep=1");
  EXPECT_EQ(text("head.weight"), "[tp, -] at pp=2");
  const auto gpt2 = by_name(gpt2_124m());
  const Mesh tensor(2, {.tp = 2});
  EXPECT_EQ(placement_of(gpt2.at("layers.0.mixer.query.bias"), tensor).text(), "[tp] at pp=0");
  EXPECT_EQ(placement_of(gpt2.at("layers.0.mixer.output.bias"), tensor).text(), "[-] at pp=0");
  EXPECT_EQ(placement_of(gpt2.at("layers.0.channel.down.bias"), tensor).text(), "[-] at pp=0");
}

// Of 8 key heads 16 tensor ranks have one each, two of them the same: rank r what its query heads read, 4 r …
// 4 r + 3 of 64, which are of head r / 2.
TEST(ParameterPlacement, TensorRanksThatOutnumberKeyHeadsHoldCopies) {
  const ModelConfig config = minimax_text_01();
  EXPECT_EQ(key_copies(config, 8), 1);
  EXPECT_EQ(key_copies(config, 16), 2);
  EXPECT_EQ(key_copies(config, 12), 1) << "they cannot be dealt out";
  const auto map = by_name(config);
  const Mesh mesh(32, {.tp = 16, .key_copies = key_copies(config, 16)});
  for (const char* const name : {"layers.7.mixer.key.weight", "layers.7.mixer.value.weight"}) {
    const ParameterSpec& spec = map.at(name);
    const Placement placement = placement_of(spec, mesh);
    EXPECT_EQ(placement.text(), "[tps, -] at pp=0") << name;
    const int64_t head = spec.tensor.global_shape[0] / 8;
    for (int64_t rank = 0; rank < 16; ++rank) {
      EXPECT_EQ(rectangle_of(placement, mesh, rank, spec.tensor.global_shape).offset[0], rank / 2 * head)
          << name << " on " << rank;
    }
  }
  EXPECT_EQ(placement_of(map.at("layers.7.mixer.query.weight"), mesh).text(), "[tp, -] at pp=0");
  EXPECT_EQ(placement_of(map.at("layers.6.mixer.key.weight"), mesh).text(), "[tp, -] at pp=0")
      << "lightning: as many as queries";
  // One for all: whole everywhere, as a norm is.
  ModelConfig one = config;
  one.softmax.kv_heads = 1;
  EXPECT_EQ(key_copies(one, 16), 1);
  EXPECT_EQ(placement_of(by_name(one).at("layers.7.mixer.key.weight"), Mesh(16, {.tp = 16})).text(),
            "[-, -] at pp=0");
}

TEST(ParameterPlacement, CopiesOfTwoKindsAreRefused) {
  ModelConfig config;
  config.mixers = {Mixer::kSoftmax, Mixer::kGla};
  config.softmax.kv_heads = 2;
  config.gla.key_heads = 4;
  EXPECT_EQ(key_copies(config, 4), 2) << "gla's four are dealt out";
  try {
    key_copies(config, 8);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_THAT(error.what(), testing::HasSubstr("2 and 4 key heads"));
  }
}

TEST(ParameterPlacement, RefusesHeadsAndExpertsThatDoNotDivide) {
  const auto map = by_name(minimax_text_01());
  const auto refused = [&](const char* name, const Mesh& mesh) -> std::string {
    try {
      return "accepted " + placement_of(map.at(name), mesh).text();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      return error.what();
    }
  };
  EXPECT_THAT(refused("layers.7.mixer.key.weight", Mesh(12, {.tp = 12})),
              testing::HasSubstr("8 heads cannot be dealt out to 12"));
  EXPECT_THAT(refused("layers.0.mixer.norm.weight", Mesh(3, {.tp = 3})),
              testing::AllOf(testing::HasSubstr("64 heads cannot be dealt out to 3"),
                             testing::HasSubstr("parallel.tp=2")));
  EXPECT_THAT(refused("layers.0.experts.0.up.weight", Mesh(5, {.ep = 5})),
              testing::AllOf(testing::HasSubstr("32 experts cannot be dealt out to 5"),
                             testing::HasSubstr("parallel.ep=4")));
}

}  // namespace
}  // namespace longhaul::layout
