#include "recipe/mixers/recurrent/gla.h"

#include <algorithm>
#include <cmath>

#include "recipe/check.h"
#include "recipe/mixers/recurrent/recurrent.h"
#include "recipe/options/option.h"

namespace longhaul::recipe {

namespace {

void declare_gla(OptionSet& set, ModelConfig& model) {
  set.add("model.gla.key_dim", model.gla.key_dim, "Key channels of each GLA head; 0: half of model.head_dim.")
      .unit("channels")
      .at_least(0)
      .at_most(1 << 14);
  set.add("model.gla.forget_rank", model.gla.forget_rank,
          "Channels by way of which the forget gates of GLA layers are made.")
      .unit("channels")
      .at_least(1)
      .at_most(1 << 14);
  set.add("model.gla.temperature", model.gla.temperature,
          "τ in the decay logσ(x)/τ of GLA layers: higher forgets less.")
      .above(0)
      .at_most(1e6);
  set.add("model.gla.key_heads", model.gla.key_heads,
          "Heads of keys, values and decays of GLA layers, each shared by a group of query heads; divides "
          "model.heads. 0: as many.")
      .at_least(0)
      .at_most(1 << 16);
  set.add("model.gla.feature_map", model.gla.feature_map,
          "What queries and keys of GLA layers go through: none, relu, sigmoid or silu.");
  set.add("model.gla.tied_keys", model.gla.tied_keys,
          "Whether keys of GLA layers are one minus their decay, whose gate is then a matrix of its own and "
          "not of low rank (SpikingBrain-76B).");
  set.add("model.gla.output_gate", model.gla.output_gate,
          "Whether the output of GLA layers is gated by silu of a projection of their input.");
  set.add("model.gla.bias", model.gla.bias, "Biases of the queries, keys and values of GLA layers.");
  set.add("model.gla.norm_eps", model.gla.norm_eps,
          "Added to the mean square inside the norm of each GLA head.")
      .above(0)
      .at_most(1);
}

RecurrentPlan::Map map_of(FeatureMap map) {
  switch (map) {
    case FeatureMap::kNone:
      return RecurrentPlan::Map::kNone;
    case FeatureMap::kRelu:
      return RecurrentPlan::Map::kRelu;
    case FeatureMap::kSigmoid:
      return RecurrentPlan::Map::kSigmoid;
    case FeatureMap::kSilu:
      return RecurrentPlan::Map::kSilu;
  }
  return {};
}

void check_gla(const ModelConfig& model, std::vector<Problem>& out) {
  const GlaOptions& gla = model.gla;
  if (gla.key_heads > 0 && model.heads % gla.key_heads != 0) {
    out.push_back({{"model.gla.key_heads", "model.heads"},
                   fmt::format("model.gla.key_heads = {} must divide model.heads = {}: every key head serves "
                               "the same number of query heads",
                               gla.key_heads, model.heads),
                   "model.gla.key_heads=0"});
  }
  if (gla.bias && (gla.output_gate || gla.tied_keys)) {
    out.push_back({{"model.gla.bias", "model.gla.output_gate", "model.gla.tied_keys"},
                   "model.gla.bias is for layers that make queries, keys and values alone in one product: no "
                   "output gate, no tied keys",
                   "model.gla.bias=false, or model.gla.output_gate=false model.gla.tied_keys=false"});
  }
}

}  // namespace

std::vector<std::string_view> names_of(FeatureMap) { return {"none", "relu", "sigmoid", "silu"}; }

RecurrentPlan gla_plan(const ModelConfig& model) {
  const GlaOptions& gla = model.gla;
  const int64_t key = gla.key_dim > 0 ? gla.key_dim : std::max<int64_t>(1, model.head_dim / 2);
  RecurrentPlan plan{.heads = model.heads, .key = key, .value = model.head_dim};
  plan.decay = RecurrentPlan::Decay::kGate;
  plan.divisor = gla.temperature;
  plan.decay_rank = gla.tied_keys ? 0 : gla.forget_rank;
  plan.tied_keys = gla.tied_keys;
  plan.key_heads = gla.key_heads;
  plan.product_bias = gla.bias;
  plan.query_map = plan.key_map = map_of(gla.feature_map);
  plan.scale = 1 / std::sqrt(static_cast<double>(key));
  plan.norm = RecurrentPlan::Norm::kHeads;
  plan.norm_weight = true;
  plan.norm_eps = gla.norm_eps;
  plan.gated = gla.output_gate;
  plan.gate_map = RecurrentPlan::Map::kSilu;
  return plan;
}

constinit const SequenceMixerEntry kGlaMixer{.name = "gla",
                                             .declare = declare_gla,
                                             .check = check_gla,
                                             .operators = PlannedBy<gla_plan>::operators,
                                             .tensors = PlannedBy<gla_plan>::tensors,
                                             .state = PlannedBy<gla_plan>::state,
                                             .memory = PlannedBy<gla_plan>::memory};

}  // namespace longhaul::recipe
