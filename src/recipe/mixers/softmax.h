// Softmax attention: grouped queries (arXiv 2305.13245), positions by rotation of the first channels of each head (2104.09864). Its module
// is model/softmax_attention.h.
#pragma once

#include <cstdint>

namespace longhaul::recipe {

struct SequenceMixerEntry;
extern const SequenceMixerEntry kSoftmaxMixer;

struct SoftmaxOptions {
  int64_t kv_heads = 8;     // divides heads
  int64_t rotary_dim = 64;  // first channels of each head; NeoX pairs (j, j + rotary_dim/2)
  double rotary_base = 10000;
  bool operator==(const SoftmaxOptions&) const = default;
};

}  // namespace longhaul::recipe
