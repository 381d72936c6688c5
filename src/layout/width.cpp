#include "layout/width.h"

#include <cmath>

#include "base/error.h"
#include "recipe/optimizers/optimizers.h"

namespace longhaul::layout {
namespace {

using Width = ParameterSpec::Width;

Width width_of(const ParameterSpec& spec, const Shape& wider) {
  const Shape& shape = spec.tensor.global_shape;
  const Role role = spec.tensor.role;
  if (role == Role::kEmbedding || role == Role::kPosition) return Width::kInput;
  if (role == Role::kHead) return Width::kHead;
  if (shape.size() != 2 || role == Role::kCoefficient || role == Role::kConvolution ||
      role == Role::kLowerBound)
    return Width::kVector;
  return wider[1] > shape[1] ? Width::kHidden : Width::kInput;
}

}  // namespace

recipe::ModelConfig widened(recipe::ModelConfig config, int64_t factor) {
  for (int64_t* const size : {&config.hidden, &config.heads, &config.intermediate, &config.dense_intermediate,
                              &config.shared_intermediate, &config.softmax.kv_heads, &config.gla.key_heads,
                              &config.gated_deltanet.heads, &config.gated_deltanet.key_heads}) {
    *size *= factor;
  }
  config.mup_base_hidden = 0;
  return config;
}

void apply_width(std::vector<ParameterSpec>& list, const std::vector<ParameterSpec>& wider,
                 const recipe::ModelConfig& config) {
  LONGHAUL_ASSERT(list.size() == wider.size(), "{} tensors, {} when wider", list.size(), wider.size());
  const double m = config.width_factor();
  for (size_t i = 0; i < list.size(); ++i) {
    ParameterSpec& spec = list[i];
    LONGHAUL_ASSERT(spec.tensor.name == wider[i].tensor.name, "{} is {} when wider", spec.tensor.name,
                    wider[i].tensor.name);
    spec.width = width_of(spec, wider[i].tensor.global_shape);
    spec.width_factor = m;
    Init& init = spec.init;
    if (init.kind != Init::Kind::kNormal || spec.width == Width::kVector) continue;
    const bool from_fans = init.fan_in > 0;  // Xavier's, which falls with width by itself
    if (spec.width == Width::kHidden && !from_fans) init.std /= std::sqrt(m);
    if (spec.width == Width::kHidden || !from_fans) continue;
    // For input and head: the growing side at the base.
    const bool table = spec.tensor.role == Role::kEmbedding || spec.tensor.role == Role::kPosition ||
                       spec.tensor.role == Role::kHead;
    const double in = static_cast<double>(init.fan_in) / (table ? m : 1),
                 out = static_cast<double>(init.fan_out) / (table ? 1 : m);
    init.std = init.gain * std::sqrt(2 / (in + out));
  }
}

double lr_factor_of_width(Width width, double factor, const recipe::OptimOptions& optimizer) {
  switch (recipe::width_rule_of(optimizer)) {
    case recipe::WidthRule::kElements:
      return width == Width::kHidden ? 1 / factor : 1;
    case recipe::WidthRule::kGradient:
      return width == Width::kHidden ? 1 : factor;
    case recipe::WidthRule::kRootOfElements:
      return width == Width::kHidden ? 1 / std::sqrt(factor) : 1;
    case recipe::WidthRule::kSpectral:
      return 1;
    case recipe::WidthRule::kUnknown:
      break;
  }
  LONGHAUL_ASSERT(false, "no muP rule is known for {}", optimizer.name);
}

}  // namespace longhaul::layout
