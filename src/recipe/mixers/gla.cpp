#include "recipe/mixers/gla.h"

#include <algorithm>
#include <cmath>

#include "recipe/mixers/recurrent.h"
#include "recipe/option.h"

namespace longhaul::recipe {

namespace {

void declare_gla(OptionSet& set, ModelConfig& model) {
  set.add("model.gla.key_dim", model.gla.key_dim, "Key channels of each GLA head; 0: half of model.head_dim.")
      .unit("channels")
      .at_least(0)
      .at_most(1 << 14);
  set.add("model.gla.forget_rank", model.gla.forget_rank, "Channels by way of which the forget gates of GLA layers are made.")
      .unit("channels")
      .at_least(1)
      .at_most(1 << 14);
  set.add("model.gla.temperature", model.gla.temperature, "τ in the decay logσ(x)/τ of GLA layers: higher forgets less.")
      .above(0)
      .at_most(1e6);
  set.add("model.gla.norm_eps", model.gla.norm_eps, "Added to the mean square inside the norm of each GLA head.").above(0).at_most(1);
}

}  // namespace

RecurrentPlan gla_plan(const ModelConfig& model) {
  const GlaOptions& gla = model.gla;
  const int64_t key = gla.key_dim > 0 ? gla.key_dim : std::max<int64_t>(1, model.head_dim / 2);
  RecurrentPlan plan{.heads = model.heads, .key = key, .value = model.head_dim};
  plan.decay = RecurrentPlan::Decay::kGate;
  plan.divisor = gla.temperature;
  plan.decay_rank = gla.forget_rank;
  plan.scale = 1 / std::sqrt(static_cast<double>(key));
  plan.norm = RecurrentPlan::Norm::kHeads;
  plan.norm_weight = true;
  plan.norm_eps = gla.norm_eps;
  plan.gated = true;
  plan.gate_map = RecurrentPlan::Map::kSilu;
  return plan;
}

constinit const SequenceMixerEntry kGlaMixer{.name = "gla",
                                             .declare = declare_gla,
                                             .operators = PlannedBy<gla_plan>::operators,
                                             .tensors = PlannedBy<gla_plan>::tensors,
                                             .state = PlannedBy<gla_plan>::state,
                                             .memory = PlannedBy<gla_plan>::memory};

}  // namespace longhaul::recipe
