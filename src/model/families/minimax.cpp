// MiniMax-Text-01 (minimax-01.md): the original layout (MiniMaxText01ForCausalLM, also MiniMax-M1), and that
// of transformers ("minimax"). Both name tensors alike (§1.3): bf16, the router fp32; a lightning layer's
// query, key and value rows are grouped by head. They differ in fields of config.json and in how they are
// read (§2.2): transformers rotates whole heads and has decay slopes of its own.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "model/families/llama_like.h"

namespace longhaul::model {
namespace {

using recipe::Mixer;

constexpr const char* kLinearLayer = "linear_attention";
constexpr const char* kFullLayer = "full_attention";

using AddExpertsOf = void (*)(PublicTensors&, const recipe::ModelConfig&, int64_t, std::string_view);

std::vector<PublicTensor> minimax_with(const recipe::ModelConfig& config, AddExpertsOf add) {
  PublicTensors tensors(config, "bf16");
  tensors.whole("model.embed_tokens.weight", "embedding.weight");
  for (int64_t l = 0; l < config.layers; ++l) {
    const std::string layer = fmt::format("layers.{}.", l), ours = layer + "mixer.",
                      theirs = fmt::format("model.layers.{}.", l);
    const std::string attention = theirs + "self_attn.";
    tensors.whole(theirs + "input_layernorm.weight", layer + "mixer_norm.weight");
    if (config.mixer(l) == Mixer::kLightning) {
      tensors.stacked(attention + "qkv_proj.weight",
                      {ours + "query.weight", ours + "key.weight", ours + "value.weight"}, config.head_dim);
      tensors.whole(attention + "output_gate.weight", ours + "gate.weight");
      tensors.whole(attention + "norm.weight", ours + "norm.weight");
      tensors.whole(attention + "out_proj.weight", ours + "output.weight");
    } else {
      add_softmax(tensors, config, attention, ours);
    }
    tensors.whole(theirs + "post_attention_layernorm.weight", layer + "channel_norm.weight");
    add(tensors, config, l, "fp32");
  }
  tensors.whole("model.norm.weight", "norm.weight");
  if (!config.tie_embeddings) tensors.whole("lm_head.weight", "head.weight");
  return tensors.take();
}

std::vector<PublicTensor> minimax_tensors(const recipe::ModelConfig& config) {
  return minimax_with(config, add_experts);
}
std::vector<PublicTensor> stacked_tensors(const recipe::ModelConfig& config) {
  return minimax_with(config, add_stacked_experts);
}

// What transformers keeps of a lightning layer beside its weights.
bool is_minimax_buffer(std::string_view name) {
  return std::ranges::any_of(
      std::initializer_list<std::string_view>{".slope_rate", ".query_decay", ".key_decay", ".diagonal_decay"},
      [&](std::string_view end) { return name.ends_with(end); });
}

recipe::ModelConfig read_common(ConfigReader& reader, const char* family) {
  recipe::ModelConfig config = read_llama_like(
      reader, {.family = family, .norm_eps = 1e-5, .rotary_base = 1e6, .max_positions = 131072});
  read_experts(reader, config);
  config.wiring = recipe::Wiring::kPostNorm;
  config.initialisation = recipe::Initialisation::kXavierDeepnorm;
  config.lightning.norm_eps = 1e-6;
  reader.ignore("block_size");  // how a sum is cut
  return config;
}

// The factors of one kind of mixer; 1 where a file does not say them.
void read_factors(ConfigReader& reader, const std::string& key, const char* alpha_end, const char* beta_end,
                  double& alpha, double& beta) {
  alpha = reader.number_or(key + alpha_end, 1);
  beta = reader.number_or(key + beta_end, 1);
  for (const auto& [end, value] : {std::pair{alpha_end, alpha}, std::pair{beta_end, beta}}) {
    if (value <= 0) reader.refuse(key + end, "a factor above 0", fmt::format("{}", value));
  }
}

// Layers as a pattern that repeats.
void set_mixers(ConfigReader& reader, const std::string& key, recipe::ModelConfig& config,
                std::vector<Mixer> layers) {
  if (static_cast<int64_t>(layers.size()) != config.layers) {
    reader.refuse(key, fmt::format("one entry for each of the {} layers", config.layers),
                  fmt::format("{} entries", layers.size()));
  }
  for (size_t period = 1; period <= layers.size(); ++period) {
    bool repeats = true;
    for (size_t l = period; l < layers.size(); ++l) repeats = repeats && layers[l] == layers[l - period];
    if (!repeats) continue;
    layers.resize(period);
    break;
  }
  config.mixers = std::move(layers);
}

recipe::ModelConfig read_hf(ConfigReader& reader) {
  recipe::ModelConfig config = read_common(reader, "minimax_hf");
  config.lightning.layer_factor = recipe::LayerFactor::kHuggingFace;
  read_window(reader, config, 0);
  read_factors(reader, "full_attn", "_alpha_factor", "_beta_factor", config.softmax.alpha,
               config.softmax.beta);
  read_factors(reader, "linear_attn", "_alpha_factor", "_beta_factor", config.lightning.alpha,
               config.lightning.beta);
  read_factors(reader, "mlp", "_alpha_factor", "_beta_factor", config.channel_alpha, config.channel_beta);
  reader.must_be("rotary_dim", config.head_dim,
                 "transformers rotates whole heads whatever this says; as the original layout "
                 "(\"model_type\": \"minimax_text_01\") it is read");
  std::vector<Mixer> layers;
  for (const std::string& type : reader.texts("layer_types")) {
    if (type != kLinearLayer && type != kFullLayer)
      reader.refuse("layer_types", fmt::format("{} or {}", kLinearLayer, kFullLayer), type);
    layers.push_back(type == kLinearLayer ? Mixer::kLightning : Mixer::kSoftmax);
  }
  if (!reader.has("layer_types")) {  // as transformers has it: the first is full, and they alternate
    for (int64_t l = 0; l < config.layers; ++l)
      layers.push_back(l % 2 == 0 ? Mixer::kSoftmax : Mixer::kLightning);
  }
  set_mixers(reader, "layer_types", config, std::move(layers));
  return config;
}

void write_common(const recipe::ModelConfig& config, nlohmann::ordered_json& json) {
  write_llama_like(config, json);
  write_experts(config, json);
  write_window(config, json);
}

// Both kinds of layers have factors in the file, whether or not the model has such layers.
recipe::ModelConfig::ResidualFactors factors_of(const recipe::ModelConfig& config, Mixer mixer) {
  recipe::ModelConfig one = config;
  one.mixers = {mixer};
  return one.mixer_factors(0);
}

void write_hf(const recipe::ModelConfig& config, nlohmann::ordered_json& json) {
  write_common(config, json);
  const auto full = factors_of(config, Mixer::kSoftmax), linear = factors_of(config, Mixer::kLightning),
             channel = config.channel_factors();
  json["full_attn_alpha_factor"] = full.residual;
  json["full_attn_beta_factor"] = full.branch;
  json["linear_attn_alpha_factor"] = linear.residual;
  json["linear_attn_beta_factor"] = linear.branch;
  json["mlp_alpha_factor"] = channel.residual;
  json["mlp_beta_factor"] = channel.branch;
  nlohmann::ordered_json types = nlohmann::ordered_json::array();
  for (int64_t l = 0; l < config.layers; ++l)
    types.push_back(config.mixer(l) == Mixer::kLightning ? kLinearLayer : kFullLayer);
  json["layer_types"] = types;
  if (!json.contains("block_size")) json["block_size"] = 256;
}

// The decays of a lightning layer, operator by operator as transformers makes them, so that they come out the
// same.
Tensor decay_buffer(const recipe::ModelConfig& config, int64_t layer, int64_t block, std::string_view which) {
  const double base = 1 / std::pow(2.0, 8 / static_cast<double>(config.heads));
  const double factor =
      1 - static_cast<double>(layer) / (static_cast<double>(config.layers - 1) + 1e-5) + 1e-5;
  const Tensor rate =
      at::pow(base, at::arange(config.heads, at::kLong) + 1).mul(factor).unsqueeze(1).unsqueeze(2);
  if (which == "slope_rate") return rate;
  const Tensor position = at::arange(block, at::kLong) + 1;
  if (which == "query_decay") return at::exp(-rate * position.unsqueeze(1));
  if (which == "key_decay") return at::exp(-rate * (block - position.unsqueeze(1)));
  const Tensor behind = rate * (position.unsqueeze(1) - position.unsqueeze(0)).unsqueeze(0).unsqueeze(0);
  return at::exp(at::where(behind.ge(0), -behind, -std::numeric_limits<double>::infinity()));
}

std::vector<PublicBuffer> hf_buffers(const recipe::ModelConfig& config, const nlohmann::ordered_json& json) {
  const auto block = json.value("block_size", int64_t{256});
  const std::pair<const char*, layout::Shape> shapes[] = {
      {"slope_rate", {config.heads, 1, 1}},
      {"query_decay", {config.heads, block, 1}},
      {"key_decay", {config.heads, block, 1}},
      {"diagonal_decay", {1, config.heads, block, block}}};
  std::vector<PublicBuffer> buffers;
  for (int64_t l = 0; l < config.layers; ++l) {
    if (config.mixer(l) != Mixer::kLightning) continue;
    for (const auto& [which, shape] : shapes) {
      buffers.push_back({fmt::format("model.layers.{}.self_attn.{}", l, which), shape,
                         [config, l, block, name = which] { return decay_buffer(config, l, block, name); }});
    }
  }
  return buffers;
}

recipe::ModelConfig read_original(ConfigReader& reader) {
  recipe::ModelConfig config = read_common(reader, "minimax");
  config.softmax.rotary_dim = reader.integer_or("rotary_dim", config.head_dim);
  if (config.softmax.rotary_dim > config.head_dim || config.softmax.rotary_dim % 2 != 0) {
    reader.refuse("rotary_dim", fmt::format("an even number of at most head_dim = {}", config.head_dim),
                  std::to_string(config.softmax.rotary_dim));
  }
  read_factors(reader, "layernorm_full_attention", "_alpha", "_beta", config.softmax.alpha,
               config.softmax.beta);
  read_factors(reader, "layernorm_linear_attention", "_alpha", "_beta", config.lightning.alpha,
               config.lightning.beta);
  read_factors(reader, "layernorm_mlp", "_alpha", "_beta", config.channel_alpha, config.channel_beta);
  if (!reader.flag_or("postnorm", false)) {
    config.wiring = recipe::Wiring::kPreNorm;
    config.alpha = config.beta = 1;
  }
  const nlohmann::json* const shared = reader.any("shared_intermediate_size");  // a number, or a list of one
  if (shared != nullptr && *shared != nlohmann::json::array({0}))
    reader.must_be("shared_intermediate_size", 0, "a shared expert is not supported");
  reader.ignore("shared_moe_mode");  // of a shared expert, which is not there
  reader.must_be("sliding_window", nullptr, "every token sees all before it");
  std::vector<Mixer> layers;
  for (const int64_t type : reader.integers("attn_type_list")) {
    if (type != 0 && type != 1)
      reader.refuse("attn_type_list", "0 (lightning) or 1 (softmax)", std::to_string(type));
    layers.push_back(type == 0 ? Mixer::kLightning : Mixer::kSoftmax);
  }
  set_mixers(reader, "attn_type_list", config, std::move(layers));
  return config;
}

void write_original(const recipe::ModelConfig& config, nlohmann::ordered_json& json) {
  write_common(config, json);
  json.erase("rope_parameters");
  const auto full = factors_of(config, Mixer::kSoftmax), linear = factors_of(config, Mixer::kLightning),
             channel = config.channel_factors();
  json["layernorm_full_attention_alpha"] = full.residual;
  json["layernorm_full_attention_beta"] = full.branch;
  json["layernorm_linear_attention_alpha"] = linear.residual;
  json["layernorm_linear_attention_beta"] = linear.branch;
  json["layernorm_mlp_alpha"] = channel.residual;
  json["layernorm_mlp_beta"] = channel.branch;
  json["postnorm"] = config.wiring == recipe::Wiring::kPostNorm;
  json["rotary_dim"] = config.softmax.rotary_dim;
  json["shared_intermediate_size"] = 0;
  nlohmann::ordered_json types = nlohmann::ordered_json::array();
  for (int64_t l = 0; l < config.layers; ++l) types.push_back(config.mixer(l) == Mixer::kLightning ? 0 : 1);
  json["attn_type_list"] = types;
}

}  // namespace

extern const Family kMinimax, kMinimaxHf;
const Family kMinimax{.name = "minimax",
                      .model_types = {"minimax_text_01", "minimax_m1", "MiniMaxText01"},
                      .architectures = {"MiniMaxText01ForCausalLM", "MiniMaxM1ForCausalLM"},
                      .title = "MiniMax-Text-01, as published",
                      .loaded_by =
                          "the code that MiniMaxAI/MiniMax-Text-01 brings along, and vLLM; transformers "
                          "alone has no model for it",
                      .read = read_original,
                      .write = write_original,
                      .layouts = {{"", minimax_tensors}, {"stacked experts", stacked_tensors}},
                      .is_buffer = is_minimax_buffer};
const Family kMinimaxHf{.name = "minimax_hf",
                        .model_types = {"minimax"},
                        .architectures = {"MiniMaxForCausalLM"},
                        .title = "MiniMax-Text-01, as transformers has it",
                        .read = read_hf,
                        .write = write_hf,
                        .layouts = {{"", minimax_tensors}, {"stacked experts", stacked_tensors}},
                        .is_buffer = is_minimax_buffer,
                        .buffers = hf_buffers};

}  // namespace longhaul::model
