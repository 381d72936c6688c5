#include "checkpoint/published/gguf_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/text/text.h"

namespace longhaul::checkpoint {

using recipe::ModelConfig;
using storage::GgufType;

namespace {

[[noreturn]] void refuse(const std::string& expected, const std::string& found) {
  throw Error({.code = ExitCode::kUsage,
               .what = "llama.cpp has no model that computes this one",
               .expected = expected,
               .found = found,
               .where = "--gguf",
               .hint = "export CKPT --out DIR writes the files of the model's own family"});
}

constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kArchitectures{
    {{"llama", "llama"},
     {"mistral", "llama"},
     {"mixtral", "llama"},
     {"qwen2", "qwen2"},
     {"qwen3", "qwen3"},
     {"qwen2_moe", "qwen2moe"},
     {"qwen3_moe", "qwen3moe"},
     {"gpt2", "gpt2"}}};

// The names of a public layer's tensors, without "weight" and "bias".
const std::map<std::string, std::string, std::less<>>& layer_names() {
  static const std::map<std::string, std::string, std::less<>> kNames{
      {"input_layernorm", "attn_norm"},
      {"post_attention_layernorm", "ffn_norm"},
      {"self_attn.q_proj", "attn_q"},
      {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"},
      {"self_attn.o_proj", "attn_output"},
      {"self_attn.q_norm", "attn_q_norm"},
      {"self_attn.k_norm", "attn_k_norm"},
      {"mlp.gate_proj", "ffn_gate"},
      {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"},
      {"mlp.gate", "ffn_gate_inp"},
      {"block_sparse_moe.gate", "ffn_gate_inp"},
      {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
      {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
      {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
      {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
      {"ln_1", "attn_norm"},
      {"ln_2", "ffn_norm"},
      {"attn.c_attn", "attn_qkv"},
      {"attn.c_proj", "attn_output"},
      {"mlp.c_fc", "ffn_up"},
      {"mlp.c_proj", "ffn_down"}};
  return kNames;
}

const std::map<std::string, std::string, std::less<>>& model_names() {
  static const std::map<std::string, std::string, std::less<>> kNames{{"model.embed_tokens", "token_embd"},
                                                                      {"model.norm", "output_norm"},
                                                                      {"lm_head", "output"},
                                                                      {"wte", "token_embd"},
                                                                      {"wpe", "position_embd"},
                                                                      {"ln_f", "output_norm"}};
  return kNames;
}

// "w1" and "gate_proj" of experts.
std::string expert_name(std::string_view matrix) {
  if (matrix == "w1" || matrix == "gate_proj") return "ffn_gate_exps";
  if (matrix == "w2" || matrix == "down_proj") return "ffn_down_exps";
  return "ffn_up_exps";
}

// "blk.3.attn_q.weight" of "model.layers.3.self_attn.q_proj.weight".
std::string gguf_name(std::string_view name) {
  if (name.starts_with("transformer.")) name.remove_prefix(12);
  const size_t dot = name.rfind('.');
  const std::string_view stem = name.substr(0, dot), kind = name.substr(dot + 1);
  if (const auto found = model_names().find(stem); found != model_names().end())
    return fmt::format("{}.{}", found->second, kind);
  const std::string_view layers = stem.starts_with("model.layers.") ? "model.layers." : "h.";
  if (stem.starts_with(layers)) {
    const std::string_view inside = stem.substr(layers.size());
    const size_t after = inside.find('.');
    const std::string_view layer = inside.substr(0, after), part = inside.substr(after + 1);
    if (const auto found = layer_names().find(part); found != layer_names().end()) {
      return fmt::format("blk.{}.{}.{}", layer, found->second, kind);
    }
    if (const size_t experts = part.find("experts."); experts != std::string_view::npos) {
      return fmt::format("blk.{}.{}.{}", layer, expert_name(part.substr(part.rfind('.') + 1)), kind);
    }
  }
  refuse("tensors of the families that llama.cpp knows", std::string(name));
}

bool stays_fp32(std::string_view name) {
  return name.find("ffn_gate_inp") != std::string_view::npos || name.starts_with("position_embd");
}

GgufType type_of(const storage::GgufTensor& tensor, GgufType wanted) {
  if (tensor.shape.size() == 1 || stays_fp32(tensor.name)) return GgufType::kF32;
  return wanted == GgufType::kQ8_0 && tensor.shape.back() % storage::kQ8Block != 0 ? GgufType::kF16 : wanted;
}

GgufOrder order_of(const ModelConfig& config, std::string_view name, size_t rank) {
  if (config.family == "gpt2") {
    const bool stored_by_input = rank == 2 && name.starts_with("blk.");
    return stored_by_input ? GgufOrder::kTransposed : GgufOrder::kAsIs;
  }
  const bool rotated =
      name.find(".attn_q.") != std::string_view::npos || name.find(".attn_k.") != std::string_view::npos;
  return rotated && gguf_architecture(config) == "llama" ? GgufOrder::kPairs : GgufOrder::kAsIs;
}

void check_experts(const ModelConfig& config, const std::string& architecture) {
  if (config.experts == 0) return;
  const bool normalised = architecture != "qwen2moe";  // which llama.cpp computes whatever a file says
  if (config.router.normalised != normalised) {
    refuse(fmt::format("model.router_normalised = {} for the architecture {}", normalised, architecture),
           config.router.normalised ? "true" : "false");
  }
  if (config.router.score != recipe::RouterScore::kSoftmax || config.router.scale != 1)
    refuse("experts weighted by a softmax", "another score, or a factor");
  if (!config.dense_layers.empty()) refuse("experts in every layer", "layers without experts");
}

// The divisor of each pair of channels' frequency under llama3's scaling.
std::vector<float> frequency_factors(const ModelConfig& config) {
  recipe::SoftmaxOptions plain = config.softmax;
  plain.rotary_scaling = recipe::RotaryScaling::kNone;
  const std::vector<double> scaled = config.softmax.rotary_frequencies(),
                            unscaled = plain.rotary_frequencies();
  std::vector<float> factors;
  for (size_t i = 0; i < scaled.size(); ++i) factors.push_back(static_cast<float>(unscaled[i] / scaled[i]));
  return factors;
}

}  // namespace

std::string gguf_architecture(const ModelConfig& config) {
  const auto* const found =
      std::ranges::find(kArchitectures, config.family, [](const auto& each) { return each.first; });
  if (found == kArchitectures.end()) {
    std::string known;
    for (const auto& each : kArchitectures) known += (known.empty() ? "" : ", ") + std::string(each.first);
    refuse("one of the families " + known, config.family);
  }
  const std::string architecture(found->second);
  if (std::ranges::any_of(config.softmax.windows, [](int64_t window) { return window > 0; })) {
    refuse("attention over all tokens: llama.cpp has no windows for " + architecture,
           fmt::format("model.windows = {}", fmt::join(config.softmax.windows, ", ")));
  }
  if (architecture != "gpt2" && config.softmax.rotary_dim != config.head_dim) {
    refuse(fmt::format("heads that are rotated whole: model.rotary_dim = {}", config.head_dim),
           std::to_string(config.softmax.rotary_dim));
  }
  check_experts(config, architecture);
  return architecture;
}

std::vector<GgufPart> gguf_parts(const ModelConfig& config, const std::vector<model::PublicTensor>& tensors,
                                 GgufType type) {
  std::vector<GgufPart> parts;
  std::map<std::string, size_t> stacks;  // of experts: their place in parts
  for (const model::PublicTensor& tensor : tensors) {
    const std::string name = gguf_name(tensor.name);
    if (name.find("_exps.") != std::string::npos) {
      const auto [found, fresh] = stacks.emplace(name, parts.size());
      if (fresh) {
        parts.push_back({.tensor = {.name = name, .shape = {0, tensor.shape[0], tensor.shape[1]}},
                         .from = {},
                         .values = {}});
        parts.back().tensor.type = type_of(parts.back().tensor, type);
      }
      ++parts[found->second].tensor.shape[0];
      parts[found->second].from.push_back(&tensor);
      continue;
    }
    GgufPart part{.tensor = {.name = name, .shape = tensor.shape},
                  .from = {&tensor},
                  .values = {},
                  .order = order_of(config, name, tensor.shape.size())};
    if (part.order == GgufOrder::kTransposed) std::ranges::reverse(part.tensor.shape);
    if (name.ends_with("ffn_gate_inp_shexp.weight")) part.tensor.shape = {config.hidden};
    part.heads = name.find(".attn_q.") != std::string::npos ? config.heads : config.softmax.kv_heads;
    part.tensor.type = type_of(part.tensor, type);
    parts.push_back(std::move(part));
  }
  if (config.softmax.rotary_scaling == recipe::RotaryScaling::kLlama3) {
    GgufPart part{.tensor = {.name = "rope_freqs.weight"}, .from = {}, .values = frequency_factors(config)};
    part.tensor.shape = {static_cast<int64_t>(part.values.size())};
    parts.push_back(std::move(part));
  }
  return parts;
}

storage::GgufFields gguf_model_fields(const ModelConfig& config, int64_t positions) {
  const std::string name = gguf_architecture(config);
  storage::GgufFields fields{{"general.architecture", name},
                             {"general.type", std::string("model")},
                             {"general.quantization_version", uint32_t{2}}};
  const auto count = [&](const char* key, int64_t value) {
    fields.emplace_back(name + "." + key, static_cast<uint32_t>(value));
  };
  const auto number = [&](const char* key, double value) {
    fields.emplace_back(name + "." + key, static_cast<float>(value));
  };
  count("context_length", config.max_positions > 0 ? config.max_positions : positions);
  count("embedding_length", config.hidden);
  count("block_count", config.layers);
  count("feed_forward_length", config.dense_width());
  count("attention.head_count", config.heads);
  if (name == "gpt2") {
    number("attention.layer_norm_epsilon", config.norm_eps);
    return fields;
  }
  number("attention.layer_norm_rms_epsilon", config.norm_eps);
  count("attention.head_count_kv", config.softmax.kv_heads);
  count("attention.key_length", config.head_dim);
  count("attention.value_length", config.head_dim);
  count("vocab_size", config.vocabulary);
  count("rope.dimension_count", config.softmax.rotary_dim);
  number("rope.freq_base", config.softmax.rotary_base);
  if (config.softmax.rotary_scaling == recipe::RotaryScaling::kLinear) {
    fields.emplace_back(name + ".rope.scaling.type", std::string("linear"));
    number("rope.scaling.factor", config.softmax.rotary_factor);
  }
  if (config.experts == 0) return fields;
  count("expert_count", config.experts);
  count("expert_used_count", config.experts_per_token);
  if (name != "llama") count("expert_feed_forward_length", config.intermediate);
  if (config.shared_experts > 0) count("expert_shared_feed_forward_length", config.shared_width());
  return fields;
}

}  // namespace longhaul::checkpoint
