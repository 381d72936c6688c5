// LightNet, causal (arXiv 2405.21022; linear-attention.md §8): keys that are a softmax over the tokens so far, and the decay that follows from it.
// docs/models/lightnet.md.
#pragma once

#include <cstdint>

namespace longhaul::recipe {

struct SequenceMixerEntry;
struct ModelConfig;
struct RecurrentPlan;
extern const SequenceMixerEntry kLightnetMixer;

struct LightnetOptions {
  int64_t expand = 0;      // key channels of a head; 0: as many as it has value channels
  bool positions = false;  // queries and keys turned by positions
  int64_t gate_rank = 0;   // 0: model.head_dim
  bool norm_weight = true;
  double norm_eps = 1e-5;
  bool operator==(const LightnetOptions&) const = default;
};

RecurrentPlan lightnet_plan(const ModelConfig& model);

}  // namespace longhaul::recipe
