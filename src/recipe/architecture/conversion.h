// Conversion of a softmax transformer into a model whose layers have other mixers (SpikingBrain, arXiv
// 2509.05276; docs/sources/spikingbrain.md §2.3). Here a list of layers becomes the new model's
// configuration; checkpoint/published/conversion.h says which weights it begins with. Plain data.
//
//   window*1,gla*1     attention with a window in the first layer of each pair, gated linear attention in the
//                      second
//
// The list is repeated over the layers, so its length must divide their number. What a layer may become:
//
//   softmax          stays as it is
//   window[:KEYS]    attention over the last KEYS keys (4096 if not said), the token itself among them
//   gla              gated linear attention: ReLU of queries and keys, a gate of rank 16 (SpikingBrain-7B)
//   lightning        linear attention with a fixed decay for each head (MiniMax-01)
//   hgrn2            keys are one minus the forget gate, whose logits begin as the negative keys
//   gated_deltanet   the delta rule with a decay for each head
//   mixture          softmax attention beside gla with tied keys, each normalised (SpikingBrain-76B). It
//                    cannot stand in one list with gla, because a model has one set of options for both
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "recipe/architecture/model_config.h"

namespace longhaul::recipe {

struct Conversion {
  std::vector<Mixer> mixers;     // of the layers of one round of the list
  std::vector<int64_t> windows;  // of the same layers; 0: none
  std::string text;              // as it was given
};

// `rules`: a list as above, or the path of a TOML file with `layers = "…"`. kUsage: an item is not
// understood.
Conversion read_conversion(const std::string& rules);

// The model that `dense` becomes: options of the new mixers are set so that its projections fit. kUsage: it
// is no softmax transformer (some layer has another mixer already), or the list does not fit its layers.
ModelConfig converted(const ModelConfig& dense, const Conversion& conversion);

// What a softmax layer may become, for `convert --list`.
struct ConversionKind {
  std::string_view name;
  std::string_view copied;  // what the new layer takes over
  std::string_view added;   // what begins anew
  std::string_view lost;    // what the softmax layer did and this one does not
};
const std::vector<ConversionKind>& conversion_kinds();

}  // namespace longhaul::recipe
