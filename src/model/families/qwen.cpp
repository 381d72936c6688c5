// Qwen2 and 2.5 (arXiv 2407.10671, 2412.15115): Llama with biases of queries, keys and values; windows in the upper layers where a file asks
// for them. Qwen3 (arXiv 2505.09388): norms of queries and keys instead of the biases.
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

recipe::ModelConfig read_qwen3(ConfigReader& reader) {
  if (!reader.has("head_dim")) reader.refuse("head_dim", "the width of a head", "it is missing");
  recipe::ModelConfig config = read_llama_like(reader, {.family = "qwen3"});
  config.softmax.qk_norm = true;
  if (reader.flag_or("attention_bias", false)) config.softmax.bias = recipe::AttentionBias::kAll;
  read_layer_windows(reader, config);
  return config;
}

void write_qwen3(const recipe::ModelConfig& config, nlohmann::ordered_json& json) {
  write_llama_like(config, json);
  json["attention_bias"] = config.softmax.bias == recipe::AttentionBias::kAll;
  write_layer_windows(config, json);
}

}  // namespace

extern const Family kQwen2, kQwen3;
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

}  // namespace longhaul::model
