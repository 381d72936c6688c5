// Mamba-2 (arXiv 2405.21060) as transformers has it: layers of the mixer alone, bf16. One input projection
// makes z, x, B, C and Δ, and one convolution takes x, B and C: five and three logical tensors. What stands
// in files as A_log, D and dt_bias may be in fp32 beside bf16.
#include <fmt/format.h>

#include "model/families/builder.h"
#include "model/families/config_reader.h"
#include "model/families/families.h"

namespace longhaul::model {
namespace {

// Δ is never clamped from below 0 or from above, which transformers writes as [0.0, Infinity].
void read_step_limit(ConfigReader& reader) {
  constexpr const char* kKey = "time_step_limit";
  const nlohmann::json* const found = reader.any(kKey);
  if (found == nullptr) return;
  const nlohmann::json& limit = *found;
  const auto infinite = [](const nlohmann::json& value) {
    return value.is_null() || (value.is_object() && value.value("__float__", "") == "Infinity");
  };
  const bool open = limit.is_array() && limit.size() == 2 && limit[0].is_number() &&
                    limit[0].get<double>() <= 0 && infinite(limit[1]);
  if (!open) reader.refuse(kKey, "[0.0, Infinity]: steps are not clamped", limit.dump());
}

recipe::ModelConfig read_mamba2(ConfigReader& reader) {
  recipe::ModelConfig config;
  config.family = "mamba2";
  config.mixers = {recipe::Mixer::kMamba2};
  config.channel = recipe::Channel::kNone;
  config.position = recipe::Position::kNone;
  config.initialisation = recipe::Initialisation::kNormal;
  config.hidden = reader.integer("hidden_size");
  config.layers = reader.integer("num_hidden_layers");
  if (config.layers > 10'000)
    reader.refuse("num_hidden_layers", "at most 10000", std::to_string(config.layers));
  config.vocabulary = reader.integer("vocab_size", 2);
  config.heads = reader.integer_or("num_heads", 128);
  config.head_dim = reader.integer_or("head_dim", 64);
  const int64_t expand = reader.integer_or("expand", 2);
  if (config.heads * config.head_dim != expand * config.hidden) {
    reader.refuse("num_heads",
                  fmt::format("num_heads · head_dim = expand · hidden_size = {}", expand * config.hidden),
                  fmt::format("{} · {}", config.heads, config.head_dim));
  }
  config.mamba2.state = reader.integer_or("state_size", 128);
  config.mamba2.groups = config.mamba2.norm_groups = reader.integer_or("n_groups", 8);
  if (config.heads % config.mamba2.groups != 0) {
    reader.refuse("n_groups", fmt::format("a number that divides num_heads = {}", config.heads),
                  std::to_string(config.mamba2.groups));
  }
  config.mamba2.convolution = reader.integer_or("conv_kernel", 4);
  config.norm_eps = config.mamba2.norm_eps = reader.number_or("layer_norm_epsilon", 1e-5);
  config.tie_embeddings = reader.flag_or("tie_word_embeddings", false);
  config.initial_std = reader.number_or("initializer_range", 0.1);
  reader.must_be_one_of("hidden_act", {"silu", "swish"}, "silu");
  reader.must_be("use_bias", false, "projections have no biases");
  reader.must_be("use_conv_bias", true, "the convolution has a bias");
  reader.must_be("rms_norm", true, "the mixer ends with a norm");
  read_step_limit(reader);
  for (const char* of_training :
       {"rescale_prenorm_residual", "time_step_min", "time_step_max", "time_step_floor", "time_step_rank",
        "time_step_init_scheme", "time_step_scale"}) {
    reader.ignore(of_training);  // how weights begin
  }
  reader.must_be("intermediate_size", expand * config.hidden, "it is expand · hidden_size");
  reader.ignore("norm_before_gate");  // transformers has no such choice: the gate comes first
  for (const char* of_arithmetic : {"chunk_size", "residual_in_fp32"}) reader.ignore(of_arithmetic);
  return config;
}

void write_mamba2(const recipe::ModelConfig& config, nlohmann::ordered_json& json) {
  json["hidden_size"] = config.hidden;
  json["num_hidden_layers"] = config.layers;
  json["vocab_size"] = config.vocabulary;
  json["num_heads"] = config.heads;
  json["head_dim"] = config.head_dim;
  json["expand"] = config.heads * config.head_dim / config.hidden;
  json["state_size"] = config.mamba2.state;
  json["n_groups"] = config.mamba2.groups;
  json["conv_kernel"] = config.mamba2.convolution;
  json["layer_norm_epsilon"] = config.norm_eps;
  json["tie_word_embeddings"] = config.tie_embeddings;
  json["hidden_act"] = "silu";
  json["use_bias"] = false;
  json["use_conv_bias"] = true;
  json["time_step_limit"] = {0.0, {{"__float__", "Infinity"}}};
}

std::vector<PublicTensor> mamba2_tensors(const recipe::ModelConfig& config) {
  PublicTensors tensors(config, "bf16");
  tensors.whole("backbone.embeddings.weight", "embedding.weight");
  for (int64_t l = 0; l < config.layers; ++l) {
    const std::string layer = fmt::format("layers.{}.", l), ours = layer + "mixer.",
                      theirs = "backbone." + layer;
    const auto of = [&](std::initializer_list<const char*> names, const char* end) {
      std::vector<std::string> all;
      for (const char* name : names) all.push_back(ours + name + end);
      return all;
    };
    const auto convolved = {"value_convolution", "key_convolution", "query_convolution"};
    tensors.whole(theirs + "norm.weight", layer + "mixer_norm.weight");
    tensors.stacked(theirs + "mixer.in_proj.weight",
                    of({"gate", "value", "key", "query", "step"}, ".weight"));
    tensors.convolution(theirs + "mixer.conv1d.weight", of(convolved, ".weight"));
    tensors.stacked(theirs + "mixer.conv1d.bias", of(convolved, ".bias"));
    tensors.whole(theirs + "mixer.A_log", ours + "log_rate.weight");
    tensors.whole(theirs + "mixer.D", ours + "skip.weight");
    tensors.whole(theirs + "mixer.dt_bias", ours + "step_bias.weight");
    tensors.whole(theirs + "mixer.norm.weight", ours + "norm.weight");
    tensors.whole(theirs + "mixer.out_proj.weight", ours + "output.weight");
  }
  tensors.whole("backbone.norm_f.weight", "norm.weight");
  if (!config.tie_embeddings) tensors.whole("lm_head.weight", "head.weight");
  return tensors.take();
}

}  // namespace

extern const Family kMamba2;
const Family kMamba2{.name = "mamba2",
                     .model_types = {"mamba2"},
                     .architectures = {"Mamba2ForCausalLM"},
                     .title = "Mamba-2",
                     .read = read_mamba2,
                     .write = write_mamba2,
                     .layouts = {{"", mamba2_tensors}}};

}  // namespace longhaul::model
