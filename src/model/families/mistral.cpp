// Mistral (arXiv 2310.06825) and Mixtral (arXiv 2401.04088): Llama with a window of keys, Mixtral with
// experts.
#include "model/families/llama_like.h"

namespace longhaul::model {
namespace {

recipe::ModelConfig read_mistral(ConfigReader& reader) {
  recipe::ModelConfig config = read_llama_like(reader, {.family = "mistral", .max_positions = 131072});
  read_window(reader, config, 4096);
  return config;
}

void write_mistral(const recipe::ModelConfig& config, nlohmann::ordered_json& json) {
  write_llama_like(config, json);
  write_window(config, json);
}

recipe::ModelConfig read_mixtral(ConfigReader& reader) {
  recipe::ModelConfig config = read_llama_like(
      reader, {.family = "mixtral", .norm_eps = 1e-5, .rotary_base = 1e6, .max_positions = 131072});
  read_window(reader, config, 0);
  read_experts(reader, config);
  return config;
}

void write_mixtral(const recipe::ModelConfig& config, nlohmann::ordered_json& json) {
  write_mistral(config, json);
  write_experts(config, json);
}

bool is_rotary_buffer_of_mistral(std::string_view name) { return name.ends_with(".rotary_emb.inv_freq"); }

}  // namespace

extern const Family kMistral, kMixtral;
const Family kMistral{.name = "mistral",
                      .model_types = {"mistral"},
                      .architectures = {"MistralForCausalLM"},
                      .title = "Mistral",
                      .read = read_mistral,
                      .write = write_mistral,
                      .layouts = {{"", llama_tensors}},
                      .is_buffer = is_rotary_buffer_of_mistral};
const Family kMixtral{.name = "mixtral",
                      .model_types = {"mixtral"},
                      .architectures = {"MixtralForCausalLM"},
                      .title = "Mixtral",
                      .read = read_mixtral,
                      .write = write_mixtral,
                      .layouts = {{"", llama_tensors}, {"stacked experts", stacked_experts_tensors}},
                      .is_buffer = is_rotary_buffer_of_mistral};

}  // namespace longhaul::model
