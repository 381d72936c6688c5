#include "optim/optimizer.h"

#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "base/memory_purpose.h"
#include "optim/adamw.h"

namespace longhaul::optim {

Optimizer::Optimizer(model::ParameterSet& parameters, Precision precision) : parameters_(parameters) {
  for (const auto& parameter : parameters_.all()) {
    const Tensor value = parameter->value.detach();
    const bool shared = !parameter->trainable() || value.scalar_type() == precision.master;
    masters_.push_back(shared ? value : at::empty_like(value, value.options().dtype(precision.master)));
  }
  take_masters_from_values();
}

void Optimizer::take_masters_from_values() {
  for (size_t i = 0; i < masters_.size(); ++i) {
    const Tensor value = parameters()[i]->value.detach();
    if (!masters_[i].is_alias_of(value)) masters_[i].copy_(value);
  }
}

void Optimizer::refresh_values() {
  for (size_t i = 0; i < masters_.size(); ++i) {
    const Tensor value = parameters()[i]->value.detach();
    if (!masters_[i].is_alias_of(value)) value.copy_(masters_[i]);
    parameters()[i]->written();
  }
}

void Optimizer::set_steps(int64_t steps) {
  LONGHAUL_ASSERT(steps >= 0, "steps {}", steps);
  steps_ = steps;
}

void Optimizer::step(const StepSettings& settings, const Reducer& reduce) {
  const at::NoGradGuard no_grad;
  Tensor sums;
  for (const Phase& phase : phases_) {
    Tensor partials = at::zeros({phase.partial_count}, at::kDouble);
    phase.run(settings, sums, partials);
    if (phase.partial_count > 0 && reduce) reduce(partials);
    sums = partials;
  }
  for (const auto& parameter : parameters()) {
    if (parameter->trainable()) parameter->written();
  }
  ++steps_;
}

void Optimizer::append_state(std::vector<StateTensor>& to, size_t parameter, const std::string& kind, const Tensor& storage) const {
  const model::Parameter& holder = *parameters()[parameter];
  for (size_t part = 0; part < holder.parts.size(); ++part) {
    to.push_back({holder.parts[part].spec.tensor.name, kind, &holder, part, holder.part_of(storage, part)});
  }
}

std::unique_ptr<Optimizer> make_optimizer(const recipe::OptimOptions& options, model::ParameterSet& parameters, Precision precision) {
  const MemoryPurposeScope scope(MemoryPurpose::kOptimizer);
  if (options.name == "adamw") return std::make_unique<AdamW>(options, parameters, precision);
  throw Error({.code = ExitCode::kUsage,
               .what = "unknown optimizer",
               .expected = "adamw",
               .found = options.name,
               .where = "optim.name",
               .hint = "optim.name=adamw"});
}

}  // namespace longhaul::optim
