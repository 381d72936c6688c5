#include "recipe/mixers/lightning.h"

#include <algorithm>

#include "recipe/mixers.h"
#include "recipe/option.h"

namespace longhaul::recipe {

namespace {

void declare_lightning(OptionSet& set, ModelConfig& model) {
  set.add("model.lightning_norm_eps", model.lightning.norm_eps,
          "Added to the mean square inside the normalisation over all heads of a lightning layer.")
      .above(0)
      .at_most(1);
  set.add("model.layer_factor", model.lightning.layer_factor, "Formula by which the decay slopes of lightning layers depend on depth.");
  set.add("model.lightning.base_slopes", model.lightning.base_slopes,
          "Decay slopes over the heads where they are no power of two: official (those of the powers of two around it), hugging_face (one "
          "formula for any number), or as model.layer_factor says.");
  declare_factors(set, "model.lightning", "lightning", model.lightning.alpha, model.lightning.beta);
}

OperatorSizes lightning_operators(const ModelConfig& model) {
  return {.recurrence = {.heads = model.heads, .key = model.head_dim, .value = model.head_dim}};
}

std::vector<MixerTensor> lightning_tensors(const ModelConfig& model) {
  return {head_rows("mixer.query", Role::kQuery, model.heads, model.head_dim, model.hidden),
          below(head_rows("mixer.key", Role::kKey, model.heads, model.head_dim, model.hidden)),
          below(head_rows("mixer.value", Role::kValue, model.heads, model.head_dim, model.hidden)),
          head_rows("mixer.gate", Role::kGate, model.heads, model.head_dim, model.hidden),
          head_vector("mixer.norm", Role::kNorm, model.heads, model.head_dim),
          head_columns("mixer.output", Role::kOutput, model.hidden, model.heads, model.head_dim)};
}

std::vector<MixerStateTensor> lightning_state(const ModelConfig& model) { return state_of(lightning_operators(model).recurrence); }

BlockMemory lightning_memory(const ModelConfig& model, const BlockSizes& size) {
  const int64_t channels = model.heads * model.head_dim;
  const double inner = size.channels(channels);
  const double ends = size.documents * static_cast<double>(channels * model.head_dim) * size.wide;  // a state a document
  // The norm: d y, d o, d gate, while y is gone. Then the recurrence, with o, gate and y gone: d o, d q, k, v, and what the gate left for the
  // block's input.
  const double norm = 2 * inner + size.norm_sums(channels), recurrence = inner + size.hidden + ends;
  // Before and after silu 3 each; o, gate, gated norm 1 each.
  return {
      .kept = 9 * inner + size.states + size.tokens * size.wide,
      .backward = size.hidden + std::max(norm, recurrence),
      // After silu, and the gated norm. The former are there again in the recurrence, and with them the block's input, which the gate has read.
      .cheap = 4 * inner,
      .again = size.hidden + std::max(norm + inner, recurrence + 4 * inner + size.hidden),
      .evaluation = 6 * inner + ends + 3 * size.hidden};
}

}  // namespace

std::vector<std::string_view> names_of(LayerFactor) { return {"official", "hugging_face"}; }
std::vector<std::string_view> names_of(BaseSlopes) { return {"as_layer_factor", "official", "hugging_face"}; }

bool LightningOptions::plain_slopes() const {
  if (base_slopes == BaseSlopes::kAsLayerFactor) return layer_factor == LayerFactor::kHuggingFace;
  return base_slopes == BaseSlopes::kHuggingFace;
}

constinit const SequenceMixerEntry kLightningMixer{.name = "lightning",
                                                   .declare = declare_lightning,
                                                   .operators = lightning_operators,
                                                   .tensors = lightning_tensors,
                                                   .state = lightning_state,
                                                   .memory = lightning_memory};

}  // namespace longhaul::recipe
