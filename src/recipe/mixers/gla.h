// Gated linear attention (GLA, arXiv 2312.06635): a decay of each key channel from a gate of low rank, half as many keys as values, a norm of each head
// and a silu gate. docs/models/gla.md.
#pragma once

#include <cstdint>

namespace longhaul::recipe {

struct SequenceMixerEntry;
struct ModelConfig;
struct RecurrentPlan;
extern const SequenceMixerEntry kGlaMixer;

struct GlaOptions {
  int64_t key_dim = 0;  // key channels of a head; 0: half of model.head_dim
  int64_t forget_rank = 16;
  double temperature = 16;  // τ of logσ(x)/τ
  double norm_eps = 1e-5;
  bool operator==(const GlaOptions&) const = default;
};

RecurrentPlan gla_plan(const ModelConfig& model);

}  // namespace longhaul::recipe
