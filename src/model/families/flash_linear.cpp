// Models of flash-linear-attention (fla-org, github.com/fla-org/flash-linear-attention) whose configuration
// says enough: RetNet, GLA, HGRN2, DeltaNet and Gated DeltaNet. All have RMS norms before mixer and SwiGLU,
// no positions outside the mixer, and names of their own. What its layers can do beside (short convolutions
// of GLA, shared key heads, other gates, hybrids with softmax, residual attention) is refused by name.
#include <fmt/format.h>

#include <cmath>

#include "model/families/builder.h"
#include "model/families/config_reader.h"
#include "model/families/families.h"

namespace longhaul::model {
namespace {

using recipe::Mixer;
using recipe::ModelConfig;

// how the norm of a gated output is called where "fuse_norm" is false
constexpr const char* kUnfused = "unfused norm";

// hidden · ratio as the layers compute it: cut to a whole number.
int64_t expanded(int64_t hidden, double ratio) {
  return static_cast<int64_t>(static_cast<double>(hidden) * ratio);
}

// The ratio of which `expanded` makes this width.
double ratio_of(int64_t width, int64_t hidden) {
  const double ratio = static_cast<double>(width) / static_cast<double>(hidden);
  return expanded(hidden, ratio) == width ? ratio : std::nextafter(ratio, 2 * ratio);
}

int64_t channels_of_head(ConfigReader& reader, const std::string& key, int64_t width, int64_t heads) {
  if (width <= 0 || width % heads != 0) {
    reader.refuse(key, fmt::format("a ratio whose channels are a multiple of the {} heads", heads),
                  fmt::format("{} channels", width));
  }
  return width / heads;
}

ModelConfig read_flash_linear(ConfigReader& reader, const char* family, Mixer mixer, int64_t default_ratio) {
  ModelConfig config;
  config.family = family;
  config.mixers = {mixer};
  config.position = recipe::Position::kNone;
  config.initialisation = recipe::Initialisation::kNormal;
  config.hidden = reader.integer("hidden_size");
  config.layers = reader.integer("num_hidden_layers");
  if (config.layers > 10'000)
    reader.refuse("num_hidden_layers", "at most 10000", std::to_string(config.layers));
  config.vocabulary = reader.integer_or("vocab_size", 32000, 2);
  const int64_t ratio = reader.integer_or("hidden_ratio", reader.says("hidden_ratio") ? 4 : default_ratio);
  const auto thirds = static_cast<int64_t>(static_cast<double>(config.hidden * ratio) * 2 / 3);
  config.intermediate = reader.integer_or("intermediate_size", (thirds + 255) / 256 * 256);
  config.norm_eps = reader.number_or("norm_eps", 1e-6);
  config.tie_embeddings = reader.flag_or("tie_word_embeddings", false);
  config.initial_std = reader.number_or("initializer_range", 0.02);
  reader.must_be_one_of("hidden_act", {"swish", "silu"}, "swish");
  reader.must_be("attn", nullptr, "layers of softmax attention among the others are not read");
  reader.must_be("attnres_block_size", nullptr, "the residual is a sum");
  reader.must_be("elementwise_affine", true, "norms have weights");
  reader.must_be("use_rope", false, "there are no positions outside the mixers");
  reader.must_be("use_elu", false, "queries and keys go through no elu");
  reader.must_be("share_conv_kernel", false, "queries, keys and values have convolutions of their own");
  for (const char* of_arithmetic :
       {"attn_mode", "fuse_norm", "fuse_swiglu", "fuse_cross_entropy", "fuse_linear_cross_entropy",
        "use_l2warp", "max_position_embeddings", "norm_first"}) {
    reader.ignore(of_arithmetic);  // the same numbers in another way, or of training alone
  }
  return config;
}

void write_flash_linear(const ModelConfig& config, nlohmann::ordered_json& json) {
  json["hidden_size"] = config.hidden;
  json["num_hidden_layers"] = config.layers;
  json["vocab_size"] = config.vocabulary;
  json["intermediate_size"] = config.intermediate;
  json["norm_eps"] = config.norm_eps;
  json["tie_word_embeddings"] = config.tie_embeddings;
  json["hidden_act"] = "swish";
  if (!json.contains("fuse_norm")) json["fuse_norm"] = true;
}

// RetNet and GLA.
void read_gated_heads(ConfigReader& reader, ModelConfig& config, int64_t heads) {
  config.heads = reader.integer_or("num_heads", heads);
  reader.must_be("num_kv_heads", config.heads, "every head has keys and values of its own");
  reader.must_be("feature_map", nullptr, "queries and keys go through no map");
  reader.must_be("use_short_conv", false, "there are no convolutions");
  reader.must_be("use_output_gate", true, "the output has a gate");
  reader.ignore("conv_size");  // of none
}

ModelConfig read_retnet(ConfigReader& reader) {
  ModelConfig config = read_flash_linear(reader, "retnet", Mixer::kRetnet, 2);
  read_gated_heads(reader, config, 8);
  config.head_dim = channels_of_head(reader, "expand_k",
                                     expanded(config.hidden, reader.number_or("expand_k", 1)), config.heads);
  config.retnet.value_dim = channels_of_head(
      reader, "expand_v", expanded(config.hidden, reader.number_or("expand_v", 2)), config.heads);
  config.retnet.norm_weight = true;
  config.retnet.norm_eps = config.norm_eps;
  return config;
}

void write_retnet(const ModelConfig& config, nlohmann::ordered_json& json) {
  write_flash_linear(config, json);
  const int64_t value = config.retnet.value_dim > 0 ? config.retnet.value_dim : 2 * config.head_dim;
  json["num_heads"] = config.heads;
  json["expand_k"] = ratio_of(config.heads * config.head_dim, config.hidden);
  json["expand_v"] = ratio_of(config.heads * value, config.hidden);
}

ModelConfig read_gla(ConfigReader& reader) {
  ModelConfig config = read_flash_linear(reader, "gla", Mixer::kGla, 4);
  read_gated_heads(reader, config, 4);
  config.gla.key_dim = channels_of_head(
      reader, "expand_k", expanded(config.hidden, reader.number_or("expand_k", 0.5)), config.heads);
  config.head_dim = channels_of_head(reader, "expand_v",
                                     expanded(config.hidden, reader.number_or("expand_v", 1)), config.heads);
  config.gla.norm_eps = config.norm_eps;
  reader.must_be("clamp_min", nullptr, "decays have no bound");
  reader.must_be("use_gk", true, "keys have decays");
  reader.must_be("use_gv", false, "values have none");
  return config;
}

void write_gla(const ModelConfig& config, nlohmann::ordered_json& json) {
  write_flash_linear(config, json);
  const int64_t key = config.gla.key_dim > 0 ? config.gla.key_dim : config.head_dim / 2;
  json["num_heads"] = config.heads;
  json["expand_k"] = ratio_of(config.heads * key, config.hidden);
  json["expand_v"] = ratio_of(config.heads * config.head_dim, config.hidden);
}

// Its recurrence is scaled by 1/√keys before a norm that adds 1e-5 whatever the file says: that is 1e-5 ·
// keys without the scale.
ModelConfig read_hgrn2(ConfigReader& reader) {
  ModelConfig config = read_flash_linear(reader, "hgrn2", Mixer::kHgrn2, 4);
  const bool by_heads = reader.says("expand_ratio") && !reader.has("expand_ratio") && reader.has("num_heads");
  const int64_t said = by_heads ? reader.integer("num_heads") : reader.integer_or("expand_ratio", 128);
  if (config.hidden % said != 0) {
    reader.refuse(by_heads ? "num_heads" : "expand_ratio",
                  fmt::format("a number that divides hidden_size = {}", config.hidden), std::to_string(said));
  }
  config.heads = by_heads ? said : config.hidden / said;
  config.head_dim = config.hgrn2.expand = config.hidden / config.heads;
  config.hgrn2.norm_eps = 1e-5 * static_cast<double>(config.hgrn2.expand);
  reader.must_be("num_heads", config.heads, "heads of expand_ratio channels make up the width");
  reader.must_be("use_short_conv", false, "there are no convolutions");
  reader.must_be("use_lower_bound", true, "forget gates have lower bounds");
  reader.ignore("conv_size");
  return config;
}

void write_hgrn2(const ModelConfig& config, nlohmann::ordered_json& json) {
  write_flash_linear(config, json);
  if (!json.contains("expand_ratio") || !json["expand_ratio"].is_null())
    json["expand_ratio"] = config.head_dim;
  json["num_heads"] = config.heads;
}

ModelConfig read_deltanet(ConfigReader& reader) {
  ModelConfig config = read_flash_linear(reader, "delta_net", Mixer::kDeltaNet, 4);
  config.heads = reader.integer_or("num_heads", 16);
  config.deltanet.key_dim = channels_of_head(
      reader, "expand_k", expanded(config.hidden, reader.number_or("expand_k", 1)), config.heads);
  config.head_dim = channels_of_head(reader, "expand_v",
                                     expanded(config.hidden, reader.number_or("expand_v", 1)), config.heads);
  config.deltanet.convolution = reader.integer_or("conv_size", 4);
  config.deltanet.output_gate = reader.flag_or("use_gate", false);
  config.deltanet.negative_eigenvalues = reader.flag_or("allow_neg_eigval", false);
  config.deltanet.norm_eps = config.norm_eps;
  reader.must_be("use_short_conv", true, "queries, keys and values go through convolutions");
  reader.must_be("use_beta", true, "what is written has a share of its own");
  reader.must_be("use_output_norm", true, "heads are normed");
  reader.must_be("qk_norm", "l2", "queries and keys have length 1");
  reader.must_be("qk_activation", "silu", "queries and keys go through silu");
  return config;
}

void write_deltanet(const ModelConfig& config, nlohmann::ordered_json& json) {
  write_flash_linear(config, json);
  const recipe::DeltaNetOptions& own = config.deltanet;
  json["num_heads"] = config.heads;
  json["expand_k"] =
      ratio_of(config.heads * (own.key_dim > 0 ? own.key_dim : config.head_dim), config.hidden);
  json["expand_v"] = ratio_of(config.heads * config.head_dim, config.hidden);
  json["conv_size"] = own.convolution;
  json["use_gate"] = own.output_gate;
  json["allow_neg_eigval"] = own.negative_eigenvalues;
}

ModelConfig read_gated_deltanet(ConfigReader& reader) {
  ModelConfig config = read_flash_linear(reader, "gated_deltanet", Mixer::kGatedDeltaNet, 4);
  const int64_t heads = reader.integer_or("num_heads", 6), keys = reader.integer_or("head_dim", 256);
  config.heads = reader.integer_or("num_v_heads", heads);
  config.head_dim = expanded(keys, reader.number_or("expand_v", 2));
  if (config.head_dim < 1 || config.heads % heads != 0) {
    reader.refuse(config.head_dim < 1 ? "expand_v" : "num_v_heads", "whole heads",
                  fmt::format("{} of {}", config.heads, config.head_dim));
  }
  config.gated_deltanet.key_heads = heads == config.heads ? 0 : heads;
  config.gated_deltanet.key_dim = keys;
  config.gated_deltanet.convolution = reader.integer_or("conv_size", 4);
  config.gated_deltanet.negative_eigenvalues = reader.flag_or("allow_neg_eigval", false);
  config.gated_deltanet.norm_eps = config.norm_eps;
  reader.must_be("use_gate", true, "the output has a gate");
  reader.must_be("use_short_conv", true, "queries, keys and values go through convolutions");
  return config;
}

void write_gated_deltanet(const ModelConfig& config, nlohmann::ordered_json& json) {
  write_flash_linear(config, json);
  const recipe::GatedDeltaNetOptions& own = config.gated_deltanet;
  const int64_t keys = own.key_dim > 0 ? own.key_dim : config.head_dim,
                heads = own.key_heads > 0 ? own.key_heads : config.heads;
  json["num_heads"] = heads;
  json["num_v_heads"] =
      heads == config.heads ? nlohmann::ordered_json() : nlohmann::ordered_json(config.heads);
  json["head_dim"] = keys;
  json["expand_v"] = ratio_of(config.head_dim, keys);
  json["conv_size"] = own.convolution;
  json["allow_neg_eigval"] = own.negative_eigenvalues;
}

// Embedding, norms, SwiGLU and head; a layer's mixer by `add(tensors, theirs, ours)`.
std::vector<PublicTensor> flash_linear_tensors(const ModelConfig& config, const auto& add) {
  PublicTensors tensors(config, "bf16");
  tensors.whole("model.embeddings.weight", "embedding.weight");
  if (tensors.has("hgrn2.lower_bounds.weight"))
    tensors.whole("model.lower_bounds", "hgrn2.lower_bounds.weight");
  for (int64_t l = 0; l < config.layers; ++l) {
    const std::string ours = fmt::format("layers.{}.", l), theirs = "model." + ours;
    tensors.whole(theirs + "attn_norm.weight", ours + "mixer_norm.weight");
    add(tensors, theirs + "attn.", ours + "mixer.");
    tensors.whole(theirs + "mlp_norm.weight", ours + "channel_norm.weight");
    for (const char* which : {"gate", "up", "down"}) {
      tensors.whole(fmt::format("{}mlp.{}_proj.weight", theirs, which),
                    fmt::format("{}channel.{}.weight", ours, which));
    }
  }
  tensors.whole("model.norm.weight", "norm.weight");
  if (!config.tie_embeddings) tensors.whole("lm_head.weight", "head.weight");
  return tensors.take();
}

using Names = std::initializer_list<std::pair<const char*, const char*>>;

void add_all(PublicTensors& tensors, const std::string& theirs, const std::string& ours, Names names) {
  for (const auto& [public_name, logical] : names) tensors.whole(theirs + public_name, ours + logical);
}

constexpr Names kGatedHeads = {{"q_proj.weight", "query.weight"},
                               {"k_proj.weight", "key.weight"},
                               {"v_proj.weight", "value.weight"},
                               {"g_proj.weight", "gate.weight"},
                               {"o_proj.weight", "output.weight"}};
constexpr Names kForgetOfGla = {{"gk_proj.0.weight", "forget_down.weight"},
                                {"gk_proj.1.weight", "forget_up.weight"},
                                {"gk_proj.1.bias", "forget_up.bias"}};

std::vector<PublicTensor> gated_heads_with(const ModelConfig& config, const char* norm) {
  return flash_linear_tensors(
      config, [&](PublicTensors& tensors, const std::string& theirs, const std::string& ours) {
        add_all(tensors, theirs, ours, kGatedHeads);
        if (config.mixer(0) == Mixer::kGla) add_all(tensors, theirs, ours, kForgetOfGla);
        tensors.whole(theirs + norm, ours + "norm.weight");
      });
}
std::vector<PublicTensor> fused_norm(const ModelConfig& config) {
  return gated_heads_with(config, "g_norm_swish_gate.weight");
}
std::vector<PublicTensor> unfused_norm(const ModelConfig& config) {
  return gated_heads_with(config, "g_norm.weight");
}

std::vector<PublicTensor> hgrn2_tensors(const ModelConfig& config) {
  return flash_linear_tensors(config,
                              [](PublicTensors& tensors, const std::string& theirs, const std::string& ours) {
                                add_all(tensors, theirs, ours,
                                        {{"q_proj.weight", "query.weight"},
                                         {"f_proj.weight", "forget.weight"},
                                         {"i_proj.weight", "value.weight"},
                                         {"g_norm.weight", "norm.weight"},
                                         {"o_proj.weight", "output.weight"}});
                              });
}

// DeltaNet and Gated DeltaNet.
std::vector<PublicTensor> deltanet_tensors(const ModelConfig& config) {
  return flash_linear_tensors(
      config, [&](PublicTensors& tensors, const std::string& theirs, const std::string& ours) {
        for (const auto& [public_name, logical] : kGatedHeads) {
          // a gate, or none
          if (tensors.has(ours + logical)) tensors.whole(theirs + public_name, ours + logical);
        }
        add_all(tensors, theirs, ours, {{"b_proj.weight", "write.weight"}, {"o_norm.weight", "norm.weight"}});
        if (config.mixer(0) == Mixer::kGatedDeltaNet)
          add_all(tensors, theirs, ours,
                  {{"a_proj.weight", "forget.weight"}, {"A_log", "rate.weight"}, {"dt_bias", "step.weight"}});
        for (const auto& [letter, which] : {std::pair{"q", "query"}, {"k", "key"}, {"v", "value"}}) {
          tensors.convolution(fmt::format("{}{}_conv1d.weight", theirs, letter),
                              {fmt::format("{}{}_convolution.weight", ours, which)});
        }
      });
}

}  // namespace

extern const Family kRetnet, kGla, kHgrn2, kDeltaNet, kGatedDeltaNet;
const Family kRetnet{.name = "retnet",
                     .model_types = {"retnet"},
                     .architectures = {"RetNetForCausalLM"},
                     .title = "RetNet, as flash-linear-attention has it",
                     .loaded_by = "flash-linear-attention",
                     .read = read_retnet,
                     .write = write_retnet,
                     .layouts = {{"", fused_norm}, {kUnfused, unfused_norm}}};
const Family kGla{.name = "gla",
                  .model_types = {"gla"},
                  .architectures = {"GLAForCausalLM"},
                  .title = "GLA, as flash-linear-attention has it",
                  .loaded_by = "flash-linear-attention",
                  .read = read_gla,
                  .write = write_gla,
                  .layouts = {{"", fused_norm}, {kUnfused, unfused_norm}}};
const Family kHgrn2{.name = "hgrn2",
                    .model_types = {"hgrn2"},
                    .architectures = {"HGRN2ForCausalLM"},
                    .title = "HGRN2, as flash-linear-attention has it",
                    .loaded_by = "flash-linear-attention",
                    .read = read_hgrn2,
                    .write = write_hgrn2,
                    .layouts = {{"", hgrn2_tensors}}};
const Family kGatedDeltaNet{.name = "gated_deltanet",
                            .model_types = {"gated_deltanet"},
                            .architectures = {"GatedDeltaNetForCausalLM"},
                            .title = "Gated DeltaNet, as flash-linear-attention has it",
                            .loaded_by = "flash-linear-attention",
                            .read = read_gated_deltanet,
                            .write = write_gated_deltanet,
                            .layouts = {{"", deltanet_tensors}}};
const Family kDeltaNet{.name = "delta_net",
                       .model_types = {"delta_net"},
                       .architectures = {"DeltaNetForCausalLM"},
                       .title = "DeltaNet, as flash-linear-attention has it",
                       .loaded_by = "flash-linear-attention",
                       .read = read_deltanet,
                       .write = write_deltanet,
                       .layouts = {{"", deltanet_tensors}}};

}  // namespace longhaul::model
