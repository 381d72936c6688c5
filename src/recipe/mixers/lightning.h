// Lightning attention as in MiniMax-01 (docs/sources/minimax-01.md §2.2, arXiv 2501.08313). Its module is model/mixers/lightning_attention.h.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace longhaul::recipe {

struct SequenceMixerEntry;
extern const SequenceMixerEntry kLightningMixer;

enum class LayerFactor { kOfficial, kHuggingFace };  // of the decay slopes, docs/sources/minimax-01.md §2.2
std::vector<std::string_view> names_of(LayerFactor);
enum class BaseSlopes { kAsLayerFactor, kOfficial, kHuggingFace };  // of heads that are no power of two
std::vector<std::string_view> names_of(BaseSlopes);

// What the state is kept in: the wide type of sums, or, with slopes and decays rounded too, the model's own, as transformers does (docs/sources/minimax-01.md §2.2).
enum class LightningState { kWide, kModel };
std::vector<std::string_view> names_of(LightningState);

struct LightningOptions {
  double norm_eps = 1e-6;  // of the norm over all heads
  LayerFactor layer_factor = LayerFactor::kOfficial;
  BaseSlopes base_slopes = BaseSlopes::kAsLayerFactor;
  LightningState state = LightningState::kWide;
  bool silu_wide = false;      // silu of queries, keys and values, and all behind it up to the norm, in the wide type (vLLM)
  double alpha = 0, beta = 0;  // residual factors behind these layers; 0: model.alpha and model.beta

  bool plain_slopes() const;  // 2^(−8(h+1)/H) whatever H is; else those of the powers of two around it
  bool operator==(const LightningOptions&) const = default;
};

}  // namespace longhaul::recipe
