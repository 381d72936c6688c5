// Qwen2 and 2.5 (arXiv 2407.10671, 2412.15115): Llama with biases of queries, keys and values; windows in the
// upper layers where a file asks for them. With experts (Qwen1.5-MoE, Qwen2-57B-A14B: shared ones with a
// gate; Qwen3-30B-A3B: none) the same, but for the channel mixers. Qwen3 (arXiv 2505.09388): norms of queries
// and keys instead of the biases.
#include <algorithm>

#include "model/families/llama_like.h"

namespace longhaul::model {
namespace {

recipe::ModelConfig read_qwen2(ConfigReader& reader) {
  recipe::ModelConfig config = read_llama_like(reader, {.family = "qwen2"});
  config.softmax.bias = recipe::AttentionBias::kQkv;
  read_layer_windows(reader, config);
  return config;
}

void write_qwen2(const recipe::ModelConfig& config, nlohmann::ordered_json& json) {
  write_llama_like(config, json);
  if (config.head_dim * config.heads == config.hidden) json.erase("head_dim");  // its files do not have one
  write_layer_windows(config, json);
}

// All but the windows.
recipe::ModelConfig read_any_qwen3(ConfigReader& reader) {
  if (!reader.has("head_dim")) reader.refuse("head_dim", "the width of a head", "it is missing");
  recipe::ModelConfig config = read_llama_like(reader, {.family = "qwen3"});
  config.softmax.qk_norm = true;
  if (reader.flag_or("attention_bias", false)) config.softmax.bias = recipe::AttentionBias::kAll;
  return config;
}

recipe::ModelConfig read_qwen3(ConfigReader& reader) {
  recipe::ModelConfig config = read_any_qwen3(reader);
  read_layer_windows(reader, config);
  return config;
}

void write_qwen3(const recipe::ModelConfig& config, nlohmann::ordered_json& json) {
  write_llama_like(config, json);
  json["attention_bias"] = config.softmax.bias == recipe::AttentionBias::kAll;
  write_layer_windows(config, json);
}

// Layers have experts in every decoder_sparse_step-th layer, those of mlp_only_layers left out;
// intermediate_size is of the others.
void read_qwen_experts(ConfigReader& reader, recipe::ModelConfig& config) {
  config.dense_intermediate = config.intermediate;
  config.intermediate = reader.integer("moe_intermediate_size");
  // as transformers 5 writes Qwen3's
  const char* const experts = reader.has("num_experts") ? "num_experts" : "num_local_experts";
  config.experts = reader.integer(experts);
  if (config.experts > 100'000) reader.refuse(experts, "at most 100000", std::to_string(config.experts));
  config.experts_per_token = reader.integer("num_experts_per_tok");
  if (config.experts_per_token > config.experts) {
    reader.refuse("num_experts_per_tok", "at most num_experts = " + std::to_string(config.experts),
                  std::to_string(config.experts_per_token));
  }
  config.router.normalised = reader.flag_or("norm_topk_prob", false);
  read_balance(reader, config);
  const int64_t step = reader.integer_or("decoder_sparse_step", 1);
  const std::vector<int64_t> only = reader.integers("mlp_only_layers");
  for (int64_t l = 0; l < config.layers; ++l) {
    if ((l + 1) % step != 0 || std::ranges::find(only, l) != only.end()) config.dense_layers.push_back(l);
  }
  if (static_cast<int64_t>(config.dense_layers.size()) == config.layers)
    reader.refuse("mlp_only_layers", "layers with experts", "none is left");
  if (config.dense_intermediate == config.intermediate) config.dense_intermediate = 0;
}

void write_qwen_experts(const recipe::ModelConfig& config, nlohmann::ordered_json& json) {
  if (config.dense_intermediate > 0) json["intermediate_size"] = config.dense_intermediate;
  json["moe_intermediate_size"] = config.intermediate;
  json[json.contains("num_local_experts") ? "num_local_experts" : "num_experts"] = config.experts;
  json["num_experts_per_tok"] = config.experts_per_token;
  json["norm_topk_prob"] = config.router.normalised;
  write_balance(config, json);
  json["decoder_sparse_step"] = 1;
  json["mlp_only_layers"] = config.dense_layers;
}

recipe::ModelConfig read_qwen2_moe(ConfigReader& reader) {
  recipe::ModelConfig config = read_llama_like(reader, {.family = "qwen2_moe"});
  const bool biased = reader.flag_or("qkv_bias", true);
  if (!biased) reader.refuse("qkv_bias", "true", "false");
  config.softmax.bias = recipe::AttentionBias::kQkv;
  read_layer_windows(reader, config, WindowedLayers::kAlternating);
  read_qwen_experts(reader, config);
  config.shared_experts = 1;
  config.shared_intermediate = reader.integer("shared_expert_intermediate_size");
  config.shared_gate = true;
  return config;
}

void write_qwen2_moe(const recipe::ModelConfig& config, nlohmann::ordered_json& json) {
  write_qwen2(config, json);
  write_qwen_experts(config, json);
  json["shared_expert_intermediate_size"] = config.shared_width();
  if (json["sliding_window"].is_null()) json["sliding_window"] = 0;  // as this family has it
}

recipe::ModelConfig read_qwen3_moe(ConfigReader& reader) {
  recipe::ModelConfig config = read_any_qwen3(reader);
  config.family = "qwen3_moe";
  read_common_window(reader, config);
  read_qwen_experts(reader, config);
  return config;
}

void write_qwen3_moe(const recipe::ModelConfig& config, nlohmann::ordered_json& json) {
  write_qwen3(config, json);
  write_common_window(config, json);
  write_qwen_experts(config, json);
}

}  // namespace

extern const Family kQwen2, kQwen3, kQwen2Moe, kQwen3Moe;
const Family kQwen2{.name = "qwen2",
                    .model_types = {"qwen2"},
                    .architectures = {"Qwen2ForCausalLM"},
                    .title = "Qwen2 and Qwen2.5",
                    .read = read_qwen2,
                    .write = write_qwen2,
                    .layouts = {{"", llama_tensors}}};
const Family kQwen3{.name = "qwen3",
                    .model_types = {"qwen3"},
                    .architectures = {"Qwen3ForCausalLM"},
                    .title = "Qwen3",
                    .read = read_qwen3,
                    .write = write_qwen3,
                    .layouts = {{"", llama_tensors}}};

const Family kQwen2Moe{.name = "qwen2_moe",
                       .model_types = {"qwen2_moe"},
                       .architectures = {"Qwen2MoeForCausalLM"},
                       .title = "Qwen2-MoE and Qwen1.5-MoE",
                       .read = read_qwen2_moe,
                       .write = write_qwen2_moe,
                       .layouts = {{"", qwen_moe_tensors}, {"stacked experts", stacked_qwen_moe_tensors}}};
const Family kQwen3Moe{.name = "qwen3_moe",
                       .model_types = {"qwen3_moe"},
                       .architectures = {"Qwen3MoeForCausalLM"},
                       .title = "Qwen3-MoE",
                       .read = read_qwen3_moe,
                       .write = write_qwen3_moe,
                       .layouts = {{"", qwen_moe_tensors}, {"stacked experts", stacked_qwen_moe_tensors}}};

}  // namespace longhaul::model
