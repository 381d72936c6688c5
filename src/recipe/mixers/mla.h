// Multi-head latent attention (MLA, DeepSeek-V2, arXiv 2405.04434 §2.1): keys and values of all heads are
// computed from one latent vector per token. Decoding keeps only that vector and one rotated key that all
// heads share. Its module, and the equations, are in model/mixers/latent_attention.h.
#pragma once

#include <cstdint>

namespace longhaul::recipe {

struct ModelConfig;
struct SequenceMixerEntry;
extern const SequenceMixerEntry kMlaMixer;

struct MlaOptions {
  int64_t kv_rank = 0;  // channels of the latent; 0: four times model.head_dim
  // Channels of the latent from which queries are computed; 0: they are computed from the layer's input.
  int64_t query_rank = 0;
  // Channels of a head's query and key that are computed from latents; 0: model.head_dim.
  int64_t key_dim = 0;
  // Channels in addition to these of a query, and of the one key that all heads share; 0: none.
  int64_t rotary_dim = 64;
  int64_t value_dim = 0;   // 0: model.head_dim
  double norm_eps = 1e-6;  // for the latents' norms
  bool operator==(const MlaOptions&) const = default;
};

// The same with every 0 replaced by its meaning.
MlaOptions mla_sizes(const ModelConfig& model);

}  // namespace longhaul::recipe
