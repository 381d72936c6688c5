#include "recipe/mixers/recurrent/lightnet.h"

#include <algorithm>

#include "recipe/check.h"
#include "recipe/mixers/recurrent/recurrent.h"
#include "recipe/options/option.h"

namespace longhaul::recipe {

namespace {

void declare_lightnet(OptionSet& set, ModelConfig& model) {
  LightnetOptions& options = model.lightnet;
  set.add("model.lightnet.expand", options.expand,
          "Key channels of each LightNet head, its expand ratio; 0: as many as model.head_dim.")
      .unit("channels")
      .at_least(0)
      .at_most(1 << 14);
  set.add("model.lightnet.positions", options.positions,
          "Queries and keys of LightNet layers are turned by positions (LRPE), which doubles the keys.");
  set.add("model.lightnet.grid", options.grid,
          "Tokens along each axis of data with several axes (16,16: rows and columns of an image), last axis "
          "innermost: positions of LightNet layers are "
          "places on it, model.toeplitz runs along each axis, and every document is one such grid. Empty: "
          "positions in a line.")
      .unit("tokens")
      .at_least(1)
      .at_most(1 << 20);
  set.add("model.lightnet.gate_rank", options.gate_rank,
          "Rank of the output gate of LightNet layers; 0: model.head_dim.")
      .unit("channels")
      .at_least(0)
      .at_most(1 << 18);
  set.add("model.lightnet.norm_weight", options.norm_weight,
          "Whether the norm over all heads of a LightNet layer has weights.");
  set.add("model.lightnet.norm_eps", options.norm_eps,
          "Added to the mean square inside the normalisation over all heads of a LightNet layer.")
      .above(0)
      .at_most(1);
}

int64_t key_channels(const ModelConfig& model) {
  return model.lightnet.expand > 0 ? model.lightnet.expand : model.head_dim;
}

void check_lightnet(const ModelConfig& model, std::vector<Problem>& out) {
  const LightnetOptions& options = model.lightnet;
  if (options.grid.empty()) return;
  const auto axes = static_cast<int64_t>(options.grid.size());
  if (!options.positions && model.toeplitz == 0) {
    out.push_back({{"model.lightnet.grid", "model.lightnet.positions", "model.toeplitz"},
                   "model.lightnet.grid says where tokens stand, and model.lightnet.positions = false and "
                   "model.toeplitz = 0 ask nobody",
                   "model.lightnet.positions=true, or model.toeplitz above 0"});
  }
  if (model.causal && model.toeplitz > 0) {
    out.push_back({{"model.lightnet.grid", "model.toeplitz", "model.causal"},
                   "model.toeplitz along the axes of model.lightnet.grid keeps no sums to go on from, and a "
                   "causal model decodes",
                   "model.causal=false (with train.objective=masked), or model.toeplitz=0"});
  }
  if (axes > key_channels(model)) {
    out.push_back(
        {{"model.lightnet.grid", "model.lightnet.expand"},
         fmt::format("model.lightnet.grid has {} axes, more than the {} key channels of a head that turn",
                     axes, key_channels(model)),
         fmt::format("model.lightnet.expand={}", axes)});
  }
  if (options.tokens_of_grid() > int64_t{1} << 24) {
    out.push_back({{"model.lightnet.grid"},
                   "model.lightnet.grid has more than 2^24 tokens",
                   "check for a zero too many"});
  }
}

}  // namespace

int64_t LightnetOptions::tokens_of_grid() const {
  if (grid.empty()) return 0;
  int64_t tokens = 1;
  // no axis is longer than 2^20
  for (const int64_t size : grid) tokens = std::min(tokens * size, int64_t{1} << 40);
  return tokens;
}

RecurrentPlan lightnet_plan(const ModelConfig& model) {
  using Map = RecurrentPlan::Map;
  const LightnetOptions& options = model.lightnet;
  const int64_t key = key_channels(model);
  RecurrentPlan plan{.heads = model.heads, .key = key, .value = model.head_dim, .query_map = Map::kSilu};
  if (options.positions) {
    plan.turn = RecurrentPlan::Turn::kCosine;
    plan.grid = options.grid;
    if (plan.grid.empty()) plan.frequencies = frequencies_of(model.heads * key, model.heads * key, 10000);
  }
  plan.decay = model.causal ? RecurrentPlan::Decay::kCumulative : RecurrentPlan::Decay::kWhole;
  plan.norm = RecurrentPlan::Norm::kAll;
  plan.norm_weight = options.norm_weight;
  plan.norm_eps = options.norm_eps;
  plan.gated = true;
  plan.gate_map = Map::kSilu;
  plan.gate_rank = options.gate_rank > 0 ? options.gate_rank : model.head_dim;
  return plan;
}

constinit const SequenceMixerEntry kLightnetMixer{.name = "lightnet",
                                                  .bidirectional = true,
                                                  .declare = declare_lightnet,
                                                  .check = check_lightnet,
                                                  .operators = PlannedBy<lightnet_plan>::operators,
                                                  .tensors = PlannedBy<lightnet_plan>::tensors,
                                                  .state = PlannedBy<lightnet_plan>::state,
                                                  .memory = PlannedBy<lightnet_plan>::memory};

}  // namespace longhaul::recipe
