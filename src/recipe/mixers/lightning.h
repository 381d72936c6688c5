// Lightning attention as in MiniMax-01 (minimax-01.md §2.2, arXiv 2501.08313). Its module is model/lightning_attention.h.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace longhaul::recipe {

struct SequenceMixerEntry;
extern const SequenceMixerEntry kLightningMixer;

enum class LayerFactor { kOfficial, kHuggingFace };  // of the decay slopes, minimax-01.md §2.2
std::vector<std::string_view> names_of(LayerFactor);

struct LightningOptions {
  double norm_eps = 1e-6;  // of the norm over all heads
  LayerFactor layer_factor = LayerFactor::kOfficial;
  bool operator==(const LightningOptions&) const = default;
};

}  // namespace longhaul::recipe
