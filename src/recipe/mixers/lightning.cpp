#include "recipe/mixers/lightning.h"

#include <algorithm>

#include "recipe/mixers.h"
#include "recipe/options/option.h"

namespace longhaul::recipe {

namespace {

void declare_lightning(OptionSet& set, ModelConfig& model) {
  set.add("model.lightning_norm_eps", model.lightning.norm_eps,
          "Added to the mean square inside the normalisation over all heads of a lightning layer.")
      .above(0)
      .at_most(1);
  set.add("model.layer_factor", model.lightning.layer_factor,
          "Formula by which the decay slopes of lightning layers depend on depth.");
  set.add("model.lightning.base_slopes", model.lightning.base_slopes,
          "Decay slopes over the heads where they are no power of two: official (those of the powers of two "
          "around it), hugging_face (one "
          "formula for any number), or as model.layer_factor says.");
  set.add("model.lightning.state", model.lightning.state,
          "What states and decays of lightning layers are kept in: wide (fp32, as published), or the model's "
          "dtype with rounded slopes, as transformers has it "
          "(in bf16 slow heads forget at other rates, and in decoding never; takes parallel.cp=1).")
      .for_comparisons();
  set.add("model.lightning.silu_wide", model.lightning.silu_wide,
          "Whether silu of queries, keys and values of lightning layers, the recurrence and its norm are "
          "computed in fp32 without rounding between them (vLLM, SGLang).")
      .for_comparisons();
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

void check_lightning(const ModelConfig& model, std::vector<Problem>& out) {
  if (model.lightning.state != LightningState::kModel || !model.lightning.silu_wide) return;
  out.push_back({{"model.lightning.state", "model.lightning.silu_wide"},
                 "model.lightning.state = model rounds what model.lightning.silu_wide = true keeps wide",
                 "model.lightning.silu_wide=false, or model.lightning.state=wide"});
}

std::vector<MixerStateTensor> lightning_state(const ModelConfig& model) {
  std::vector<MixerStateTensor> state = state_of(lightning_operators(model).recurrence);
  for (MixerStateTensor& tensor : state) tensor.wide = model.lightning.state == LightningState::kWide;
  return state;
}

BlockMemory lightning_memory(const ModelConfig& model, const BlockSizes& size) {
  const int64_t channels = model.heads * model.head_dim;
  // Between silu and norm; elements may be wide there.
  const double inner = size.channels(channels),
               made = model.lightning.silu_wide ? inner * size.wide / size.element : inner;
  // a state a document
  const double ends = size.documents * static_cast<double>(channels * model.head_dim) * size.wide;
  // The norm: d y, d o, d gate, while y is gone. Then the recurrence, with o, gate and y gone: d o, d q, k,
  // v, and the gradient that the gate left for the block's input.
  const double norm = 2 * made + size.norm_sums(channels), recurrence = made + size.hidden + ends;
  // Before and after silu 3 each; o, gate, gated norm 1 each.
  return {.kept = 4 * inner + 5 * made + (model.lightning.silu_wide ? 4 * made + inner : 0) + size.states +
                  size.tokens * size.wide,
          .backward = size.hidden + std::max(norm, recurrence),
          // The values after silu, and the gated norm, are recomputed. The former exist again during the
          // recurrence, and with them the block's input, which the gate has read.
          .cheap = 4 * made,
          .again = size.hidden + std::max(norm + made, recurrence + 4 * made + size.hidden),
          // before silu 4, after it 3, and o
          .evaluation = 4 * inner + 4 * made + ends + 3 * size.hidden};
}

}  // namespace

std::vector<std::string_view> names_of(LayerFactor) { return {"official", "hugging_face"}; }
std::vector<std::string_view> names_of(LightningState) { return {"wide", "model"}; }
std::vector<std::string_view> names_of(BaseSlopes) { return {"as_layer_factor", "official", "hugging_face"}; }

bool LightningOptions::plain_slopes() const {
  if (base_slopes == BaseSlopes::kAsLayerFactor) return layer_factor == LayerFactor::kHuggingFace;
  return base_slopes == BaseSlopes::kHuggingFace;
}

constinit const SequenceMixerEntry kLightningMixer{.name = "lightning",
                                                   .declare = declare_lightning,
                                                   .check = check_lightning,
                                                   .operators = lightning_operators,
                                                   .tensors = lightning_tensors,
                                                   .state = lightning_state,
                                                   .memory = lightning_memory};

}  // namespace longhaul::recipe
