// Public name maps: published counts, shapes and bytes, and proof that public and logical tensors tile each
// other exactly.
#include "model/families/families.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/error.h"
#include "layout/parameters.h"
#include "recipe/architecture/presets.h"
#include "support/models.h"

namespace longhaul::model {
namespace {

using layout::Rectangle;
using layout::Shape;

std::map<std::string, PublicTensor> by_name(const std::vector<PublicTensor>& tensors) {
  std::map<std::string, PublicTensor> named;
  for (const PublicTensor& tensor : tensors)
    EXPECT_TRUE(named.emplace(tensor.name, tensor).second) << tensor.name << " twice";
  return named;
}

void expect_exact_cover(const recipe::ModelConfig& config, std::string_view layout = "") {
  std::map<std::string, std::vector<Rectangle>> covered;
  for (const PublicTensor& tensor : public_tensors(config, layout)) {
    std::vector<Rectangle> blocks;
    for (const PublicPiece& piece : tensor.pieces) {
      Shape length = piece.of_logical.length;
      if (piece.transposed) std::swap(length.at(0), length.at(1));
      ASSERT_EQ(piece.of_public.length, length) << tensor.name;
      blocks.push_back(piece.of_public);
      covered[piece.logical].push_back(piece.of_logical);
    }
    EXPECT_EQ(layout::covering_defect(tensor.rows_and_columns(), blocks), std::nullopt) << tensor.name;
  }
  const auto specs = layout::parameters(config);
  EXPECT_EQ(covered.size(), specs.size());
  for (const auto& spec : specs) {
    EXPECT_EQ(layout::covering_defect(spec.tensor.global_shape, covered[spec.tensor.name]), std::nullopt)
        << spec.tensor.name;
  }
}

// The published index: 8243 tensors, 912,210,767,872 bytes (docs/sources/minimax-01.md §1.2).
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
  EXPECT_EQ(named.at("model.layers.3.block_sparse_moe.experts.5.w1.weight").pieces[0].logical,
            "layers.3.experts.5.gate.weight");
  EXPECT_EQ(named.at("model.layers.3.block_sparse_moe.experts.5.w3.weight").pieces[0].logical,
            "layers.3.experts.5.up.weight");
}

// Head h has rows 384h … 384h + 383: its 128 queries, then keys, then values.
TEST(PublicTensors, MinimaxQkvRowsAreGroupedByHead) {
  const auto named = by_name(public_tensors(recipe::preset_model("minimax-text-01")));
  const auto& pieces = named.at("model.layers.1.self_attn.qkv_proj.weight").pieces;
  ASSERT_EQ(pieces.size(), 3u * 64);
  const char* parts[] = {"query", "key", "value"};
  for (int64_t h = 0; h < 64; ++h) {
    for (int64_t i = 0; i < 3; ++i) {
      const PublicPiece expected{std::string("layers.1.mixer.") + parts[i] + ".weight",
                                 {{128 * h, 0}, {128, 6144}},
                                 {{384 * h + 128 * i, 0}, {128, 6144}},
                                 false};
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
  EXPECT_EQ(
      fused.pieces[1],
      (PublicPiece{"layers.3.mixer.key.weight", Rectangle::whole({768, 768}), {{0, 768}, {768, 768}}, true}));
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

// Presets of the linear lineage, as files of other people can hold them.
std::vector<recipe::ModelConfig> published_lineage() {
  const auto of = [](const char* preset, const char* family) {
    recipe::ModelConfig config = recipe::preset_model(preset);
    config.family = family;
    return config;
  };
  std::vector<recipe::ModelConfig> all = {
      of("mamba2-130m", "mamba2"), of("gla-340m", "gla"),    of("deltanet-1.3b", "gated_deltanet"),
      of("hgrn2-1.3b", "hgrn2"),   of("gla-1.3b", "retnet"), of("deltanet-1.3b", "delta_net")};
  all[2].gated_deltanet.key_heads = 3;
  all[3].hgrn2.norm_eps = 1e-5 * 128;
  all[5].mixers = {recipe::Mixer::kDeltaNet};
  all[5].gated_deltanet = {};
  all[5].deltanet = {.key_dim = 128, .convolution = 3, .output_gate = true, .norm_eps = all[5].norm_eps};
  all[4].mixers = {recipe::Mixer::kRetnet};
  all[4].gla = {};
  all[4].retnet = {.value_dim = 1024, .norm_weight = true, .norm_eps = all[4].norm_eps};
  return all;
}

TEST(PublicTensors, Mamba2AndGla) {
  const auto mamba = public_tensors(published_lineage()[0]);
  EXPECT_EQ(public_bytes(mamba), 2 * int64_t{128'989'632});
  const auto named = by_name(mamba);
  EXPECT_EQ(named.at("backbone.layers.23.mixer.in_proj.weight").shape, (Shape{2 * 1536 + 2 * 128 + 24, 768}));
  EXPECT_EQ(named.at("backbone.layers.0.mixer.conv1d.weight").shape, (Shape{1536 + 2 * 128, 1, 4}));
  EXPECT_EQ(named.at("backbone.layers.0.mixer.in_proj.weight").pieces[3].logical,
            "layers.0.mixer.query.weight");
  const auto gla = by_name(public_tensors(published_lineage()[1]));
  EXPECT_EQ(gla.at("model.layers.5.attn.gk_proj.1.bias").shape, (Shape{512}));
  EXPECT_EQ(gla.at("model.layers.5.attn.g_norm_swish_gate.weight").shape, (Shape{256}));
}

// As the files of Qwen1.5-MoE-A2.7B have them.
TEST(PublicTensors, Qwen2Moe) {
  const auto named = by_name(public_tensors(recipe::preset_model("qwen1.5-moe-a2.7b")));
  EXPECT_EQ(named.size(), 24u * (2 + 7 + 1 + 60 * 3 + 3 + 1) + 3);
  EXPECT_EQ(named.at("model.layers.23.mlp.gate.weight").shape, (Shape{60, 2048}));
  EXPECT_EQ(named.at("model.layers.0.mlp.experts.59.down_proj.weight").shape, (Shape{2048, 1408}));
  EXPECT_EQ(named.at("model.layers.0.mlp.shared_expert.gate_proj.weight").shape, (Shape{5632, 2048}));
  EXPECT_EQ(named.at("model.layers.0.mlp.shared_expert_gate.weight").shape, (Shape{1, 2048}));
  EXPECT_EQ(named.at("model.layers.0.mlp.experts.3.up_proj.weight").pieces[0].logical,
            "layers.0.experts.3.up.weight");
}

TEST(PublicTensors, CoverEveryLogicalTensorOnce) {
  for (const char* preset : {"minimax-text-01", "gpt2-124m", "llama-3-8b", "mistral-7b", "mixtral-8x7b",
                             "qwen2.5-0.5b", "qwen3-8b", "qwen1.5-moe-a2.7b", "qwen3-30b-a3b", "first-run"}) {
    SCOPED_TRACE(preset);
    const recipe::ModelConfig config = recipe::preset_model(preset);
    const Family* family = find_family(config.family);
    if (family == nullptr) {
      expect_exact_cover(config);
      continue;
    }
    for (const PublicLayout& layout : family->layouts) expect_exact_cover(config, layout.name);
  }
  for (const recipe::ModelConfig& config : published_lineage()) {
    for (const PublicLayout& layout : find_family(config.family)->layouts)
      expect_exact_cover(config, layout.name);
  }
  expect_exact_cover(testing::minimax_hf_like());
  recipe::ModelConfig tied = testing::llama_like();
  tied.tie_embeddings = true;
  expect_exact_cover(tied);
}

// What a family writes into config.json it reads back as the same model.
TEST(PublicConfigs, WrittenAndReadAgain) {
  std::vector<recipe::ModelConfig> models = {testing::minimax_hf_like(), testing::llama_like(),
                                             testing::gpt2_like()};
  for (const char* preset :
       {"minimax-text-01", "gpt2-124m", "llama-2-13b", "llama-3.1-8b", "mistral-7b", "mixtral-8x7b",
        "qwen1.5-moe-a2.7b", "qwen3-30b-a3b", "qwen2.5-0.5b", "qwen3-8b"}) {
    models.push_back(recipe::preset_model(preset));
    if (models.back().family != "qwen3_moe") continue;
    models.back().dense_layers = {1, 4};
    models.back().dense_intermediate = 6144;
  }
  models.back().softmax.windows = {0, 0, 4096};
  models.back().softmax.windows.resize(static_cast<size_t>(models.back().layers), 4096);
  for (const recipe::ModelConfig& model : published_lineage()) models.push_back(model);
  for (recipe::ModelConfig& model : models) {
    const Family& family = *find_family(model.family);
    // the one its files mean
    if (model.experts > 0) model.router.balance_form = recipe::BalanceForm::kHuggingFace;
    nlohmann::ordered_json json = {{"model_type", family.model_types.front()},
                                   {"initializer_range", model.initial_std}};
    family.write(model, json);
    const nlohmann::json config = nlohmann::json::parse(json.dump());
    EXPECT_EQ(&family_of(config, "config.json"), &family);
    recipe::ModelConfig read = read_config(family, config, "config.json");
    // The same in other words: factors of each kind, layers one by one, how training would begin.
    for (int64_t l = 0; l < model.layers; ++l) {
      EXPECT_EQ(read.mixer(l), model.mixer(l)) << l;
      EXPECT_EQ(read.mixer_factors(l), model.mixer_factors(l)) << model.family << l;
      EXPECT_EQ(read.softmax.window(l), model.softmax.window(l)) << model.family << l;
    }
    EXPECT_EQ(read.channel_factors(), model.channel_factors());
    for (recipe::ModelConfig* each : {&read, &model}) {
      each->preset = "";
      each->mixers = {};
      each->alpha = each->beta = each->channel_alpha = each->channel_beta = 1;
      each->softmax.alpha = each->softmax.beta = each->lightning.alpha = each->lightning.beta = 1;
      each->softmax.windows = {0};
      each->initialisation = {};
      if (each->max_positions == 0) each->max_positions = read.max_positions;
      if (each->family == "gpt2") each->softmax.rotary_dim = 0;  // nothing is rotated
      if (each->experts == 0) each->auxiliary_loss = 0;
      each->z_loss = 0;
    }
    EXPECT_TRUE(read == model) << model.family;
  }
}

// transformers' MiniMaxConfig: the first layer is full attention, and they alternate.
TEST(PublicConfigs, MinimaxWithoutLayerTypesAlternates) {
  const recipe::ModelConfig model = testing::minimax_hf_like();
  const Family& family = *find_family(model.family);
  nlohmann::ordered_json json = {{"model_type", family.model_types.front()}};
  family.write(model, json);
  ASSERT_TRUE(json.contains("layer_types"));
  json.erase("layer_types");
  const recipe::ModelConfig read = read_config(family, nlohmann::json::parse(json.dump()), "config.json");
  ASSERT_GE(read.layers, 2);
  for (int64_t l = 0; l < read.layers; ++l)
    EXPECT_EQ(read.mixer(l), l % 2 == 1 ? recipe::Mixer::kLightning : recipe::Mixer::kSoftmax) << l;
}

// transformers counts c · k once for all layers when balanced, Switch and Megatron c for each of them.
TEST(PublicConfigs, BalanceLossesKeepTheirMeaning) {
  recipe::ModelConfig model = recipe::preset_model("qwen3-30b-a3b");  // 48 layers, 8 experts a token
  const Family& family = *find_family(model.family);
  nlohmann::ordered_json json = {{"model_type", family.model_types.front()}};
  model.auxiliary_loss = 0.001;
  family.write(model, json);
  EXPECT_DOUBLE_EQ(json["router_aux_loss_coef"].get<double>(), 0.001 * 48 / 8);
  recipe::ModelConfig read = read_config(family, nlohmann::json::parse(json.dump()), "config.json");
  EXPECT_EQ(read.router.balance_form, recipe::BalanceForm::kHuggingFace);
  EXPECT_DOUBLE_EQ(read.auxiliary_loss_as(recipe::BalanceForm::kSwitch), 0.001);
  read.auxiliary_loss = 0.02;
  family.write(read, json);
  EXPECT_EQ(json["router_aux_loss_coef"].get<double>(), 0.02);
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
  EXPECT_FALSE(refused(testing::minimax_hf_like(), "minimax_hf"));
  EXPECT_TRUE(refused(testing::minimax_hf_like(), "minimax"));
  EXPECT_TRUE(refused(testing::qwen_like(), "qwen2"));  // norms of queries and keys
  recipe::ModelConfig qwen3 = testing::qwen_like();
  EXPECT_TRUE(refused(qwen3, "qwen3"));  // biases of queries, keys and values alone
  qwen3.softmax.bias = recipe::AttentionBias::kNone;
  EXPECT_FALSE(refused(qwen3, "qwen3"));
  qwen3.softmax.windows = {3, 5};
  EXPECT_TRUE(refused(qwen3, "qwen3"));  // one window is what its files can say
  recipe::ModelConfig scaled = testing::llama_like();
  scaled.alpha = 1.5;
  EXPECT_TRUE(refused(scaled, "llama"));
}

}  // namespace
}  // namespace longhaul::model
