#include "plan/flops.h"

#include "layout/parameters.h"

namespace longhaul::plan {
namespace {

double matrix_parameters(const recipe::ModelConfig& config) {
  double sum = 0;
  for (const auto& spec : layout::parameters(config)) {
    if (spec.tensor.global_shape.size() != 2) continue;
    const layout::Role role = spec.tensor.role;
    if (role == layout::Role::kEmbedding || role == layout::Role::kPosition || role == layout::Role::kLowerBound ||
        role == layout::Role::kCoefficient)
      continue;
    const double share = spec.expert >= 0 ? static_cast<double>(config.experts_per_token) / static_cast<double>(config.experts) : 1.0;
    sum += share * static_cast<double>(spec.elements());
  }
  if (config.tie_embeddings) sum += static_cast<double>(config.vocabulary * config.hidden);  // the head's product is still made
  return sum;
}

}  // namespace

TokenFlops training_flops_per_token(const recipe::ModelConfig& config, int64_t sequence) {
  TokenFlops flops{.matrices = 6 * matrix_parameters(config)};
  for (int64_t l = 0; l < config.layers; ++l) {
    const auto [attention, recurrence, angles, delta_rule] = recipe::operators_of_layer(config, l);
    flops.attention_full += 12 * static_cast<double>(attention.heads * attention.head_dim) * static_cast<double>(sequence);
    flops.recurrence += 12 * static_cast<double>(recurrence.heads * recurrence.key * recurrence.value);
    // Reads what it has under the key as well.
    flops.recurrence += 18 * static_cast<double>(delta_rule.heads * delta_rule.key * delta_rule.value);
  }
  flops.attention_causal = flops.attention_full / 2;
  return flops;
}

}  // namespace longhaul::plan
