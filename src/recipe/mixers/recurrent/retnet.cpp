#include "recipe/mixers/recurrent/retnet.h"

#include <cmath>

#include "recipe/check.h"
#include "recipe/mixers/recurrent/recurrent.h"
#include "recipe/options/option.h"

namespace longhaul::recipe {

namespace {

void declare_retnet(OptionSet& set, ModelConfig& model) {
  set.add("model.retnet.value_dim", model.retnet.value_dim,
          "Value channels of each RetNet head; 0: twice model.head_dim.")
      .unit("channels")
      .at_least(0)
      .at_most(1 << 14);
  set.add("model.retnet.rotary_base", model.retnet.rotary_base,
          "Base of the rotary frequencies of RetNet layers.")
      .above(1)
      .at_most(1e15);
  set.add("model.retnet.norm_weight", model.retnet.norm_weight,
          "Whether the norm of each head has weights, one a channel for all heads.");
  set.add("model.retnet.norm_eps", model.retnet.norm_eps,
          "Added to the mean square inside the norm of each RetNet head.")
      .above(0)
      .at_most(1);
}

void check_retnet(const ModelConfig& model, std::vector<Problem>& out) {
  if (model.head_dim % 2 == 0) return;
  out.push_back(
      {{"model.head_dim"},
       fmt::format("model.head_dim = {} must be even in RetNet layers: channels are rotated in pairs",
                   model.head_dim),
       fmt::format("model.head_dim={}", model.head_dim + 1)});
}

}  // namespace

RecurrentPlan retnet_plan(const ModelConfig& model) {
  const RetnetOptions& retnet = model.retnet;
  RecurrentPlan plan{.heads = model.heads,
                     .key = model.head_dim,
                     .value = retnet.value_dim > 0 ? retnet.value_dim : 2 * model.head_dim};
  plan.turn = RecurrentPlan::Turn::kRotary;
  plan.frequencies = frequencies_of(model.head_dim / 2, model.head_dim, retnet.rotary_base);
  plan.decay = RecurrentPlan::Decay::kSlopes;
  for (int64_t h = 0; h < model.heads; ++h)
    plan.slopes.push_back(-std::log1p(-std::exp2(-5 - static_cast<double>(h))));
  plan.scale = 1 / std::sqrt(static_cast<double>(model.head_dim));
  plan.norm = RecurrentPlan::Norm::kHeads;
  plan.norm_weight = retnet.norm_weight;
  plan.norm_eps = retnet.norm_eps;
  plan.gated = true;
  plan.gate_map = RecurrentPlan::Map::kSilu;
  return plan;
}

constinit const SequenceMixerEntry kRetnetMixer{.name = "retnet",
                                                .declare = declare_retnet,
                                                .check = check_retnet,
                                                .operators = PlannedBy<retnet_plan>::operators,
                                                .tensors = PlannedBy<retnet_plan>::tensors,
                                                .state = PlannedBy<retnet_plan>::state,
                                                .memory = PlannedBy<retnet_plan>::memory};

}  // namespace longhaul::recipe
