#include "recipe/mixers/recurrent/cosformer.h"

#include <cmath>
#include <numbers>

#include "recipe/mixers/recurrent/recurrent.h"
#include "recipe/options/option.h"

namespace longhaul::recipe {

namespace {

void declare_cosformer(OptionSet& set, ModelConfig& model) {
  set.add("model.cosformer.longest", model.cosformer.longest,
          "M of cosFormer layers, whose weights are cos(π/2 · distance / M): no sequence may be longer. The "
          "paper takes each sequence's own length, "
          "with which a model could not go on from what it has read.")
      .unit("tokens")
      .at_least(1)
      .at_most(1LL << 40);
}

void declare_cosformer2(OptionSet& set, ModelConfig& model) {
  Cosformer2Options& options = model.cosformer2;
  set.add("model.cosformer2.base", options.base, "Base of the frequencies of cosFormer2 layers.")
      .above(1)
      .at_most(1e15);
  set.add("model.cosformer2.gate_rank", options.gate_rank,
          "Rank of the output gate of cosFormer2 layers; 0: model.head_dim.")
      .unit("channels")
      .at_least(0)
      .at_most(1 << 18);
  set.add("model.cosformer2.norm_eps", options.norm_eps,
          "Added to the mean square inside the normalisation over all heads of a cosFormer2 layer.")
      .above(0)
      .at_most(1);
}

SequenceLimit limit_of_cosformer(const ModelConfig& model) {
  return {model.cosformer.longest, "model.cosformer.longest"};
}

}  // namespace

RecurrentPlan cosformer_plan(const ModelConfig& model) {
  using Map = RecurrentPlan::Map;
  RecurrentPlan plan{.heads = model.heads,
                     .key = model.head_dim,
                     .value = model.head_dim,
                     .query_map = Map::kRelu,
                     .key_map = Map::kRelu};
  plan.turn = RecurrentPlan::Turn::kCosine;
  plan.frequencies.assign(static_cast<size_t>(model.heads * model.head_dim),
                          std::numbers::pi / 2 / static_cast<double>(model.cosformer.longest));
  plan.first_position = 1;
  plan.longest = model.cosformer.longest;
  plan.denominator = true;
  return plan;
}

RecurrentPlan cosformer2_plan(const ModelConfig& model) {
  using Map = RecurrentPlan::Map;
  const Cosformer2Options& options = model.cosformer2;
  const int64_t channels = model.heads * model.head_dim;
  RecurrentPlan plan{.heads = model.heads,
                     .key = model.head_dim,
                     .value = model.head_dim,
                     .query_map = Map::kSilu,
                     .key_map = Map::kSilu};
  plan.turn = RecurrentPlan::Turn::kCosine;
  plan.frequencies = frequencies_of(channels, channels, options.base);
  plan.norm = RecurrentPlan::Norm::kAll;
  plan.norm_eps = options.norm_eps;
  plan.gated = true;
  plan.gate_map = Map::kSigmoid;
  plan.gate_rank = options.gate_rank > 0 ? options.gate_rank : model.head_dim;
  return plan;
}

constinit const SequenceMixerEntry kCosformerMixer{.name = "cosformer",
                                                   .declare = declare_cosformer,
                                                   .limit = limit_of_cosformer,
                                                   .operators = PlannedBy<cosformer_plan>::operators,
                                                   .tensors = PlannedBy<cosformer_plan>::tensors,
                                                   .state = PlannedBy<cosformer_plan>::state,
                                                   .memory = PlannedBy<cosformer_plan>::memory};

constinit const SequenceMixerEntry kCosformer2Mixer{.name = "cosformer2",
                                                    .declare = declare_cosformer2,
                                                    .operators = PlannedBy<cosformer2_plan>::operators,
                                                    .tensors = PlannedBy<cosformer2_plan>::tensors,
                                                    .state = PlannedBy<cosformer2_plan>::state,
                                                    .memory = PlannedBy<cosformer2_plan>::memory};

}  // namespace longhaul::recipe
