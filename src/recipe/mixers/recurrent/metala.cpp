#include "recipe/mixers/recurrent/metala.h"

#include <algorithm>
#include <cmath>

#include "recipe/mixers/recurrent/recurrent.h"
#include "recipe/options/option.h"

namespace longhaul::recipe {

namespace {

void declare_metala(OptionSet& set, ModelConfig& model) {
  MetalaOptions& options = model.metala;
  set.add("model.metala.key_dim", options.key_dim,
          "Key channels of each MetaLA head; 0: half of model.head_dim.")
      .unit("channels")
      .at_least(0)
      .at_most(1 << 14);
  set.add("model.metala.convolution", options.convolution,
          "Taps of the short convolution before a MetaLA layer; 0: none.")
      .unit("tokens")
      .at_least(0)
      .at_most(16);
  set.add("model.metala.temperature", options.temperature,
          "τ in the decay logσ(x)/τ of MetaLA layers: higher forgets less.")
      .above(0)
      .at_most(1e6);
  set.add("model.metala.norm_eps", options.norm_eps,
          "Added to the variance inside the norm of each MetaLA head.")
      .above(0)
      .at_most(1);
  set.add("model.metala.gate_bias", options.gate_bias,
          "Whether the output gate of MetaLA layers has a bias.");
}

}  // namespace

RecurrentPlan metala_plan(const ModelConfig& model) {
  const MetalaOptions& options = model.metala;
  const int64_t key = options.key_dim > 0 ? options.key_dim : std::max<int64_t>(1, model.head_dim / 2);
  RecurrentPlan plan{.heads = model.heads, .key = key, .value = model.head_dim};
  plan.convolution = options.convolution;
  plan.decay = RecurrentPlan::Decay::kGate;
  plan.divisor = options.temperature;
  plan.tied_keys = true;
  plan.self_term = true;
  plan.norm = RecurrentPlan::Norm::kHeadsCentred;
  plan.norm_eps = options.norm_eps;
  plan.gated = true;
  plan.gate_map = RecurrentPlan::Map::kSilu;
  plan.gate_bias = options.gate_bias;
  plan.steering_gain = 0x1p-2 / std::sqrt(2.0);  // 2^−2.5
  return plan;
}

constinit const SequenceMixerEntry kMetalaMixer{.name = "metala",
                                                .declare = declare_metala,
                                                .operators = PlannedBy<metala_plan>::operators,
                                                .tensors = PlannedBy<metala_plan>::tensors,
                                                .state = PlannedBy<metala_plan>::state,
                                                .memory = PlannedBy<metala_plan>::memory};

}  // namespace longhaul::recipe
