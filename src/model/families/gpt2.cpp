// GPT-2 (Radford et al. 2019), fp32. Matrices are stored [in, out], the transpose of ours; query, key and
// value are one matrix. The released files have no prefix, those that transformers writes have "transformer."
// before all names but the head's. Causal masks that some files hold are buffers, not parameters.
#include <fmt/format.h>

#include "model/families/builder.h"
#include "model/families/config_reader.h"
#include "model/families/families.h"

namespace longhaul::model {
namespace {

recipe::ModelConfig read_gpt2(ConfigReader& reader) {
  recipe::ModelConfig config;
  config.family = "gpt2";
  config.mixers = {recipe::Mixer::kSoftmax};
  config.hidden = reader.integer("n_embd");
  config.layers = reader.integer("n_layer");
  config.heads = config.softmax.kv_heads = reader.integer("n_head");
  if (config.hidden % config.heads != 0) {
    reader.refuse("n_head", fmt::format("a number that divides n_embd = {}", config.hidden),
                  std::to_string(config.heads));
  }
  config.head_dim = config.hidden / config.heads;
  config.vocabulary = reader.integer("vocab_size", 2);
  config.max_positions = reader.integer("n_positions");
  config.intermediate = reader.integer_or("n_inner", 4 * config.hidden);
  config.norm_eps = reader.number_or("layer_norm_epsilon", 1e-5);
  config.initial_std = reader.number_or("initializer_range", 0.02);
  config.tie_embeddings = reader.flag_or("tie_word_embeddings", true);
  config.norm = recipe::Norm::kLayer;
  config.channel = recipe::Channel::kGelu;
  config.position = recipe::Position::kLearned;
  config.bias = true;
  config.initialisation = recipe::Initialisation::kNormal;
  reader.must_be_one_of("activation_function", {"gelu_new", "gelu_pytorch_tanh"}, "gelu_new");
  reader.must_be("n_ctx", config.max_positions, "n_ctx is another name for n_positions");
  reader.must_be("scale_attn_weights", true, "scores are divided by √head_dim");
  reader.must_be("scale_attn_by_inverse_layer_idx", false, "scores do not depend on the layer");
  reader.must_be("add_cross_attention", false, "the model attends to its own tokens");
  reader.ignore("reorder_and_upcast_attn");  // the order of the same operations
  for (const char* of_a_head :
       {"summary_activation", "summary_proj_to_labels", "summary_type", "summary_use_proj"})
    reader.ignore(of_a_head);
  return config;
}

void write_gpt2(const recipe::ModelConfig& config, nlohmann::ordered_json& json) {
  json["n_embd"] = config.hidden;
  json["n_layer"] = config.layers;
  json["n_head"] = config.heads;
  json["vocab_size"] = config.vocabulary;
  json["n_positions"] = config.max_positions;
  if (json.contains("n_ctx")) json["n_ctx"] = config.max_positions;
  json["n_inner"] = config.intermediate == 4 * config.hidden ? nlohmann::ordered_json()
                                                             : nlohmann::ordered_json(config.intermediate);
  json["layer_norm_epsilon"] = config.norm_eps;
  json["tie_word_embeddings"] = config.tie_embeddings;
  json["activation_function"] = "gelu_new";
}

std::vector<PublicTensor> tensors_below(const recipe::ModelConfig& config, const std::string& prefix) {
  PublicTensors tensors(config, "fp32");
  const auto both = [&](const std::string& theirs, const std::string& ours) {
    tensors.whole(theirs + ".weight", ours + ".weight");
    tensors.whole(theirs + ".bias", ours + ".bias");
  };
  const auto linear = [&](const std::string& theirs, const std::string& ours) {
    tensors.transposed(theirs + ".weight", {ours + ".weight"});
    tensors.whole(theirs + ".bias", ours + ".bias");
  };
  tensors.whole(prefix + "wte.weight", "embedding.weight");
  tensors.whole(prefix + "wpe.weight", "position.weight");
  for (int64_t l = 0; l < config.layers; ++l) {
    const std::string ours = fmt::format("layers.{}.", l), theirs = fmt::format("{}h.{}.", prefix, l),
                      mixer = ours + "mixer.";
    both(theirs + "ln_1", ours + "mixer_norm");
    tensors.transposed(theirs + "attn.c_attn.weight",
                       {mixer + "query.weight", mixer + "key.weight", mixer + "value.weight"});
    tensors.stacked(theirs + "attn.c_attn.bias",
                    {mixer + "query.bias", mixer + "key.bias", mixer + "value.bias"});
    linear(theirs + "attn.c_proj", mixer + "output");
    both(theirs + "ln_2", ours + "channel_norm");
    linear(theirs + "mlp.c_fc", ours + "channel.up");
    linear(theirs + "mlp.c_proj", ours + "channel.down");
  }
  both(prefix + "ln_f", "norm");
  if (!config.tie_embeddings) tensors.whole("lm_head.weight", "head.weight");
  return tensors.take();
}

std::vector<PublicTensor> released(const recipe::ModelConfig& config) { return tensors_below(config, ""); }
std::vector<PublicTensor> prefixed(const recipe::ModelConfig& config) {
  return tensors_below(config, "transformer.");
}

}  // namespace

extern const Family kGpt2;
const Family kGpt2{.name = "gpt2",
                   .model_types = {"gpt2"},
                   .architectures = {"GPT2LMHeadModel", "GPT2Model"},
                   .title = "GPT-2",
                   .read = read_gpt2,
                   .write = write_gpt2,
                   .layouts = {{"", released}, {"transformer.", prefixed}},
                   .is_buffer = [](std::string_view name) {
                     return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
                   }};

}  // namespace longhaul::model
