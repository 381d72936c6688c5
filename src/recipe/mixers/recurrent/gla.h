// Gated linear attention (GLA, arXiv 2312.06635): a decay for each key channel from a gate of low rank, half
// as many key channels as value channels, a norm of each head and a silu gate. docs/models/gla.md.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace longhaul::recipe {

struct SequenceMixerEntry;
struct ModelConfig;
struct RecurrentPlan;
extern const SequenceMixerEntry kGlaMixer;

enum class FeatureMap { kNone, kRelu, kSigmoid, kSilu };
std::vector<std::string_view> names_of(FeatureMap);

struct GlaOptions {
  int64_t key_dim = 0;  // key channels of a head; 0: half of model.head_dim
  int64_t forget_rank = 16;
  double temperature = 16;  // τ of logσ(x)/τ
  double norm_eps = 1e-5;
  // Forms of SpikingBrain (arXiv 2509.05276):
  // heads of keys, values and decays, one per group of query heads; 0: as many
  int64_t key_heads = 0;
  FeatureMap feature_map = FeatureMap::kNone;  // of queries and keys
  bool tied_keys = false;  // k = 1 − λ, λ = σ(x W)^{1/τ}: there is no key projection
  bool output_gate = true;
  bool bias = false;  // of queries, keys and values
  bool operator==(const GlaOptions&) const = default;
};

RecurrentPlan gla_plan(const ModelConfig& model);

}  // namespace longhaul::recipe
