#include "recipe/mixers/recurrent/tnl.h"

#include <cmath>

#include "recipe/mixers/recurrent/recurrent.h"
#include "recipe/options/option.h"

namespace longhaul::recipe {

namespace {

void declare_tnl(OptionSet& set, ModelConfig& model) {
  TnlOptions& tnl = model.tnl;
  set.add("model.tnl.version", tnl.version,
          "v1: as released (a whole gate, u ⊙ norm(o)). v2: a gate of low rank, norm(o) ⊙ sigmoid(gate).");
  set.add("model.tnl.slopes", tnl.slopes,
          "Decay slopes of the heads: official (released code and weights), paper, fla "
          "(flash-linear-attention), xmixers.");
  set.add("model.tnl.layer_temperature", tnl.layer_temperature,
          "Slopes fall with depth, the last layer's to nearly none.");
  set.add("model.tnl.positions", tnl.positions,
          "The first layer turns queries and keys by learned positions (LRPE), which doubles its keys.");
  set.add("model.tnl.value_silu", tnl.value_silu, "silu on values as on queries and keys.");
  set.add("model.tnl.gate", tnl.gate, "Whether the output is gated.");
  set.add("model.tnl.gate_rank", tnl.gate_rank, "Rank of the gate of v2; 0: model.head_dim.")
      .unit("channels")
      .at_least(0)
      .at_most(1 << 18);
  set.add("model.tnl.norm_eps", tnl.norm_eps,
          "Added to the mean square inside the normalisation over all heads of a TransNormerLLM layer.")
      .above(0)
      .at_most(1);
}

// 2^{−8(h+1)/H}, for H no power of two interleaved as ALiBi's are.
double alibi_slope(int64_t heads, int64_t h) {
  const auto ladder = [](int64_t of, int64_t i) {
    return std::exp2(-8.0 * static_cast<double>(i) / static_cast<double>(of));
  };
  int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  return h < power ? ladder(power, h + 1) : ladder(2 * power, 2 * (h - power) + 1);
}

double tnl_slope(TnlSlopes variant, int64_t heads, int64_t h) {
  const auto n = static_cast<double>(h), all = static_cast<double>(heads);
  switch (variant) {
    case TnlSlopes::kOfficial:
      return alibi_slope(heads, h);
    case TnlSlopes::kPaper:
      return 8 * (n + 1) / all;
    case TnlSlopes::kFla:
      return 8 * n / all;
    case TnlSlopes::kXmixers:  // 1/N, N in equal ratios from 2 to 256
      return 1 / (2 * std::pow(128.0, heads > 1 ? n / (all - 1) : 0));
  }
  return 0;
}

RecurrentPlan tnl_first(const ModelConfig& model) { return tnl_plan(model, 0); }
RecurrentPlan tnl_later(const ModelConfig& model) { return tnl_plan(model, 1); }

std::vector<MixerTensor> tnl_shared(const ModelConfig& model) {
  if (!model.tnl.positions || model.layers == 0) return {};
  const bool first = model.mixer(0) == Mixer::kTnl ||
                     (model.mixer(0) == Mixer::kMixture && model.mixture.linear == Mixer::kTnl);
  if (!first) return {};
  MixerTensor frequencies = head_vector("tnl.frequencies", Role::kCoefficient, model.heads, model.head_dim);
  frequencies.fill = Fill::kFrequencies;
  return {frequencies};
}

}  // namespace

std::vector<std::string_view> names_of(TnlVersion) { return {"v1", "v2"}; }
std::vector<std::string_view> names_of(TnlSlopes) { return {"official", "paper", "fla", "xmixers"}; }

std::vector<double> tnl_slopes(TnlSlopes variant, bool layer_temperature, int64_t heads, int64_t layer,
                               int64_t layers) {
  const auto l = static_cast<double>(layer), all = static_cast<double>(layers);
  const bool code = variant == TnlSlopes::kOfficial || variant == TnlSlopes::kXmixers;
  double temperature = 1;
  if (layer_temperature && code) temperature = (layers > 1 ? 1 - l / (all - 1) : 1) + 1e-5;
  if (layer_temperature && !code) temperature = 1 - l / all;
  std::vector<double> slopes;
  for (int64_t h = 0; h < heads; ++h) slopes.push_back(tnl_slope(variant, heads, h) * temperature);
  return slopes;
}

RecurrentPlan tnl_plan(const ModelConfig& model, int64_t layer) {
  using Map = RecurrentPlan::Map;
  const TnlOptions& tnl = model.tnl;
  RecurrentPlan plan{.heads = model.heads,
                     .key = model.head_dim,
                     .value = model.head_dim,
                     .query_map = Map::kSilu,
                     .key_map = Map::kSilu};
  if (tnl.value_silu) plan.value_map = Map::kSilu;
  if (tnl.positions && layer == 0) {
    plan.turn = RecurrentPlan::Turn::kCosine;
    plan.learned_turn = true;
    plan.frequencies = frequencies_of(model.heads * model.head_dim, model.heads * model.head_dim, 10000);
  }
  plan.decay = RecurrentPlan::Decay::kSlopes;
  plan.slopes = tnl_slopes(tnl.slopes, tnl.layer_temperature, model.heads, layer, model.layers);
  plan.norm = RecurrentPlan::Norm::kAll;
  plan.norm_eps = tnl.norm_eps;
  plan.gated = tnl.gate;
  if (tnl.version == TnlVersion::kV2) {
    plan.gate_map = Map::kSigmoid;
    plan.gate_rank = tnl.gate_rank > 0 ? tnl.gate_rank : model.head_dim;
  }
  return plan;
}

constinit const SequenceMixerEntry kTnlMixer{
    .name = "tnl",
    .declare = declare_tnl,
    .operators = PlannedBy<tnl_later>::operators,
    .tensors = PlannedBy<tnl_later>::tensors,
    .shared = tnl_shared,
    .state = PlannedBy<tnl_later>::state,
    .memory = PlannedBy<tnl_later>::memory,
    .of_first_layer = {PlannedBy<tnl_first>::operators, PlannedBy<tnl_first>::state,
                       PlannedBy<tnl_first>::memory}};

}  // namespace longhaul::recipe
