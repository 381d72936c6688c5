// Llama 1, 2 and 3 (arXiv 2302.13971, 2307.09288, 2407.21783), and the many models published under its
// configuration.
#include "model/families/llama_like.h"

namespace longhaul::model {
namespace {

recipe::ModelConfig read_llama(ConfigReader& reader) {
  recipe::ModelConfig config =
      read_llama_like(reader, {.family = "llama", .max_positions = 2048, .kv_heads_said = false});
  if (reader.flag_or("attention_bias", false)) config.softmax.bias = recipe::AttentionBias::kAll;
  reader.must_be("mlp_bias", false, "SwiGLU has no biases here");
  return config;
}

void write_llama(const recipe::ModelConfig& config, nlohmann::ordered_json& json) {
  write_llama_like(config, json);
  json["attention_bias"] = config.softmax.bias == recipe::AttentionBias::kAll;
  json["mlp_bias"] = false;
}

}  // namespace

extern const Family kLlama;
const Family kLlama{
    .name = "llama",
    .model_types = {"llama"},
    .architectures = {"LlamaForCausalLM", "LLaMAForCausalLM"},
    .title = "Llama",
    .read = read_llama,
    .write = write_llama,
    .layouts = {{"", llama_tensors}},
    .is_buffer = [](std::string_view name) { return name.ends_with(".rotary_emb.inv_freq"); }};

}  // namespace longhaul::model
