// TransNormerLLM (arXiv 2307.14995; its second version 2401.04658, 2405.17381; docs/sources/linear-attention.md §3): linear attention with a fixed decay of each
// head, turned by learned positions in the model's first layer. docs/models/tnl.md.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace longhaul::recipe {

struct SequenceMixerEntry;
struct ModelConfig;
struct RecurrentPlan;
extern const SequenceMixerEntry kTnlMixer;

// v1: gate of a projection of its own, u ⊙ norm(o). v2: a gate of low rank, norm(o) ⊙ σ(gate).
enum class TnlVersion { kV1, kV2 };
// Decay slopes, docs/sources/linear-attention.md §3.2: as all released code has them (ALiBi's, less with depth), as the paper prints them, as
// flash-linear-attention's, as xmixers'.
enum class TnlSlopes { kOfficial, kPaper, kFla, kXmixers };
std::vector<std::string_view> names_of(TnlVersion);
std::vector<std::string_view> names_of(TnlSlopes);

struct TnlOptions {
  TnlVersion version = TnlVersion::kV1;
  TnlSlopes slopes = TnlSlopes::kOfficial;
  bool layer_temperature = true;  // slopes fall with depth
  bool positions = true;          // the first layer's turn
  bool value_silu = false;        // silu on values too
  bool gate = true;
  int64_t gate_rank = 0;  // of v2; 0: model.head_dim
  double norm_eps = 1e-6;
  bool operator==(const TnlOptions&) const = default;
};

RecurrentPlan tnl_plan(const ModelConfig& model, int64_t layer);

// −log λ of a layer's heads.
std::vector<double> tnl_slopes(TnlSlopes variant, bool layer_temperature, int64_t heads, int64_t layer, int64_t layers);

}  // namespace longhaul::recipe
