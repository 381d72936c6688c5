// What Llama's relatives have in common: fields of config.json and names of tensors (rotary pairs (j, j +
// dim/2), which are ours too; bf16, matrices [out, in]). A relative's own file says what differs. For
// src/model/families.
#pragma once

#include "model/families/builder.h"
#include "model/families/config_reader.h"
#include "model/families/families.h"

namespace longhaul::model {

// What a field means that config.json leaves out: defaults of the family's configuration in transformers.
struct LlamaDefaults {
  const char* family;
  double norm_eps = 1e-6, rotary_base = 10000;
  int64_t max_positions = 32768;
  bool kv_heads_said = true;  // false: as many as heads unless it says otherwise
};
recipe::ModelConfig read_llama_like(ConfigReader& reader, const LlamaDefaults& defaults);
// router_aux_loss_coef: of all layers together, as transformers counts it; other forms of the loss are
// written as the coefficient that comes nearest.
void read_balance(ConfigReader& reader, recipe::ModelConfig& config);
void write_balance(const recipe::ModelConfig& config, nlohmann::ordered_json& json);
// num_local_experts, num_experts_per_tok
void read_experts(ConfigReader& reader, recipe::ModelConfig& config);
// use_sliding_window, sliding_window, max_window_layers and layer_types, as Qwen's files have them. Which
// layers have the window where layer_types does not say it: kUpper: those from max_window_layers on;
// kAlternating: every second one below it, the first layer with it.
enum class WindowedLayers { kUpper, kAlternating };
void read_layer_windows(ConfigReader& reader, recipe::ModelConfig& config,
                        WindowedLayers otherwise = WindowedLayers::kUpper);
// use_sliding_window and sliding_window for all layers alike, as transformers computes Qwen3-MoE whatever
// max_window_layers and layer_types say.
void read_common_window(ConfigReader& reader, recipe::ModelConfig& config);
// One window for all layers, or none. otherwise: where the field is not there at all.
void read_window(ConfigReader& reader, recipe::ModelConfig& config, int64_t otherwise);
// hidden / heads where nothing is said, which must divide
int64_t read_head_dim(ConfigReader& reader, int64_t hidden, int64_t heads);

void write_llama_like(const recipe::ModelConfig& config, nlohmann::ordered_json& json);
void write_experts(const recipe::ModelConfig& config, nlohmann::ordered_json& json);
void write_layer_windows(const recipe::ModelConfig& config, nlohmann::ordered_json& json);
void write_common_window(const recipe::ModelConfig& config, nlohmann::ordered_json& json);
void write_window(const recipe::ModelConfig& config, nlohmann::ordered_json& json);

// Embedding, norms and softmax attention under Llama's names; dense channel mixers too. Experts: Mixtral's
// names.
std::vector<PublicTensor> llama_tensors(const recipe::ModelConfig& config);
void add_softmax(PublicTensors& tensors, const recipe::ModelConfig& config, const std::string& theirs,
                 const std::string& ours);
// w1, w3 and w2 of each expert are gate, up and down. `router_dtype`: as published.
void add_experts(PublicTensors& tensors, const recipe::ModelConfig& config, int64_t layer,
                 std::string_view router_dtype);
// Qwen-MoE's names: experts, and shared ones with their gate where the model has them. Layers without experts
// are Llama's.
std::vector<PublicTensor> qwen_moe_tensors(const recipe::ModelConfig& config);
std::vector<PublicTensor> stacked_qwen_moe_tensors(const recipe::ModelConfig& config);
// As transformers 5 holds them in memory, and some files do: all experts of a layer in one tensor each.
void add_stacked_experts(PublicTensors& tensors, const recipe::ModelConfig& config, int64_t layer,
                         std::string_view router_dtype);
// Llama's names with these experts
std::vector<PublicTensor> stacked_experts_tensors(const recipe::ModelConfig& config);

}  // namespace longhaul::model
