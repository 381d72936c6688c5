// RetNet (arXiv 2307.08621): linear attention with rotary positions, a fixed decay per head, values twice as
// wide as keys, a norm of each head and a silu gate. docs/models/retnet.md.
#pragma once

#include <cstdint>

namespace longhaul::recipe {

struct SequenceMixerEntry;
struct ModelConfig;
struct RecurrentPlan;
extern const SequenceMixerEntry kRetnetMixer;

struct RetnetOptions {
  int64_t value_dim = 0;  // value channels of a head; 0: twice model.head_dim
  double rotary_base = 10000;
  bool norm_weight = false;
  double norm_eps = 1e-5;
  bool operator==(const RetnetOptions&) const = default;
};

RecurrentPlan retnet_plan(const ModelConfig& model);

}  // namespace longhaul::recipe
