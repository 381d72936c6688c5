// A softmax branch and a linear one beside each other in one layer (SpikingBrain-76B, arXiv 2509.05276 §2; docs/sources/spikingbrain.md §2.2): both read the layer's
// input, each with its own matrices, and their outputs are summed, each behind a norm of its own. Its module is model/mixers/mixture.h.
#pragma once

#include "recipe/mixers/names.h"

namespace longhaul::recipe {

struct SequenceMixerEntry;
extern const SequenceMixerEntry kMixtureMixer;

struct MixtureOptions {
  Mixer linear = Mixer::kGla;    // of the branch beside softmax attention
  bool norm = true;              // RMS norm of each branch's output, over the hidden channels
  bool learned_weights = false;  // o = w₁ softmax + w₂ linear, w ones at first
  bool operator==(const MixtureOptions&) const = default;
};

}  // namespace longhaul::recipe
