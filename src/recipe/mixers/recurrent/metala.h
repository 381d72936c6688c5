// MetaLA (arXiv 2411.10741; docs/sources/linear-attention.md §9): it has no key projection, k = 1 − decay; a
// short convolution before, and a term that depends on each token only. docs/models/metala.md.
#pragma once

#include <cstdint>

namespace longhaul::recipe {

struct SequenceMixerEntry;
struct ModelConfig;
struct RecurrentPlan;
extern const SequenceMixerEntry kMetalaMixer;

struct MetalaOptions {
  int64_t key_dim = 0;      // key channels of a head; 0: half of model.head_dim
  int64_t convolution = 4;  // taps; 0: none
  double temperature = 16;
  double norm_eps = 1e-5;
  bool gate_bias = true;  // for the output gate
  bool operator==(const MetalaOptions&) const = default;
};

RecurrentPlan metala_plan(const ModelConfig& model);

}  // namespace longhaul::recipe
