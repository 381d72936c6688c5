#include "recipe/mixers/mamba2.h"

#include <algorithm>

#include "recipe/check.h"
#include "recipe/mixers.h"
#include "recipe/options/option.h"

namespace longhaul::recipe {

namespace {

void declare_mamba2(OptionSet& set, ModelConfig& model) {
  Mamba2Options& options = model.mamba2;
  set.add("model.mamba2.state", options.state,
          "State channels of each Mamba-2 head: of B and C, the keys and queries.")
      .unit("channels")
      .at_least(1)
      .at_most(1 << 14)
      .also_called({"d_state", "state_size", "ssm_state_size"});
  set.add("model.mamba2.groups", options.groups,
          "Groups of Mamba-2 heads that share B and C; divides model.heads.")
      .at_least(1)
      .at_most(1 << 16)
      .also_called({"n_groups", "ngroups"});
  set.add("model.mamba2.norm_groups", options.norm_groups,
          "Groups of Mamba-2 heads that are normalised each by itself; divides model.heads. In files of "
          "others as many as model.mamba2.groups.")
      .at_least(1)
      .at_most(1 << 16);
  set.add("model.mamba2.convolution", options.convolution, "Taps of the short convolution of Mamba-2 layers.")
      .unit("tokens")
      .at_least(1)
      .at_most(16)
      .also_called({"d_conv", "conv_kernel"});
  set.add("model.mamba2.norm_eps", options.norm_eps,
          "Added to the mean square inside the normalisation over the heads of a Mamba-2 layer.")
      .above(0)
      .at_most(1);
}

void check_mamba2(const ModelConfig& model, std::vector<Problem>& out) {
  for (const auto& [key, groups] : {std::pair{"model.mamba2.groups", model.mamba2.groups},
                                    {"model.mamba2.norm_groups", model.mamba2.norm_groups}}) {
    if (model.heads % groups == 0) continue;
    out.push_back({{key, "model.heads"},
                   fmt::format("{} = {} must divide model.heads = {}", key, groups, model.heads),
                   fmt::format("{}=1", key)});
  }
}

OperatorSizes mamba2_operators(const ModelConfig& model) {
  return {.recurrence = {.heads = model.heads, .key = model.mamba2.state, .value = model.head_dim}};
}

MixerTensor convolution_of(const char* name, int64_t heads, int64_t channels, int64_t taps) {
  MixerTensor tensor{.name = name, .role = Role::kConvolution, .out = channels, .in = taps, .own_bias = true};
  if (heads > 0) tensor.cut = MixerTensor::Cut::kRows, tensor.heads = heads;
  return tensor;
}

MixerTensor of_heads(const char* name, const ModelConfig& model, Fill fill) {
  MixerTensor tensor = head_vector(name, Role::kCoefficient, model.heads, 1);
  tensor.fill = fill;
  return tensor;
}

// B and C belong to no head: every tensor rank makes them whole.
std::vector<MixerTensor> mamba2_tensors(const ModelConfig& model) {
  const int64_t heads = model.heads, inner = heads * model.head_dim,
                shared = model.mamba2.groups * model.mamba2.state;
  // Channels that are normalised together stay together.
  const int64_t normed = model.mamba2.norm_groups > 1 ? model.mamba2.norm_groups : heads;
  return {head_rows("mixer.gate", Role::kGate, heads, model.head_dim, model.hidden),
          below(head_rows("mixer.value", Role::kValue, heads, model.head_dim, model.hidden)),
          below(head_rows("mixer.step", Role::kForget, heads, 1, model.hidden)),
          {.name = "mixer.key", .role = Role::kKey, .out = shared, .in = model.hidden},
          below({.name = "mixer.query", .role = Role::kQuery, .out = shared, .in = model.hidden}),
          convolution_of("mixer.value_convolution", heads, inner, model.mamba2.convolution),
          convolution_of("mixer.key_convolution", 0, shared, model.mamba2.convolution),
          below(convolution_of("mixer.query_convolution", 0, shared, model.mamba2.convolution)),
          of_heads("mixer.log_rate", model, Fill::kLogRates),
          of_heads("mixer.step_bias", model, Fill::kSteps),
          of_heads("mixer.skip", model, Fill::kByRole),
          head_vector("mixer.norm", Role::kNorm, normed, inner / normed),
          head_columns("mixer.output", Role::kOutput, model.hidden, heads, model.head_dim)};
}

std::vector<MixerStateTensor> mamba2_state(const ModelConfig& model) {
  std::vector<MixerStateTensor> all = state_of(mamba2_operators(model).recurrence);
  const int64_t history = model.mamba2.convolution - 1;
  if (history == 0) return all;
  all.push_back({.name = "values", .shape = {history, model.heads * model.head_dim}, .cut = 1});
  all.push_back(
      {.name = "keys_queries", .shape = {history, 2 * model.mamba2.groups * model.mamba2.state}, .cut = -1});
  return all;
}

BlockMemory mamba2_memory(const ModelConfig& model, const BlockSizes& size) {
  const double inner = size.channels(model.heads * model.head_dim),
               shared = size.channels(2 * model.mamba2.groups * model.mamba2.state);
  const double expanded = size.channels(2 * model.heads * model.mamba2.state);
  const double step = size.channels(model.heads),
               wide_steps = size.tokens * static_cast<double>(model.heads) * size.wide;
  const double ends =
      size.documents * static_cast<double>(model.heads * model.mamba2.state * model.head_dim) * size.wide;
  const double convolved = inner + shared, sums = size.norm_sums(model.heads * model.head_dim);
  // z, x and Δ as computed, B and C; x, B and C after the convolution; Δ and the decay, mostly in fp64; Δ x,
  // y, the gated and the normalised y.
  const double kept = 2 * inner + step + shared + convolved + 7 * wide_steps + 4 * inner;
  return {.kept = kept + size.states + size.tokens * size.wide,
          // The norm: d y and d of the gated value, with the normalised y gone. The recurrence, with all that
          // followed gone: d z, d o, d x, and its own; those of B and C are per head.
          .backward = size.hidden + std::max(inner + sums, inner + expanded + ends),
          .cheap = convolved + 2 * inner,
          .again = size.hidden + std::max(3 * inner + sums, 3 * inner + expanded + ends + convolved),
          .evaluation = kept + ends + 3 * size.hidden};
}

}  // namespace

constinit const SequenceMixerEntry kMamba2Mixer{.name = "mamba2",
                                                .declare = declare_mamba2,
                                                .check = check_mamba2,
                                                .operators = mamba2_operators,
                                                .tensors = mamba2_tensors,
                                                .state = mamba2_state,
                                                .memory = mamba2_memory};

}  // namespace longhaul::recipe
