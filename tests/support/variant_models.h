// In addition to small_models(): the other values of each linear mixer's options, in models of two or three
// layers, for properties that must hold for all of them (decoding equals the whole forward pass, packed
// documents, batches, prefixes).
#pragma once

#include "support/models.h"

namespace longhaul::testing {

// A model for every oscillation; from one to the next the activation, the source and fixed slopes change
// too. Softmax attention follows.
inline recipe::ModelConfig lcsm_of_type(recipe::LcsmOscillation oscillation) {
  const auto type = static_cast<size_t>(oscillation);
  recipe::ModelConfig config = small_config();
  config.layers = 2;
  config.mixers = {recipe::Mixer::kLcsm, recipe::Mixer::kSoftmax};
  config.lcsm.state = 3;
  config.lcsm.rank = 2;
  config.lcsm.tau = type % 2 == 1 && type <= 5 ? 0 : 2;
  config.lcsm.norm_eps = 0.1;  // as in gated_lineage()
  config.lcsm.oscillation = oscillation;
  config.lcsm.activation =
      static_cast<recipe::LcsmActivation>(type % names_of(recipe::LcsmActivation()).size());
  if (oscillation <= recipe::LcsmOscillation::kNone)
    (type % 2 == 0 ? config.lcsm.expand : config.lcsm.shrink) = recipe::LcsmSource::kFixed;
  return config;
}

inline recipe::ModelConfig cosformer_hybrid() {
  recipe::ModelConfig config = small_config();
  config.layers = 2;
  config.mixers = {recipe::Mixer::kCosformer, recipe::Mixer::kSoftmax};
  config.cosformer.longest = 1100;  // the longest text of these tests has fewer tokens
  return config;
}

// Real numbers without rotations, no positions, no norm weights; RetNet's own choice of widths.
inline recipe::ModelConfig plainer_lineage() {
  recipe::ModelConfig config = small_config();
  config.mixers = {recipe::Mixer::kLightnet, recipe::Mixer::kHgrn, recipe::Mixer::kRetnet};
  config.lightnet.positions = false;
  config.lightnet.norm_weight = false;
  config.hgrn.complex = false;
  config.lightnet.norm_eps = config.hgrn.norm_eps = config.retnet.norm_eps = 0.1;
  return config;
}

// Without the operations before and next to the recurrence, in groups, with feature maps.
inline recipe::ModelConfig gated_lineage_of_other_forms() {
  recipe::ModelConfig config = small_config();
  config.mixers = {recipe::Mixer::kMetala, recipe::Mixer::kMamba2, recipe::Mixer::kGla};
  config.metala = {.key_dim = 3, .convolution = 0, .temperature = 4, .norm_eps = 0.1, .gate_bias = false};
  config.mamba2 = {.state = 5, .groups = 2, .norm_groups = 2, .convolution = 1, .norm_eps = 0.1};
  config.gla.feature_map = recipe::FeatureMap::kSilu;
  config.gla.forget_rank = 2;
  config.gla.norm_eps = 0.1;
  return config;
}

// Keys as wide as values, with one head for all or one for each; convolutions of one tap and of two; a
// write strength of at most one.
inline recipe::ModelConfig delta_rules_of_other_forms() {
  recipe::ModelConfig config = small_config();
  config.mixers = {recipe::Mixer::kGatedDeltaNet, recipe::Mixer::kDeltaNet, recipe::Mixer::kKda};
  config.gated_deltanet = {.heads = 3, .head_dim = 6, .key_heads = 1, .convolution = 2, .norm_eps = 0.1};
  config.deltanet = {.convolution = 1, .output_gate = true, .norm_eps = 0.1};
  config.kda = {.convolution = 2, .negative_eigenvalues = true, .norm_eps = 0.1};
  return config;
}
inline recipe::ModelConfig gated_deltanet_alone() {
  recipe::ModelConfig config = small_config();
  config.layers = 2;
  config.mixers = {recipe::Mixer::kGatedDeltaNet};
  config.gated_deltanet = {.key_dim = 10, .convolution = 1, .negative_eigenvalues = true, .norm_eps = 0.1};
  return config;
}

inline recipe::ModelConfig tnl_of_slopes(recipe::TnlSlopes slopes) {
  recipe::ModelConfig config = tnl_like();
  config.layers = 2;
  config.heads = 6;
  config.tnl.slopes = slopes;
  config.tnl.layer_temperature = slopes != recipe::TnlSlopes::kFla;
  config.tnl.value_silu = slopes == recipe::TnlSlopes::kPaper;
  config.tnl.gate = slopes != recipe::TnlSlopes::kXmixers;
  config.tnl.positions = slopes != recipe::TnlSlopes::kPaper;
  config.tnl.norm_eps = 0.1;
  return config;
}
// The second version of TransNormerLLM with positions in its first layer.
inline recipe::ModelConfig tnl_v2() {
  recipe::ModelConfig config = tnl_like();
  config.layers = 2;
  config.tnl.version = recipe::TnlVersion::kV2;
  config.tnl.norm_eps = 0.1;
  return config;
}

inline std::vector<NamedConfig> variant_models() {
  std::vector<NamedConfig> all = {{"cosformer_hybrid", cosformer_hybrid()},
                                  {"plainer_lineage", plainer_lineage()},
                                  {"gated_lineage_of_other_forms", gated_lineage_of_other_forms()},
                                  {"delta_rules_of_other_forms", delta_rules_of_other_forms()},
                                  {"gated_deltanet_alone", gated_deltanet_alone()},
                                  {"tnl_v2", tnl_v2()}};
  for (const auto slopes :
       {recipe::TnlSlopes::kPaper, recipe::TnlSlopes::kFla, recipe::TnlSlopes::kXmixers}) {
    all.push_back(
        {"tnl_slopes_" + std::string(names_of(slopes)[static_cast<size_t>(slopes)]), tnl_of_slopes(slopes)});
  }
  for (size_t type = 0; type < names_of(recipe::LcsmOscillation()).size(); ++type) {
    const auto oscillation = static_cast<recipe::LcsmOscillation>(type);
    all.push_back({"lcsm_" + std::string(names_of(oscillation)[type]), lcsm_of_type(oscillation)});
  }
  return all;
}

// Those variants whose states are of kinds that small_models() lacks, for suites that take seconds.
inline std::vector<NamedConfig> variants_of_states() {
  return {{"cosformer_hybrid", cosformer_hybrid()},
          {"plainer_lineage", plainer_lineage()},
          {"lcsm_rotation", lcsm_of_type(recipe::LcsmOscillation::kRotation)},
          {"lcsm_cumulative", lcsm_of_type(recipe::LcsmOscillation::kCumulative)}};
}

}  // namespace longhaul::testing
