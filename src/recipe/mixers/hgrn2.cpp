#include "recipe/mixers/hgrn2.h"

#include <algorithm>

#include "recipe/mixers.h"
#include "recipe/options/option.h"

namespace longhaul::recipe {

namespace {

void declare_hgrn2(OptionSet& set, ModelConfig& model) {
  set.add("model.hgrn2.expand", model.hgrn2.expand,
          "Key channels of each HGRN2 head, its expand ratio: a head's state is this times model.head_dim. "
          "0: as many as model.head_dim.")
      .unit("channels")
      .at_least(0)
      .at_most(1 << 14)
      .also_called({"expand_ratio"});
  set.add("model.hgrn2.norm_eps", model.hgrn2.norm_eps,
          "Added to the mean square inside the normalisation over all heads of an HGRN2 layer.")
      .above(0)
      .at_most(1);
}

int64_t keys_of_hgrn2(const ModelConfig& model) { return model.hgrn2.key_channels(model.head_dim); }

OperatorSizes hgrn2_operators(const ModelConfig& model) {
  return {.recurrence = {
              .heads = model.heads, .key = keys_of_hgrn2(model), .value = model.head_dim, .gated = true}};
}

std::vector<MixerTensor> hgrn2_tensors(const ModelConfig& model) {
  return {head_rows("mixer.query", Role::kQuery, model.heads, keys_of_hgrn2(model), model.hidden),
          below(head_rows("mixer.forget", Role::kForget, model.heads, keys_of_hgrn2(model), model.hidden)),
          below(head_rows("mixer.value", Role::kValue, model.heads, model.head_dim, model.hidden)),
          head_vector("mixer.norm", Role::kNorm, model.heads, model.head_dim),
          head_columns("mixer.output", Role::kOutput, model.hidden, model.heads, model.head_dim)};
}

// A row for every layer of the model, whatever its mixer, because a bound depends on the depth of its layer.
std::vector<MixerTensor> hgrn2_shared(const ModelConfig& model) {
  return {
      head_columns("hgrn2.lower_bounds", Role::kLowerBound, model.layers, model.heads, keys_of_hgrn2(model))};
}

std::vector<MixerStateTensor> hgrn2_state(const ModelConfig& model) {
  return state_of(hgrn2_operators(model).recurrence);
}

BlockMemory hgrn2_memory(const ModelConfig& model, const BlockSizes& size) {
  const int64_t keys = model.heads * keys_of_hgrn2(model), values = model.heads * model.head_dim;
  const double k = size.channels(keys), v = size.channels(values);
  // a state a document
  const double ends = size.documents * static_cast<double>(keys * model.head_dim) * size.wide;
  // softmax over layers, and its own row
  const double bounds = static_cast<double>((model.layers + 1) * keys) * size.wide;
  // Queries, gates and values as computed, queries after silu; o and the normalised o.
  return {.kept = 3 * k + 3 * v + size.states + size.tokens * size.wide + bounds,
          // The norm: d y and d o, while y is gone. Then the recurrence, with o gone too: d o, d q, d f, d v.
          .backward = size.hidden + std::max(v + size.norm_sums(values), 2 * k + ends),
          .cheap = v,  // the normed o
          .again = size.hidden + std::max(2 * v + size.norm_sums(values), 2 * k + v + ends),
          .evaluation = 3 * k + 3 * v + ends + 3 * size.hidden};
}

}  // namespace

constinit const SequenceMixerEntry kHgrn2Mixer{.name = "hgrn2",
                                               .declare = declare_hgrn2,
                                               .operators = hgrn2_operators,
                                               .tensors = hgrn2_tensors,
                                               .shared = hgrn2_shared,
                                               .state = hgrn2_state,
                                               .memory = hgrn2_memory};

}  // namespace longhaul::recipe
