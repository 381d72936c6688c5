#include "plan/flops.h"

#include <algorithm>

#include "layout/freezing.h"
#include "recipe/architecture/toeplitz.h"

namespace longhaul::plan {
namespace {

// Elements of a tensor, times the number of times that a token uses it.
double parameters_in_products(const recipe::ModelConfig& config, const layout::ParameterSpec& spec) {
  if (spec.tensor.global_shape.size() != 2) return 0;
  const layout::Role role = spec.tensor.role;
  if (role == layout::Role::kEmbedding || role == layout::Role::kPosition ||
      role == layout::Role::kLowerBound || role == layout::Role::kCoefficient)
    return 0;
  const double share =
      spec.expert >= 0 ? static_cast<double>(config.experts_per_token) / static_cast<double>(config.experts)
                       : 1.0;
  return share * static_cast<double>(spec.elements());
}

// The part of a tensor's three products that is computed: 1 where nothing is frozen.
double computed(const layout::TensorPasses& passes) { return static_cast<double>(passes.products()) / 3; }

// The product with the head that has no tensor of its own in the list: of an embedding that serves as head,
// and of each module that predicts further ahead.
double computed_of_head(const std::vector<layout::ParameterSpec>& list) {
  const auto trains = [](const layout::ParameterSpec& spec) { return spec.trainable; };
  const auto is_head = [](const layout::ParameterSpec& spec) {
    return spec.tensor.role == layout::Role::kHead;
  };
  auto head = std::ranges::find_if(list, is_head);
  if (head == list.end())
    head = std::ranges::find_if(
        list, [](const auto& spec) { return spec.tensor.role == layout::Role::kEmbedding; });
  // The table trains, so what is looked up in it has a gradient too.
  const bool before =
      std::ranges::any_of(list, [&](const auto& spec) { return trains(spec) && !is_head(spec); });
  return computed({.input_gradient = before, .own_gradient = head != list.end() && head->trainable});
}

double matrix_parameters(const recipe::ModelConfig& config) {
  double sum = 0;
  const std::vector<layout::ParameterSpec> list = layout::parameters(config);
  const std::vector<layout::TensorPasses> passes = layout::tensor_passes(list);
  for (size_t i = 0; i < list.size(); ++i)
    sum += parameters_in_products(config, list[i]) * computed(passes[i]);
  const double head = computed_of_head(list);
  // Each module's product with the head.
  sum += head * static_cast<double>(config.predict_ahead * config.vocabulary * config.hidden);
  // The head's product is still computed.
  if (config.tie_embeddings) sum += head * static_cast<double>(config.vocabulary * config.hidden);
  return sum;
}

// The part of the FLOPs of a layer's attention and recurrence that is computed, forward and backward: their
// backward pass leads to the gradient of what the output's projection reads.
double computed_of_mixer(const std::vector<layout::ParameterSpec>& list,
                         const std::vector<layout::TensorPasses>& passes, int64_t layer) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].layer == layer && list[i].tensor.role == layout::Role::kOutput)
      return passes[i].input_gradient ? 1 : 1.0 / 3;
  }
  return 1;
}

// Mean number of keys that a token sees over a sequence, counting the token itself half; window 0: all before
// it.
double keys_seen(double tokens, int64_t window) {
  const double most = window == 0 ? tokens : std::min(tokens, static_cast<double>(window));
  return most - most * most / (2 * tokens);
}

// A delta rule also reads the state's value for the key.
double recurrence_flops(const recipe::OperatorSizes& sizes) {
  const auto& [attention, recurrence, angles, delta_rule] = sizes;
  return 12 * static_cast<double>(recurrence.heads * recurrence.key * recurrence.value) +
         18 * static_cast<double>(delta_rule.heads * delta_rule.key * delta_rule.value);
}

}  // namespace

double flops_again_per_token(const recipe::ModelConfig& config, recipe::Recompute recompute,
                             const std::vector<bool>& again) {
  if (!runs_layers_again(recompute)) return 0;
  const auto runs_again = [&](int64_t layer) { return again.empty() || again[static_cast<size_t>(layer)]; };
  double flops = 0;
  const std::vector<layout::ParameterSpec> list = layout::parameters(config);
  const int64_t first = layout::first_layer_backward(list, config.layers);
  for (const auto& spec : list) {
    if (spec.layer >= first && spec.ahead < 0 && runs_again(spec.layer))
      flops += 2 * parameters_in_products(config, spec);
  }
  if (recompute == recipe::Recompute::kTokens) return flops;  // which keeps what recurrences gave
  for (int64_t l = first; l < config.layers; ++l) {
    if (runs_again(l)) flops += recurrence_flops(recipe::operators_of_layer(config, l)) / 3;
  }
  return flops;
}

TokenFlops training_flops_per_token(const recipe::ModelConfig& config, int64_t sequence) {
  TokenFlops flops{.matrices = 6 * matrix_parameters(config)};
  const recipe::RecurrenceSizes toeplitz = recipe::toeplitz_sizes(config);
  flops.recurrence += 12 * static_cast<double>(toeplitz.heads * toeplitz.key * toeplitz.value);
  const std::vector<layout::ParameterSpec> list = layout::parameters(config);
  const std::vector<layout::TensorPasses> passes = layout::tensor_passes(list);
  for (int64_t each = 0; each < config.layers + (config.layers > 0 ? config.predict_ahead : 0); ++each) {
    // Modules that predict further ahead have a layer like the last one.
    const int64_t l = std::min(each, config.layers - 1);
    const recipe::OperatorSizes sizes = recipe::operators_of_layer(config, l);
    const recipe::AttentionSizes& attention = sizes.attention;
    const double tokens = static_cast<double>(sequence),
                 channels = static_cast<double>(attention.heads * (attention.head_dim + attention.value_dim)),
                 computed = each < config.layers ? computed_of_mixer(list, passes, l) : 1;
    flops.attention_full += computed * 6 * channels * tokens;
    flops.attention_causal +=
        computed * 6 * channels * (attention.causal ? keys_seen(tokens, config.softmax.window(l)) : tokens);
    flops.recurrence += computed * recurrence_flops(sizes);
  }
  return flops;
}

}  // namespace longhaul::plan
