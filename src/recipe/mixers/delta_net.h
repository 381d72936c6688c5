// Mixers whose state is corrected by the delta rule before each write (kernels/delta_rule): DeltaNet without
// other forgetting (arXiv 2406.06484), Gated DeltaNet with a decay per head (2412.06464), and Kimi Delta
// Attention with a decay per key channel (2510.26692). Their modules, and the equations, are in
// model/mixers/delta_net.h.
#pragma once

#include <cstdint>

namespace longhaul::recipe {

struct SequenceMixerEntry;
extern const SequenceMixerEntry kGatedDeltaNetMixer;
extern const SequenceMixerEntry kKdaMixer;
extern const SequenceMixerEntry kDeltaNetMixer;

struct GatedDeltaNetOptions {
  int64_t heads = 0, head_dim = 0;  // of values; 0: model.heads and model.head_dim
  // of queries and keys; divides model.heads, the number of value heads; 0: as many
  int64_t key_heads = 0;
  int64_t key_dim = 0;  // channels of a key; 0: as many as a value has
  int64_t convolution = 4;
  bool negative_eigenvalues = false;
  double norm_eps = 1e-5;
  bool operator==(const GatedDeltaNetOptions&) const = default;
};

struct KdaOptions {
  int64_t key_dim = 0;  // channels of a key; 0: as many as a value has
  int64_t rank = 0;     // rank of the forget and the output gate; 0: the number of a value's channels
  int64_t convolution = 4;
  bool negative_eigenvalues = false;
  double norm_eps = 1e-5;
  bool operator==(const KdaOptions&) const = default;
};

struct DeltaNetOptions {
  int64_t key_dim = 0;  // channels of a key; 0: as many as a value has
  int64_t convolution = 4;
  bool output_gate = false;
  bool negative_eigenvalues = false;
  double norm_eps = 1e-5;
  bool operator==(const DeltaNetOptions&) const = default;
};

}  // namespace longhaul::recipe
