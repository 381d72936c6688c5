// cosFormer (arXiv 2202.08791) and cosFormer2 (2406.16690; docs/sources/linear-attention.md §6): linear
// attention without decay whose products of queries and keys are weighted by the cosine of their distance.
// docs/models/cosformer.md.
#pragma once

#include <cstdint>

namespace longhaul::recipe {

struct SequenceMixerEntry;
struct ModelConfig;
struct RecurrentPlan;
extern const SequenceMixerEntry kCosformerMixer;
extern const SequenceMixerEntry kCosformer2Mixer;

struct CosformerOptions {
  // M: the distance in tokens at which the cosine reaches 0; no sequence may be longer.
  int64_t longest = 4096;
  bool operator==(const CosformerOptions&) const = default;
};

struct Cosformer2Options {
  double base = 10000;    // of the frequencies
  int64_t gate_rank = 0;  // 0: model.head_dim
  double norm_eps = 1e-6;
  bool operator==(const Cosformer2Options&) const = default;
};

RecurrentPlan cosformer_plan(const ModelConfig& model);
RecurrentPlan cosformer2_plan(const ModelConfig& model);

}  // namespace longhaul::recipe
