// Small models for tests: one of each kind that the code distinguishes, with every parameter away from its
// special values.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "model/context.h"
#include "model/decoder.h"
#include "model/parallel_ops.h"
#include "support/tensors.h"

namespace longhaul::testing {

struct NamedConfig {
  std::string name;
  recipe::ModelConfig config;
};
inline void PrintTo(const NamedConfig& named, std::ostream* out) { *out << named.name; }

inline recipe::ModelConfig small_config() {
  recipe::ModelConfig config;
  config.layers = 3;
  config.hidden = 16;
  config.vocabulary = 29;
  config.heads = 4;
  config.softmax.kv_heads = 2;
  config.head_dim = 8;
  config.intermediate = 12;
  config.softmax.rotary_dim = 4;
  return config;
}

// A small MiniMax-Text-01: both mixers, experts, rotary positions, DeepNorm wiring.
inline recipe::ModelConfig hybrid_experts_post_norm() {
  recipe::ModelConfig config = small_config();
  config.mixers = {recipe::Mixer::kLightning, recipe::Mixer::kLightning, recipe::Mixer::kSoftmax};
  config.experts = 4;
  config.experts_per_token = 2;
  config.auxiliary_loss = 0.05;
  config.z_loss = 0.01;
  config.wiring = recipe::Wiring::kPostNorm;
  config.beta = 0.9;
  return config;
}

inline recipe::ModelConfig hybrid_pre_norm_tied() {
  recipe::ModelConfig config = small_config();
  config.mixers = {recipe::Mixer::kSoftmax, recipe::Mixer::kLightning};
  config.tie_embeddings = true;
  config.heads = 3;  // not a power of two
  config.softmax.kv_heads = 1;
  return config;
}

// Two HGRN2 layers and a softmax layer; the number of key channels differs from that of value channels.
inline recipe::ModelConfig hgrn2_hybrid() {
  recipe::ModelConfig config = small_config();
  config.mixers = {recipe::Mixer::kHgrn2, recipe::Mixer::kHgrn2, recipe::Mixer::kSoftmax};
  config.hgrn2.expand = 6;
  return config;
}

// Both delta rules and a softmax layer; each key head serves two value heads, and key channels differ in
// number from value channels.
inline recipe::ModelConfig delta_hybrid() {
  recipe::ModelConfig config = small_config();
  config.mixers = {recipe::Mixer::kGatedDeltaNet, recipe::Mixer::kKda, recipe::Mixer::kSoftmax};
  config.gated_deltanet.key_heads = 2;
  config.gated_deltanet.key_dim = 6;
  config.gated_deltanet.negative_eigenvalues = true;
  config.kda.key_dim = 4;
  config.kda.rank = 5;
  config.kda.convolution = 3;
  return config;
}

// DeltaNet without decays; key channels differ in number from value channels; write strengths of up to two.
inline recipe::ModelConfig delta_without_decay() {
  recipe::ModelConfig config = small_config();
  config.mixers = {recipe::Mixer::kDeltaNet, recipe::Mixer::kSoftmax};
  config.deltanet.key_dim = 6;
  config.deltanet.negative_eigenvalues = true;
  return config;
}

// The expand-oscillation-shrink form in its default, between softmax layers.
inline recipe::ModelConfig lcsm_hybrid() {
  recipe::ModelConfig config = small_config();
  config.mixers = {recipe::Mixer::kLcsm, recipe::Mixer::kLcsm, recipe::Mixer::kSoftmax};
  config.lcsm.state = 5;
  config.lcsm.tau = 3;
  config.lcsm.norm_eps = 0.1;  // as in gated_lineage()
  return config;
}

// Both mixers of a layer read one norm, with biases.
inline recipe::ModelConfig parallel_blocks() {
  recipe::ModelConfig config = small_config();
  config.mixers = {recipe::Mixer::kSoftmax, recipe::Mixer::kLightning, recipe::Mixer::kHgrn2};
  config.wiring = recipe::Wiring::kParallel;
  config.channel = recipe::Channel::kGelu;
  config.norm = recipe::Norm::kLayer;
  config.bias = true;
  return config;
}

inline recipe::ModelConfig gpt2_like() {
  recipe::ModelConfig config = small_config();
  config.family = "gpt2";
  config.layers = 2;
  config.softmax.kv_heads = 4;
  config.head_dim = 4;
  config.channel = recipe::Channel::kGelu;
  config.norm = recipe::Norm::kLayer;
  config.position = recipe::Position::kLearned;
  config.max_positions = 24;
  config.bias = true;
  config.tie_embeddings = true;
  return config;
}

inline recipe::ModelConfig llama_like() {
  recipe::ModelConfig config = small_config();
  config.family = "llama";
  config.layers = 2;
  config.softmax.rotary_dim = 8;
  return config;
}

// TransNormerLLM: simple norms, GLU without activation, positions in the first layer.
inline recipe::ModelConfig tnl_like() {
  recipe::ModelConfig config = small_config();
  config.mixers = {recipe::Mixer::kTnl};
  config.norm = recipe::Norm::kSimpleRms;
  config.channel = recipe::Channel::kGlu;
  config.tie_embeddings = true;
  return config;
}

// One layer of each other mixer with a fixed decay or none, after a Toeplitz encoding; a cosFormer2 layer
// comes first. cosFormer is left out, because its layers are fp32 whatever the model's dtype is.
inline recipe::ModelConfig fixed_decay_lineage() {
  recipe::ModelConfig config = small_config();
  config.mixers = {recipe::Mixer::kCosformer2, recipe::Mixer::kRetnet, recipe::Mixer::kTnl};
  config.toeplitz = 5;
  config.tnl.version = recipe::TnlVersion::kV2;
  config.tnl.gate_rank = 5;
  config.retnet.value_dim = 6;
  config.retnet.norm_weight = true;
  config.cosformer2.norm_eps = config.retnet.norm_eps = config.tnl.norm_eps = 0.1;  // as in gated_lineage()
  return config;
}

// One layer of each kind whose decay depends on the data.
inline recipe::ModelConfig gated_lineage() {
  recipe::ModelConfig config = small_config();
  config.mixers = {recipe::Mixer::kGla, recipe::Mixer::kLightnet, recipe::Mixer::kMetala};
  config.gla.forget_rank = 3;
  config.lightnet.expand = 6;
  config.lightnet.gate_rank = 5;
  config.lightnet.positions = true;
  config.gla.norm_eps = config.lightnet.norm_eps = config.metala.norm_eps =
      0.1;  // the values of heads with few channels are nearly zero: bf16 would show noise
  return config;
}

// Every token reads its whole document.
inline recipe::ModelConfig without_order() {
  recipe::ModelConfig config = small_config();
  config.mixers = {recipe::Mixer::kLightnet, recipe::Mixer::kSoftmax};
  config.causal = false;
  config.lightnet.expand = 6;
  config.lightnet.gate_rank = 5;
  config.lightnet.positions = true;
  config.lightnet.norm_eps = 0.1;  // as in gated_lineage()
  return config;
}

// Mamba-2 without channel mixers.
inline recipe::ModelConfig mamba2_like() {
  recipe::ModelConfig config = small_config();
  config.layers = 2;
  config.mixers = {recipe::Mixer::kMamba2};
  config.channel = recipe::Channel::kNone;
  config.mamba2.state = 6;
  config.tie_embeddings = true;
  return config;
}

inline recipe::ModelConfig hgrn_hybrid() {
  recipe::ModelConfig config = small_config();
  config.mixers = {recipe::Mixer::kHgrn, recipe::Mixer::kHgrn, recipe::Mixer::kSoftmax};
  return config;
}

// Norms and biases of queries and keys, a window in one of two layers, rotary frequencies of Llama 3.
inline recipe::ModelConfig qwen_like() {
  recipe::ModelConfig config = small_config();
  config.softmax.rotary_dim = 8;
  config.softmax.qk_norm = true;
  config.softmax.bias = recipe::AttentionBias::kQkv;
  config.softmax.windows = {0, 5};
  config.softmax.rotary_scaling = recipe::RotaryScaling::kLlama3;
  config.softmax.rotary_factor = 4;
  config.softmax.rotary_original = 16;
  config.tie_embeddings = true;
  return config;
}

// MiniMax as transformers reads it: its own slopes, rotation of all channels, factors for each kind of
// mixer.
inline recipe::ModelConfig minimax_hf_like() {
  recipe::ModelConfig config = hybrid_experts_post_norm();
  config.family = "minimax_hf";
  config.heads = 6;
  config.softmax.rotary_dim = 8;
  config.lightning.layer_factor = recipe::LayerFactor::kHuggingFace;
  config.softmax.alpha = 1.5;
  config.softmax.beta = 0.7;
  config.lightning.alpha = 2.5;
  config.channel_alpha = 1.25;
  config.channel_beta = 0.8;
  return config;
}

// Pre-norm with residual factors; biases in all of attention, frequencies scaled uniformly.
inline recipe::ModelConfig scaled_pre_norm() {
  recipe::ModelConfig config = small_config();
  config.mixers = {recipe::Mixer::kSoftmax, recipe::Mixer::kLightning};
  config.alpha = 1.3;
  config.beta = 0.6;
  config.softmax.bias = recipe::AttentionBias::kAll;
  config.softmax.rotary_scaling = recipe::RotaryScaling::kLinear;
  config.softmax.rotary_factor = 2.5;
  config.lightning.base_slopes = recipe::BaseSlopes::kHuggingFace;
  return config;
}

// A small SpikingBrain-76B: softmax attention with and without a window in parallel with gated linear
// attention with tied keys, experts in the first layer and a shared expert.
inline recipe::ModelConfig spiking_mixture() {
  recipe::ModelConfig config = small_config();
  config.mixers = {recipe::Mixer::kMixture};
  config.mixture.learned_weights = true;
  config.softmax.windows = {5, 5, 0};
  config.gla.key_heads = 2;
  config.gla.feature_map = recipe::FeatureMap::kSigmoid;
  config.gla.tied_keys = true;
  config.gla.temperature = 1;
  config.gla.output_gate = false;
  config.gla.norm_eps = 0.1;
  config.norm_eps = 0.1;  // the values of branches with few channels are nearly zero: bf16 would show noise
  config.experts = 2;
  config.experts_per_token = 1;
  config.router.normalised = false;
  config.dense_layers = {1, 2};
  config.dense_intermediate = 10;
  config.shared_experts = 1;
  return config;
}

// Branches without norms, and a linear mixer, also in a layer by itself, that has tensors shared by all
// layers and a special first layer.
inline recipe::ModelConfig mixture_of_tnl() {
  recipe::ModelConfig config = small_config();
  config.mixers = {recipe::Mixer::kMixture, recipe::Mixer::kTnl};
  config.mixture.linear = recipe::Mixer::kTnl;
  config.mixture.norm = false;
  config.tnl.norm_eps = 0.1;
  return config;
}

// A small SpikingBrain-7B: ReLU features, biases, fewer key/value heads than query heads.
inline recipe::ModelConfig spiking_linear() {
  recipe::ModelConfig config = small_config();
  config.mixers = {recipe::Mixer::kGla, recipe::Mixer::kSoftmax};
  config.softmax.windows = {5};
  config.softmax.bias = recipe::AttentionBias::kQkv;
  config.gla.key_dim = 8;
  config.gla.key_heads = 2;
  config.gla.forget_rank = 3;
  config.gla.feature_map = recipe::FeatureMap::kRelu;
  config.gla.output_gate = false;
  config.gla.bias = true;
  config.gla.norm_eps = 0.1;
  return config;
}

// A small Qwen3-Next: the delta rule has other heads than softmax attention, whose output is gated; shared
// experts with a gate.
inline recipe::ModelConfig gated_attention() {
  recipe::ModelConfig config = small_config();
  config.mixers = {recipe::Mixer::kGatedDeltaNet, recipe::Mixer::kSoftmax};
  config.gated_deltanet.heads = 6;
  config.gated_deltanet.key_heads = 2;
  config.gated_deltanet.head_dim = 4;
  config.softmax.output_gate = config.softmax.qk_norm = true;
  config.experts = 5;
  config.experts_per_token = 3;
  config.auxiliary_loss = 0.05;
  config.shared_experts = 1;
  config.shared_intermediate = 7;
  config.shared_gate = true;
  return config;
}

// A router like those of DeepSeek-V3 and Kimi: sigmoids, groups, a scale.
inline recipe::ModelConfig grouped_router() {
  recipe::ModelConfig config = small_config();
  config.experts = 4;
  config.experts_per_token = 2;
  config.auxiliary_loss = 0.05;
  config.z_loss = 0.01;
  config.router.score = recipe::RouterScore::kSigmoid;
  config.router.scale = 2.5;
  config.router.groups = 2;
  config.dense_layers = {0};
  config.shared_experts = 2;
  return config;
}

// A small DeepSeek-V2: latents for queries too, keys wider than values, a window in one of two layers.
inline recipe::ModelConfig latent_attention() {
  recipe::ModelConfig config = small_config();
  config.layers = 2;
  config.mixers = {recipe::Mixer::kMla};
  config.mla = {
      .kv_rank = 10, .query_rank = 6, .key_dim = 5, .rotary_dim = 4, .value_dim = 7, .norm_eps = 0.01};
  config.softmax.windows = {0, 5};
  return config;
}

// A small Kimi-Linear: latent attention without positions after the delta rule, a sigmoid router, and an
// odd number of heads and shared channels.
inline recipe::ModelConfig latent_hybrid() {
  recipe::ModelConfig config = grouped_router();
  config.mixers = {recipe::Mixer::kKda, recipe::Mixer::kKda, recipe::Mixer::kMla};
  config.heads = 3;
  config.position = recipe::Position::kNone;
  config.mla = {.rotary_dim = 3, .norm_eps = 0.01};
  return config;
}

// Latent attention with the latent only: no shared key.
inline recipe::ModelConfig latent_alone() {
  recipe::ModelConfig config = small_config();
  config.layers = 2;
  config.mixers = {recipe::Mixer::kMla, recipe::Mixer::kSoftmax};
  config.position = recipe::Position::kNone;
  config.mla = {.kv_rank = 9, .rotary_dim = 0, .norm_eps = 0.01};
  config.tie_embeddings = true;
  return config;
}

inline std::vector<NamedConfig> small_models() {
  return {{"hybrid_experts_post_norm", hybrid_experts_post_norm()},
          {"hybrid_pre_norm_tied", hybrid_pre_norm_tied()},
          {"hgrn2_hybrid", hgrn2_hybrid()},
          {"delta_hybrid", delta_hybrid()},
          {"delta_without_decay", delta_without_decay()},
          {"lcsm_hybrid", lcsm_hybrid()},
          {"parallel_blocks", parallel_blocks()},
          {"gpt2_like", gpt2_like()},
          {"llama_like", llama_like()},
          {"tnl_like", tnl_like()},
          {"fixed_decay_lineage", fixed_decay_lineage()},
          {"gated_lineage", gated_lineage()},
          {"mamba2_like", mamba2_like()},
          {"hgrn_hybrid", hgrn_hybrid()},
          {"qwen_like", qwen_like()},
          {"minimax_hf_like", minimax_hf_like()},
          {"scaled_pre_norm", scaled_pre_norm()},
          {"spiking_mixture", spiking_mixture()},
          {"mixture_of_tnl", mixture_of_tnl()},
          {"spiking_linear", spiking_linear()},
          {"gated_attention", gated_attention()},
          {"grouped_router", grouped_router()},
          {"latent_attention", latent_attention()},
          {"latent_hybrid", latent_hybrid()},
          {"latent_alone", latent_alone()}};
}

// A decoder that is initialised and then perturbed, so that norms are not all ones and biases not all
// zeros.
inline model::Decoder filled_decoder(const recipe::ModelConfig& config, const char* dtype = "fp64",
                                     uint64_t seed = 5) {
  model::Decoder decoder(config, Precision::named(dtype));
  decoder.parameters().initialise(seed);
  const at::NoGradGuard guard;
  for (const auto& parameter : decoder.parameters().all()) {
    parameter->value.add_(
        random_tensor(parameter->value.sizes(), ++seed).mul(0.1).to(parameter->value.scalar_type()));
  }
  return decoder;
}

inline std::vector<int64_t> random_ids(int64_t count, int64_t vocabulary, uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  const Tensor ids = at::randint(vocabulary, {count}, generator, at::TensorOptions().dtype(at::kLong));
  return {ids.const_data_ptr<int64_t>(), ids.const_data_ptr<int64_t>() + count};
}

inline Tensor id_tensor(const std::vector<int64_t>& ids) {
  return at::tensor(at::ArrayRef<int64_t>(ids), at::kLong);
}

}  // namespace longhaul::testing
