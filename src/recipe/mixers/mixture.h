// A softmax branch and a linear branch side by side in one layer (SpikingBrain-76B, arXiv 2509.05276 §2;
// docs/sources/spikingbrain.md §2.2). Both read the layer's input, each with its own matrices, and their
// outputs are summed, each after a norm of its own. Its module is model/mixers/mixture.h.
#pragma once

#include "recipe/mixers/names.h"

namespace longhaul::recipe {

struct SequenceMixerEntry;
extern const SequenceMixerEntry kMixtureMixer;

struct MixtureOptions {
  Mixer linear = Mixer::kGla;    // mixer of the branch next to softmax attention
  bool norm = true;              // RMS norm of each branch's output, over the hidden channels
  bool learned_weights = false;  // o = w₁ softmax + w₂ linear, w initially one
  bool operator==(const MixtureOptions&) const = default;
};

}  // namespace longhaul::recipe
