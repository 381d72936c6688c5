#include "recipe/mixers/lightnet.h"

#include "recipe/mixers/recurrent.h"
#include "recipe/option.h"

namespace longhaul::recipe {

namespace {

void declare_lightnet(OptionSet& set, ModelConfig& model) {
  LightnetOptions& options = model.lightnet;
  set.add("model.lightnet.expand", options.expand, "Key channels of each LightNet head, its expand ratio; 0: as many as model.head_dim.")
      .unit("channels")
      .at_least(0)
      .at_most(1 << 14);
  set.add("model.lightnet.positions", options.positions,
          "Queries and keys of LightNet layers are turned by positions (LRPE), which doubles the keys.");
  set.add("model.lightnet.gate_rank", options.gate_rank, "Rank of the output gate of LightNet layers; 0: model.head_dim.")
      .unit("channels")
      .at_least(0)
      .at_most(1 << 18);
  set.add("model.lightnet.norm_weight", options.norm_weight, "Whether the norm over all heads of a LightNet layer has weights.");
  set.add("model.lightnet.norm_eps", options.norm_eps,
          "Added to the mean square inside the normalisation over all heads of a LightNet layer.")
      .above(0)
      .at_most(1);
}

}  // namespace

RecurrentPlan lightnet_plan(const ModelConfig& model) {
  using Map = RecurrentPlan::Map;
  const LightnetOptions& options = model.lightnet;
  const int64_t key = options.expand > 0 ? options.expand : model.head_dim;
  RecurrentPlan plan{.heads = model.heads, .key = key, .value = model.head_dim, .query_map = Map::kSilu};
  if (options.positions) {
    plan.turn = RecurrentPlan::Turn::kCosine;
    plan.frequencies = frequencies_of(model.heads * key, model.heads * key, 10000);
  }
  plan.decay = RecurrentPlan::Decay::kCumulative;
  plan.norm = RecurrentPlan::Norm::kAll;
  plan.norm_weight = options.norm_weight;
  plan.norm_eps = options.norm_eps;
  plan.gated = true;
  plan.gate_map = Map::kSilu;
  plan.gate_rank = options.gate_rank > 0 ? options.gate_rank : model.head_dim;
  return plan;
}

constinit const SequenceMixerEntry kLightnetMixer{.name = "lightnet",
                                                  .declare = declare_lightnet,
                                                  .operators = PlannedBy<lightnet_plan>::operators,
                                                  .tensors = PlannedBy<lightnet_plan>::tensors,
                                                  .state = PlannedBy<lightnet_plan>::state,
                                                  .memory = PlannedBy<lightnet_plan>::memory};

}  // namespace longhaul::recipe
