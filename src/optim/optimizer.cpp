#include "optim/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "base/error.h"
#include "base/memory_purpose.h"
#include "optim/adamw.h"
#include "optim/came.h"
#include "recipe/optimizers.h"

namespace longhaul::optim {

Optimizer::Optimizer(model::ParameterSet& parameters, Precision precision) : parameters_(parameters) {
  for (const auto& parameter : parameters_.all()) {
    const Tensor& value = parameter->own_value;
    const bool shared = !parameter->trainable() || value.scalar_type() == precision.master;
    masters_.push_back(shared ? value : at::empty_like(value, value.options().dtype(precision.master)));
  }
  take_masters_from_values();
}

void Optimizer::take_masters_from_values() {
  for (size_t i = 0; i < masters_.size(); ++i) {
    const Tensor& value = parameters()[i]->own_value;
    if (!masters_[i].is_alias_of(value)) masters_[i].copy_(value);
  }
}

void Optimizer::refresh_value(size_t parameter) const {
  const Tensor& value = parameters()[parameter]->own_value;
  if (!masters_[parameter].is_alias_of(value)) value.copy_(masters_[parameter]);
}

void Optimizer::refresh_values() {
  for (size_t i = 0; i < masters_.size(); ++i) {
    refresh_value(i);
    parameters()[i]->written();
  }
}

std::vector<Shard> Optimizer::shards() const {
  std::vector<Shard> result;
  for (size_t p = 0; p < masters_.size(); ++p) {
    model::Parameter& parameter = *parameters()[p];
    if (!parameter.trainable()) continue;
    for (size_t part = 0; part < parameter.parts.size(); ++part) {
      if (!parameter.parts[part].spec.trainable) continue;
      result.push_back({&parameter, part, parameter.own_part_of(masters_[p], part), parameter.own_part_of(parameter.own_grad, part)});
    }
  }
  return result;
}

void Optimizer::set_steps(int64_t steps) {
  LONGHAUL_ASSERT(steps >= 0, "steps {}", steps);
  steps_ = steps;
}

void Optimizer::step(const StepSettings& settings, const Reducer& reduce) {
  const at::NoGradGuard no_grad;
  for (const Phase& phase : phases_) {
    if (phase.partials != nullptr) phase.partials->clear(parameters_.device());
    phase.run(settings);
    if (phase.partials != nullptr) phase.partials->reduce(reduce);
  }
  for (const auto& parameter : parameters()) {
    if (parameter->trainable()) parameter->written();
  }
  ++steps_;
}

void Optimizer::append_state(std::vector<StateTensor>& to, size_t parameter, const std::string& kind, const Tensor& like_own) const {
  const model::Parameter& holder = *parameters()[parameter];
  for (size_t part = 0; part < holder.parts.size(); ++part) {
    to.push_back(state_of_part(holder, part, kind, holder.own_part_of(like_own, part)));
  }
}

namespace {

template <class T>
std::unique_ptr<Optimizer> make(const recipe::OptimOptions& options, model::ParameterSet& parameters, Precision precision) {
  return std::make_unique<T>(options, parameters, precision);
}

// The upper half of the list in recipe/optimizers.cpp.
const std::map<std::string_view, decltype(&make<AdamW>)> kMakers = {{"adamw", make<AdamW>}, {"came", make<Came>}};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const recipe::OptimOptions& options, model::ParameterSet& parameters, Precision precision) {
  const MemoryPurposeScope scope(MemoryPurpose::kOptimizer);
  const auto maker = kMakers.find(options.name);
  if (maker != kMakers.end()) return maker->second(options, parameters, precision);
  std::vector<std::string_view> names;
  for (const auto& entry : recipe::optimizers()) names.push_back(entry.name);
  throw Error({.code = ExitCode::kUsage,
               .what = "unknown optimizer",
               .expected = fmt::format("{}", fmt::join(names, ", ")),
               .found = options.name,
               .where = "optim.name",
               .hint = "optim.name=adamw"});
}

}  // namespace longhaul::optim
