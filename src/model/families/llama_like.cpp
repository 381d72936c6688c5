#include "model/families/llama_like.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "model/families/rotary_fields.h"

namespace longhaul::model {
namespace {

constexpr const char* kSliding = "sliding_attention";
constexpr const char* kFull = "full_attention";
// what a list can name: far beyond any model, and a list of them fits
constexpr int64_t kMostLayers = 10'000, kMostExperts = 1'000'000;

using AddExperts = void (*)(PublicTensors&, const recipe::ModelConfig&, int64_t, std::string_view);

std::vector<PublicTensor> tensors_with(const recipe::ModelConfig& config, AddExperts add) {
  static constexpr std::pair<const char*, const char*> kDense[] = {
      {"mlp.gate_proj", "channel.gate"}, {"mlp.up_proj", "channel.up"}, {"mlp.down_proj", "channel.down"}};
  PublicTensors tensors(config, "bf16");
  tensors.whole("model.embed_tokens.weight", "embedding.weight");
  for (int64_t l = 0; l < config.layers; ++l) {
    const std::string ours = fmt::format("layers.{}.", l), theirs = fmt::format("model.layers.{}.", l);
    tensors.whole(theirs + "input_layernorm.weight", ours + "mixer_norm.weight");
    add_softmax(tensors, config, theirs + "self_attn.", ours + "mixer.");
    tensors.whole(theirs + "post_attention_layernorm.weight", ours + "channel_norm.weight");
    if (config.channel_mixer(l) == recipe::ChannelMixer::kExperts) {
      add(tensors, config, l, "bf16");
      continue;
    }
    for (const auto& [public_name, logical] : kDense)
      tensors.whole(theirs + public_name + ".weight", ours + logical + ".weight");
  }
  tensors.whole("model.norm.weight", "norm.weight");
  if (!config.tie_embeddings) tensors.whole("lm_head.weight", "head.weight");
  return tensors.take();
}

}  // namespace

int64_t read_head_dim(ConfigReader& reader, int64_t hidden, int64_t heads) {
  if (reader.has("head_dim")) return reader.integer("head_dim");
  if (hidden % heads != 0) {
    reader.refuse("hidden_size", fmt::format("a multiple of the {} heads, or a head_dim", heads),
                  std::to_string(hidden));
  }
  return hidden / heads;
}

recipe::ModelConfig read_llama_like(ConfigReader& reader, const LlamaDefaults& defaults) {
  recipe::ModelConfig config;
  config.family = defaults.family;
  config.mixers = {recipe::Mixer::kSoftmax};
  config.hidden = reader.integer("hidden_size");
  config.layers = reader.integer("num_hidden_layers");
  if (config.layers > kMostLayers)
    reader.refuse("num_hidden_layers", fmt::format("at most {}", kMostLayers), std::to_string(config.layers));
  config.vocabulary = reader.integer("vocab_size", 2);
  config.intermediate = reader.integer("intermediate_size");
  config.heads = reader.integer("num_attention_heads");
  config.softmax.kv_heads = defaults.kv_heads_said && !reader.says("num_key_value_heads")
                                ? reader.integer("num_key_value_heads")
                                : reader.integer_or("num_key_value_heads", config.heads);
  if (config.heads % config.softmax.kv_heads != 0) {
    reader.refuse("num_key_value_heads", fmt::format("a number that divides the {} heads", config.heads),
                  std::to_string(config.softmax.kv_heads));
  }
  config.head_dim = read_head_dim(reader, config.hidden, config.heads);
  config.max_positions = reader.integer_or("max_position_embeddings", defaults.max_positions);
  config.norm_eps = reader.number_or("rms_norm_eps", defaults.norm_eps);
  config.tie_embeddings = reader.flag_or("tie_word_embeddings", false);
  config.initialisation = recipe::Initialisation::kNormal;
  config.initial_std = reader.number_or("initializer_range", 0.02);
  reader.must_be_one_of("hidden_act", {"silu", "swish"}, "silu");
  reader.ignore("pretraining_tp");  // how products were cut when it was trained
  read_rotary(reader, config, defaults.rotary_base);
  return config;
}

void read_balance(ConfigReader& reader, recipe::ModelConfig& config) {
  config.auxiliary_loss = reader.number_or("router_aux_loss_coef", 0.001);
  config.router.balance_form = recipe::BalanceForm::kHuggingFace;
}

void write_balance(const recipe::ModelConfig& config, nlohmann::ordered_json& json) {
  json["router_aux_loss_coef"] = config.auxiliary_loss_as(recipe::BalanceForm::kHuggingFace);
}

void read_experts(ConfigReader& reader, recipe::ModelConfig& config) {
  config.experts = reader.integer("num_local_experts");
  if (config.experts > kMostExperts / config.layers) {
    reader.refuse("num_local_experts", fmt::format("at most {} in all layers", kMostExperts),
                  std::to_string(config.experts));
  }
  config.experts_per_token = reader.integer_or("num_experts_per_tok", 2);
  if (config.experts_per_token > config.experts) {
    reader.refuse("num_experts_per_tok", fmt::format("at most num_local_experts = {}", config.experts),
                  std::to_string(config.experts_per_token));
  }
  read_balance(reader, config);
}

void read_window(ConfigReader& reader, recipe::ModelConfig& config, int64_t otherwise) {
  config.softmax.windows = {reader.says("sliding_window") ? reader.integer_or("sliding_window", 0)
                                                          : otherwise};
}

// 0: none.
static int64_t read_used_window(ConfigReader& reader) {
  const bool used = reader.flag_or("use_sliding_window", false);
  const int64_t said =
      reader.says("sliding_window") ? reader.integer_or("sliding_window", 0, /*least=*/0) : 4096;
  return used ? said : 0;
}

void read_common_window(ConfigReader& reader, recipe::ModelConfig& config) {
  const int64_t window = read_used_window(reader);
  reader.ignore("max_window_layers");
  const char* const kind = window > 0 ? kSliding : kFull;
  for (const std::string& type : reader.texts("layer_types")) {
    if (type != kind)
      reader.refuse("layer_types", fmt::format("{} throughout: layers of this family are alike", kind), type);
  }
  config.softmax.windows = {window};
}

void read_layer_windows(ConfigReader& reader, recipe::ModelConfig& config, WindowedLayers otherwise) {
  const int64_t window = read_used_window(reader);
  const int64_t first = reader.integer_or("max_window_layers", 28, 0);
  const bool listed = reader.has("layer_types");
  const std::vector<std::string> types = reader.texts("layer_types");
  if (listed && static_cast<int64_t>(types.size()) != config.layers) {
    reader.refuse("layer_types", fmt::format("one entry for each of the {} layers", config.layers),
                  fmt::format("{} entries", types.size()));
  }
  std::vector<int64_t> windows;
  for (int64_t l = 0; l < config.layers; ++l) {
    const bool in_pattern = otherwise == WindowedLayers::kUpper ? l >= first : l % 2 == 0 && l < first;
    const std::string type = listed                     ? types[static_cast<size_t>(l)]
                             : window > 0 && in_pattern ? kSliding
                                                        : kFull;
    if (type != kSliding && type != kFull)
      reader.refuse("layer_types", fmt::format("{} or {}", kFull, kSliding), type);
    if (type == kSliding && window == 0)
      reader.refuse("layer_types", "no sliding layers where use_sliding_window is not set", type);
    windows.push_back(type == kSliding ? window : 0);
  }
  const bool same = std::ranges::all_of(windows, [&](int64_t each) { return each == windows.front(); });
  config.softmax.windows = same ? std::vector<int64_t>{windows.front()} : windows;
}

void write_llama_like(const recipe::ModelConfig& config, nlohmann::ordered_json& json) {
  json["hidden_size"] = config.hidden;
  json["num_hidden_layers"] = config.layers;
  json["vocab_size"] = config.vocabulary;
  json["intermediate_size"] = config.intermediate;
  json["num_attention_heads"] = config.heads;
  json["num_key_value_heads"] = config.softmax.kv_heads;
  json["head_dim"] = config.head_dim;
  if (config.max_positions > 0) json["max_position_embeddings"] = config.max_positions;
  json["rms_norm_eps"] = config.norm_eps;
  json["tie_word_embeddings"] = config.tie_embeddings;
  json["hidden_act"] = "silu";
  write_rotary(config, json);
}

void write_experts(const recipe::ModelConfig& config, nlohmann::ordered_json& json) {
  json["num_local_experts"] = config.experts;
  json["num_experts_per_tok"] = config.experts_per_token;
  write_balance(config, json);
}

void write_window(const recipe::ModelConfig& config, nlohmann::ordered_json& json) {
  const int64_t window = config.softmax.window(0);
  json["sliding_window"] = window > 0 ? nlohmann::ordered_json(window) : nlohmann::ordered_json();
}

void write_layer_windows(const recipe::ModelConfig& config, nlohmann::ordered_json& json) {
  int64_t window = 0;
  nlohmann::ordered_json types = nlohmann::ordered_json::array();
  for (int64_t l = 0; l < config.layers; ++l) {
    window = std::max(window, config.softmax.window(l));
    types.push_back(config.softmax.window(l) > 0 ? kSliding : kFull);
  }
  json["use_sliding_window"] = window > 0;
  json["sliding_window"] = window > 0 ? nlohmann::ordered_json(window) : nlohmann::ordered_json();
  json["layer_types"] = types;
  if (!json.contains("max_window_layers")) json["max_window_layers"] = config.layers;  // layer_types decides
}

void write_common_window(const recipe::ModelConfig& config, nlohmann::ordered_json& json) {
  const int64_t window = config.softmax.window(0);
  json["use_sliding_window"] = window > 0;
  json["sliding_window"] = window > 0 ? nlohmann::ordered_json(window) : nlohmann::ordered_json();
  json.erase("layer_types");  // transformers would take no notice of it
}

void add_softmax(PublicTensors& tensors, const recipe::ModelConfig& config, const std::string& theirs,
                 const std::string& ours) {
  static constexpr std::pair<const char*, const char*> kMatrices[] = {
      {"q_proj", "query"}, {"k_proj", "key"}, {"v_proj", "value"}, {"o_proj", "output"}};
  for (const auto& [public_name, logical] : kMatrices) {
    tensors.whole(theirs + public_name + ".weight", ours + logical + ".weight");
    if (tensors.has(ours + logical + ".bias"))
      tensors.whole(theirs + public_name + ".bias", ours + logical + ".bias");
  }
  if (!config.softmax.qk_norm) return;
  tensors.whole(theirs + "q_norm.weight", ours + "query_norm.weight");
  tensors.whole(theirs + "k_norm.weight", ours + "key_norm.weight");
}

void add_experts(PublicTensors& tensors, const recipe::ModelConfig& config, int64_t layer,
                 std::string_view router_dtype) {
  const std::string ours = fmt::format("layers.{}.", layer),
                    theirs = fmt::format("model.layers.{}.block_sparse_moe.", layer);
  tensors.whole(theirs + "gate.weight", ours + "router.weight", router_dtype);
  for (int64_t e = 0; e < config.experts; ++e) {
    const std::string from = fmt::format("{}experts.{}.", ours, e),
                      to = fmt::format("{}experts.{}.", theirs, e);
    tensors.whole(to + "w1.weight", from + "gate.weight");
    tensors.whole(to + "w3.weight", from + "up.weight");
    tensors.whole(to + "w2.weight", from + "down.weight");
  }
}

void add_stacked_experts(PublicTensors& tensors, const recipe::ModelConfig& config, int64_t layer,
                         std::string_view router_dtype) {
  const std::string ours = fmt::format("layers.{}.", layer),
                    theirs = fmt::format("model.layers.{}.mlp.", layer);
  std::vector<std::vector<std::string>> gate_up, down;
  for (int64_t e = 0; e < config.experts; ++e) {
    const std::string expert = fmt::format("{}experts.{}.", ours, e);
    gate_up.push_back({expert + "gate.weight", expert + "up.weight"});
    down.push_back({expert + "down.weight"});
  }
  tensors.whole(theirs + "gate.weight", ours + "router.weight", router_dtype);
  tensors.matrices(theirs + "experts.gate_up_proj", gate_up);
  tensors.matrices(theirs + "experts.down_proj", down);
}

static void add_shared(PublicTensors& tensors, const recipe::ModelConfig& config, const std::string& ours,
                       const std::string& theirs) {
  if (config.shared_experts == 0) return;
  for (const char* which : {"gate", "up", "down"}) {
    tensors.whole(fmt::format("{}shared_expert.{}_proj.weight", theirs, which),
                  fmt::format("{}shared.{}.weight", ours, which));
  }
  if (config.shared_gate) tensors.whole(theirs + "shared_expert_gate.weight", ours + "shared_gate.weight");
}

static void add_qwen_experts(PublicTensors& tensors, const recipe::ModelConfig& config, int64_t layer,
                             std::string_view router_dtype) {
  const std::string ours = fmt::format("layers.{}.", layer),
                    theirs = fmt::format("model.layers.{}.mlp.", layer);
  tensors.whole(theirs + "gate.weight", ours + "router.weight", router_dtype);
  for (int64_t e = 0; e < config.experts; ++e) {
    for (const char* which : {"gate", "up", "down"}) {
      tensors.whole(fmt::format("{}experts.{}.{}_proj.weight", theirs, e, which),
                    fmt::format("{}experts.{}.{}.weight", ours, e, which));
    }
  }
  add_shared(tensors, config, ours, theirs);
}

static void add_stacked_qwen_experts(PublicTensors& tensors, const recipe::ModelConfig& config, int64_t layer,
                                     std::string_view router_dtype) {
  add_stacked_experts(tensors, config, layer, router_dtype);
  add_shared(tensors, config, fmt::format("layers.{}.", layer), fmt::format("model.layers.{}.mlp.", layer));
}

std::vector<PublicTensor> qwen_moe_tensors(const recipe::ModelConfig& config) {
  return tensors_with(config, add_qwen_experts);
}
std::vector<PublicTensor> stacked_qwen_moe_tensors(const recipe::ModelConfig& config) {
  return tensors_with(config, add_stacked_qwen_experts);
}
std::vector<PublicTensor> llama_tensors(const recipe::ModelConfig& config) {
  return tensors_with(config, add_experts);
}
std::vector<PublicTensor> stacked_experts_tensors(const recipe::ModelConfig& config) {
  return tensors_with(config, add_stacked_experts);
}

}  // namespace longhaul::model
