// LightNet (arXiv 2405.21022; docs/sources/linear-attention.md §8): its keys are a softmax over the tokens so
// far, and its decay follows from it; in a model that is not causal the softmax is over all tokens of a
// document. docs/models/lightnet.md.
#pragma once

#include <cstdint>
#include <vector>

namespace longhaul::recipe {

struct SequenceMixerEntry;
struct ModelConfig;
struct RecurrentPlan;
extern const SequenceMixerEntry kLightnetMixer;

struct LightnetOptions {
  int64_t expand = 0;      // key channels of a head; 0: as many as it has value channels
  bool positions = false;  // queries and keys are rotated by positions
  // Positions are places on a grid with so many tokens along each axis, last axis innermost, after the
  // separator; empty: positions in a line.
  std::vector<int64_t> grid;
  int64_t gate_rank = 0;  // 0: model.head_dim
  bool norm_weight = true;
  double norm_eps = 1e-5;
  int64_t tokens_of_grid() const;  // 0: there is none
  bool operator==(const LightnetOptions&) const = default;
};

RecurrentPlan lightnet_plan(const ModelConfig& model);

}  // namespace longhaul::recipe
