// TransNormerLLM (arXiv 2307.14995; its second version 2401.04658, 2405.17381;
// docs/sources/linear-attention.md §3): linear attention with a fixed decay per head, rotated by learned
// positions in the model's first layer. docs/models/tnl.md.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace longhaul::recipe {

struct SequenceMixerEntry;
struct ModelConfig;
struct RecurrentPlan;
extern const SequenceMixerEntry kTnlMixer;

// v1: a gate from a projection of its own, u ⊙ norm(o). v2: a gate of low rank, norm(o) ⊙ σ(gate).
enum class TnlVersion { kV1, kV2 };
// Decay slopes, docs/sources/linear-attention.md §3.2: as in all released code (ALiBi's, smaller with depth),
// as printed in the paper, as in flash-linear-attention, or as in xmixers.
enum class TnlSlopes { kOfficial, kPaper, kFla, kXmixers };
std::vector<std::string_view> names_of(TnlVersion);
std::vector<std::string_view> names_of(TnlSlopes);

struct TnlOptions {
  TnlVersion version = TnlVersion::kV1;
  TnlSlopes slopes = TnlSlopes::kOfficial;
  bool layer_temperature = true;  // slopes fall with depth
  bool positions = true;          // the first layer's rotation
  bool value_silu = false;        // silu on values too
  bool gate = true;
  int64_t gate_rank = 0;  // for v2; 0: model.head_dim
  double norm_eps = 1e-6;
  bool operator==(const TnlOptions&) const = default;
};

RecurrentPlan tnl_plan(const ModelConfig& model, int64_t layer);

// −log λ of the heads of a layer.
std::vector<double> tnl_slopes(TnlSlopes variant, bool layer_temperature, int64_t heads, int64_t layer,
                               int64_t layers);

}  // namespace longhaul::recipe
