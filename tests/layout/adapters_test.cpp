// Which tensors [lora] adds to the list of a model's tensors, how they are cut, what trains, and what is
// refused.
#include "layout/adapters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/error.h"
#include "recipe/check.h"
#include "recipe/load.h"

namespace longhaul::layout {
namespace {

using recipe::AdapterKind;
using ::testing::HasSubstr;

recipe::ModelConfig adapted(const std::vector<std::string>& targets, AdapterKind kind = AdapterKind::kLora) {
  recipe::ModelConfig model{
      .layers = 2, .hidden = 16, .vocabulary = 50, .heads = 2, .head_dim = 8, .softmax = {.kv_heads = 1}};
  model.intermediate = 12;
  model.lora = {.rank = 3, .alpha = 6, .targets = targets, .kind = kind};
  return model;
}

std::map<std::string, ParameterSpec> adapters_of(const recipe::ModelConfig& model) {
  std::map<std::string, ParameterSpec> found;
  for (const ParameterSpec& spec : parameters(model)) {
    EXPECT_EQ(spec.trainable, !spec.adapter_of.tensor.empty()) << spec.tensor.name;
    EXPECT_EQ(spec.frozen, spec.adapter_of.tensor.empty()) << spec.tensor.name;
    if (spec.trainable) found.emplace(spec.tensor.name, spec);
  }
  return found;
}

TEST(AdapterTensors, StandBesideEveryLinearLayerExceptTheHead) {
  const auto all = adapters_of(adapted({"all-linear"}));
  EXPECT_EQ(all.size(), 2u * 7 * 2) << "query, key, value, output, gate, up and down of two layers";
  const ParameterSpec &down = all.at("layers.1.channel.down.lora_a.weight"),
                      &up = all.at("layers.1.channel.down.lora_b.weight");
  EXPECT_EQ(down.tensor.global_shape, (Shape{3, 12}));
  EXPECT_EQ(up.tensor.global_shape, (Shape{16, 3}));
  EXPECT_EQ(down.layer, 1);
  EXPECT_EQ(up.adapter_of.tensor, "layers.1.channel.down.weight");
  EXPECT_EQ(up.adapter_of.scale, 2);
  EXPECT_EQ(up.init.kind, Init::Kind::kZeros);
  EXPECT_EQ(down.init.kind, Init::Kind::kUniform);
  EXPECT_NEAR(std::sqrt(3.0) * down.init.std, 1 / std::sqrt(12.0), 1e-15)
      << "as kaiming_uniform_ with a = √5";
}

TEST(AdapterTensors, PatternsAreOfNamesOrOfTheirLastWords) {
  EXPECT_EQ(adapters_of(adapted({"query", "value"})).size(), 2u * 2 * 2);
  EXPECT_EQ(adapters_of(adapted({"layers.0.mixer.*.weight"})).size(), 4u * 2);
  EXPECT_EQ(adapters_of(adapted({"layers.1.*", "query"})).size(), (7u + 1) * 2);
}

TEST(AdapterTensors, DoraHasTheLengthsOfRows) {
  const auto all = adapters_of(adapted({"query"}, AdapterKind::kDora));
  ASSERT_EQ(all.size(), 2u * 3);
  const ParameterSpec& spec = all.at("layers.0.mixer.query.lora_magnitude.weight");
  EXPECT_EQ(spec.tensor.global_shape, (Shape{16}));
  EXPECT_TRUE(kept_wide(spec));
  EXPECT_FALSE(spec.decay);
}

TEST(AdapterTensors, ScaleOfRslora) {
  EXPECT_NEAR(adapted({"query"}, AdapterKind::kRslora).lora.scale(), 6 / std::sqrt(3.0), 1e-15);
}

// A cut of rows goes on in B and one of columns in A; the other matrix is whole on both ranks.
TEST(AdapterTensors, AreCutWithTheMatrix) {
  const auto all = adapters_of(adapted({"all-linear"}));
  const Mesh mesh(2, {.tp = 2});
  const auto shape_of = [&](const std::string& name) {
    const ParameterSpec& spec = all.at(name);
    return rectangle_of(placement_of(spec, mesh), mesh, 1, spec.tensor.global_shape).length;
  };
  EXPECT_EQ(shape_of("layers.0.mixer.query.lora_a.weight"), (Shape{3, 16}));
  EXPECT_EQ(shape_of("layers.0.mixer.query.lora_b.weight"), (Shape{8, 3}));
  EXPECT_EQ(shape_of("layers.0.channel.down.lora_a.weight"), (Shape{3, 6}));
  EXPECT_EQ(shape_of("layers.0.channel.down.lora_b.weight"), (Shape{16, 3}));
  EXPECT_EQ(shape_of("layers.0.mixer.key.lora_b.weight"), (Shape{8, 3}))
      << "one key head, of which both ranks hold a copy";
}

TEST(AdapterTensors, OfExpertsGoWithThem) {
  recipe::ModelConfig model = adapted({"*.experts.*"});
  model.experts = 4;
  const auto all = adapters_of(model);
  EXPECT_EQ(all.size(), 2u * 4 * 3 * 2);
  const ParameterSpec& spec = all.at("layers.0.experts.2.gate.lora_a.weight");
  EXPECT_EQ(spec.expert, 2);
  EXPECT_EQ(spec.split.experts, 4);
}

std::string refused_targets(const std::vector<std::string>& targets) {
  const recipe::ModelConfig model = adapted(targets);
  try {
    require_adaptable(parameters(model), model.lora);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    return error.what();
  }
  return "";
}

TEST(AdapterTensors, RefusesTargetsThatFitNothing) {
  EXPECT_EQ(refused_targets({"query", "layers.*.channel.*", "all-linear"}), "");
  EXPECT_THAT(refused_targets({"query", "q_proj"}), HasSubstr("q_proj"));
  EXPECT_THAT(refused_targets({"layers.0.mixer.qeury.weight"}), HasSubstr("layers.0.mixer.query.weight"));
  for (const char* const none : {"embedding.weight", "head.weight", "*norm.weight"})
    EXPECT_THAT(refused_targets({none}), HasSubstr("can have none")) << none;
}

TEST(AdapterTensors, RecipesSayThem) {
  const auto recipe =
      recipe::load_defaults({"lora.rank=4", "lora.alpha=8", "lora.targets=query,value", "lora.kind=rslora"})
          .recipe;
  EXPECT_EQ(recipe.model.lora,
            (recipe::AdapterOptions{
                .rank = 4, .alpha = 8, .targets = {"query", "value"}, .kind = AdapterKind::kRslora}));
  recipe::ModelConfig model = adapted({"query"});
  model.mup_base_hidden = 8;
  ASSERT_FALSE(recipe::problems(model).empty());
  EXPECT_THAT(recipe::problems(model).back().reason, HasSubstr("learning rates of adapters"));
}

}  // namespace
}  // namespace longhaul::layout
