// Lightning attention as in MiniMax-01 (docs/sources/minimax-01.md §2.2, arXiv 2501.08313). Its module is
// model/mixers/lightning_attention.h.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace longhaul::recipe {

struct SequenceMixerEntry;
extern const SequenceMixerEntry kLightningMixer;

// Factor of the decay slopes, docs/sources/minimax-01.md §2.2.
enum class LayerFactor { kOfficial, kHuggingFace };
std::vector<std::string_view> names_of(LayerFactor);
// For a number of heads that is no power of two.
enum class BaseSlopes { kAsLayerFactor, kOfficial, kHuggingFace };
std::vector<std::string_view> names_of(BaseSlopes);

// The type of the state: the wide type of sums, or the model's own, with slopes and decays rounded too, as
// transformers does (docs/sources/minimax-01.md §2.2).
enum class LightningState { kWide, kModel };
std::vector<std::string_view> names_of(LightningState);

struct LightningOptions {
  double norm_eps = 1e-6;  // for the norm over all heads
  LayerFactor layer_factor = LayerFactor::kOfficial;
  BaseSlopes base_slopes = BaseSlopes::kAsLayerFactor;
  LightningState state = LightningState::kWide;
  // Silu of queries, keys and values, and all that follows up to the norm, in the wide type (vLLM).
  bool silu_wide = false;
  double alpha = 0, beta = 0;  // residual factors after these layers; 0: model.alpha and model.beta

  bool plain_slopes() const;  // 2^(−8(h+1)/H) for any H; else the slopes of the neighbouring powers of two
  bool operator==(const LightningOptions&) const = default;
};

}  // namespace longhaul::recipe
