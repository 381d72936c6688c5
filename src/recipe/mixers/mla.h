// Multi-head latent attention (MLA, DeepSeek-V2, arXiv 2405.04434 §2.1): keys and values of all heads are made of one latent vector a token, which
// is all that decoding keeps of it, beside one key that all heads share and that alone is rotated. Its module, and the equations, are in
// model/mixers/latent_attention.h.
#pragma once

#include <cstdint>

namespace longhaul::recipe {

struct ModelConfig;
struct SequenceMixerEntry;
extern const SequenceMixerEntry kMlaMixer;

struct MlaOptions {
  int64_t kv_rank = 0;      // channels of the latent; 0: four times model.head_dim
  int64_t query_rank = 0;   // of the latent that queries are made of; 0: they are made of the layer's input
  int64_t key_dim = 0;      // channels of a head's query and key that are made of latents; 0: model.head_dim
  int64_t rotary_dim = 64;  // of a query, and of the one key that all heads share, beside them; 0: none
  int64_t value_dim = 0;    // 0: model.head_dim
  double norm_eps = 1e-6;   // of the latents' norms
  bool operator==(const MlaOptions&) const = default;
};

// The same with every 0 resolved that stands for something else.
MlaOptions mla_sizes(const ModelConfig& model);

}  // namespace longhaul::recipe
