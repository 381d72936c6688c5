// Public name maps: published counts, shapes and bytes, and proof that public and logical tensors tile each other exactly.
#include "model/families/families.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/error.h"
#include "layout/parameters.h"
#include "recipe/presets.h"
#include "support/models.h"

namespace longhaul::model {
namespace {

using layout::Rectangle;
using layout::Shape;

std::map<std::string, PublicTensor> by_name(const std::vector<PublicTensor>& tensors) {
  std::map<std::string, PublicTensor> named;
  for (const PublicTensor& tensor : tensors) EXPECT_TRUE(named.emplace(tensor.name, tensor).second) << tensor.name << " twice";
  return named;
}

void expect_exact_cover(const recipe::ModelConfig& config) {
  std::map<std::string, std::vector<Rectangle>> covered;
  for (const PublicTensor& tensor : public_tensors(config)) {
    std::vector<Rectangle> blocks;
    for (const PublicPiece& piece : tensor.pieces) {
      Shape length = piece.of_logical.length;
      if (piece.transposed) std::swap(length.at(0), length.at(1));
      ASSERT_EQ(piece.of_public.length, length) << tensor.name;
      blocks.push_back(piece.of_public);
      covered[piece.logical].push_back(piece.of_logical);
    }
    EXPECT_EQ(layout::covering_defect(tensor.shape, blocks), std::nullopt) << tensor.name;
  }
  const auto specs = layout::parameters(config);
  EXPECT_EQ(covered.size(), specs.size());
  for (const auto& spec : specs) {
    EXPECT_EQ(layout::covering_defect(spec.tensor.global_shape, covered[spec.tensor.name]), std::nullopt) << spec.tensor.name;
  }
}

// The published index: 8243 tensors, 912,210,767,872 bytes (minimax-01.md §1.2).
TEST(PublicTensors, MinimaxText01) {
  const auto tensors = public_tensors(recipe::preset_model("minimax-text-01"));
  EXPECT_EQ(tensors.size(), 8243u);
  EXPECT_EQ(public_bytes(tensors), 912'210'767'872);
  const auto named = by_name(tensors);
  EXPECT_EQ(named.size(), 8243u);
  const std::pair<const char*, Shape> shapes[] = {
      {"model.embed_tokens.weight", {200064, 6144}},
      {"lm_head.weight", {200064, 6144}},
      {"model.norm.weight", {6144}},
      {"model.layers.0.input_layernorm.weight", {6144}},
      {"model.layers.79.post_attention_layernorm.weight", {6144}},
      {"model.layers.0.self_attn.qkv_proj.weight", {24576, 6144}},
      {"model.layers.6.self_attn.output_gate.weight", {8192, 6144}},
      {"model.layers.78.self_attn.out_proj.weight", {6144, 8192}},
      {"model.layers.0.self_attn.norm.weight", {8192}},
      {"model.layers.7.self_attn.q_proj.weight", {8192, 6144}},
      {"model.layers.15.self_attn.k_proj.weight", {1024, 6144}},
      {"model.layers.79.self_attn.v_proj.weight", {1024, 6144}},
      {"model.layers.7.self_attn.o_proj.weight", {6144, 8192}},
      {"model.layers.3.block_sparse_moe.gate.weight", {32, 6144}},
      {"model.layers.3.block_sparse_moe.experts.31.w1.weight", {9216, 6144}},
      {"model.layers.3.block_sparse_moe.experts.0.w2.weight", {6144, 9216}},
      {"model.layers.3.block_sparse_moe.experts.0.w3.weight", {9216, 6144}},
  };
  for (const auto& [name, shape] : shapes) {
    ASSERT_TRUE(named.contains(name)) << name;
    EXPECT_EQ(named.at(name).shape, shape) << name;
  }
  for (const PublicTensor& tensor : tensors) {
    EXPECT_EQ(tensor.dtype == "fp32", tensor.name.ends_with("block_sparse_moe.gate.weight")) << tensor.name;
  }
  EXPECT_EQ(named.at("model.layers.3.block_sparse_moe.experts.5.w1.weight").pieces[0].logical, "layers.3.experts.5.gate.weight");
  EXPECT_EQ(named.at("model.layers.3.block_sparse_moe.experts.5.w3.weight").pieces[0].logical, "layers.3.experts.5.up.weight");
}

// Head h has rows 384h … 384h + 383: its 128 queries, then keys, then values.
TEST(PublicTensors, MinimaxQkvRowsAreGroupedByHead) {
  const auto named = by_name(public_tensors(recipe::preset_model("minimax-text-01")));
  const auto& pieces = named.at("model.layers.1.self_attn.qkv_proj.weight").pieces;
  ASSERT_EQ(pieces.size(), 3u * 64);
  const char* parts[] = {"query", "key", "value"};
  for (int64_t h = 0; h < 64; ++h) {
    for (int64_t i = 0; i < 3; ++i) {
      const PublicPiece expected{
          std::string("layers.1.mixer.") + parts[i] + ".weight", {{128 * h, 0}, {128, 6144}}, {{384 * h + 128 * i, 0}, {128, 6144}}, false};
      ASSERT_EQ(pieces[static_cast<size_t>(3 * h + i)], expected) << h << " " << parts[i];
    }
  }
}

TEST(PublicTensors, Gpt2) {
  const auto tensors = public_tensors(recipe::preset_model("gpt2-124m"));
  EXPECT_EQ(tensors.size(), 148u);
  EXPECT_EQ(public_bytes(tensors), 4 * int64_t{124'439'808});
  const auto named = by_name(tensors);
  EXPECT_EQ(named.at("wte.weight").shape, (Shape{50257, 768}));
  EXPECT_EQ(named.at("wpe.weight").shape, (Shape{1024, 768}));
  EXPECT_EQ(named.at("h.0.attn.c_attn.bias").shape, (Shape{2304}));
  EXPECT_EQ(named.at("h.11.mlp.c_fc.weight").shape, (Shape{768, 3072}));
  EXPECT_EQ(named.at("h.11.mlp.c_proj.weight").shape, (Shape{3072, 768}));
  EXPECT_EQ(named.at("h.5.attn.c_proj.weight").shape, (Shape{768, 768}));
  EXPECT_EQ(named.at("ln_f.bias").shape, (Shape{768}));
  const PublicTensor& fused = named.at("h.3.attn.c_attn.weight");
  EXPECT_EQ(fused.shape, (Shape{768, 2304}));
  ASSERT_EQ(fused.pieces.size(), 3u);
  EXPECT_EQ(fused.pieces[1], (PublicPiece{"layers.3.mixer.key.weight", Rectangle::whole({768, 768}), {{0, 768}, {768, 768}}, true}));
}

TEST(PublicTensors, Llama3) {
  const auto tensors = public_tensors(recipe::preset_model("llama-3-8b"));
  EXPECT_EQ(tensors.size(), 291u);
  EXPECT_EQ(public_bytes(tensors), 2 * int64_t{8'030'261'248});
  const auto named = by_name(tensors);
  EXPECT_EQ(named.at("model.layers.31.self_attn.k_proj.weight").shape, (Shape{1024, 4096}));
  EXPECT_EQ(named.at("model.layers.0.mlp.down_proj.weight").shape, (Shape{4096, 14336}));
  EXPECT_EQ(named.at("lm_head.weight").shape, (Shape{128256, 4096}));
}

TEST(PublicTensors, CoverEveryLogicalTensorOnce) {
  for (const char* preset : {"minimax-text-01", "gpt2-124m", "llama-3-8b", "first-run"}) {
    SCOPED_TRACE(preset);
    expect_exact_cover(recipe::preset_model(preset));
  }
  recipe::ModelConfig tied = testing::llama_like();
  tied.tie_embeddings = true;
  expect_exact_cover(tied);
}

TEST(PublicTensors, RefuseWhatTheFamilyCannotHold) {
  const auto refused = [](recipe::ModelConfig config, const char* family) {
    config.family = family;
    try {
      public_tensors(config);
    } catch (const Error& error) {
      return error.code() == ExitCode::kUsage;
    }
    return false;
  };
  EXPECT_TRUE(refused(testing::llama_like(), "gpt2"));
  EXPECT_TRUE(refused(testing::gpt2_like(), "llama"));
  EXPECT_TRUE(refused(testing::hybrid_experts_post_norm(), "llama"));
  EXPECT_TRUE(refused(testing::llama_like(), "minimax"));
  EXPECT_TRUE(refused(testing::llama_like(), "mamba"));
  EXPECT_FALSE(refused(testing::hybrid_experts_post_norm(), "minimax"));
  EXPECT_FALSE(refused(testing::gpt2_like(), "longhaul"));
}

}  // namespace
}  // namespace longhaul::model
