#include "optim/optimizers/grouped.h"

#include <algorithm>

#include "recipe/sections/optim_groups.h"

namespace longhaul::optim {

Grouped::Grouped(const recipe::OptimOptions& options, Members given, Maker make)
    : Optimizer(std::move(given)) {
  const auto rule = [options](const layout::ParameterSpec& spec) {
    return recipe::rule_of(options, spec.tensor.role, spec.layer, spec.tensor.global_shape, spec.set);
  };
  for (size_t number = 0; number < recipe::count_of_rules(options); ++number) {
    Members own = members();
    own.takes = [rule, number](const layout::ParameterSpec& spec) { return rule(spec) == number; };
    if (!std::ranges::any_of(own.parameters.specs(), own.takes)) continue;
    const recipe::OptimRule of = recipe::optim_rule(options, number);
    optimizers_.push_back(make(of.options, std::move(own)));
    adopt(*optimizers_.back(), of.lr_factor);
  }
}

void check_groups(const recipe::OptimOptions& options, const std::vector<layout::ParameterSpec>& parameters) {
  if (options.groups.empty()) return;
  std::vector<recipe::Role> roles;
  std::vector<std::string> sets;
  for (const layout::ParameterSpec& spec : parameters) {
    roles.push_back(spec.tensor.role);
    sets.push_back(spec.set);
  }
  recipe::check_groups(options, roles, sets);
}

std::vector<StateTensor> Grouped::state() {
  std::vector<StateTensor> all;
  for (const auto& optimizer : optimizers_) {
    for (StateTensor& each : optimizer->state()) all.push_back(std::move(each));
  }
  return all;
}

std::vector<OfTensor> Grouped::measured() const {
  std::vector<OfTensor> all;
  for (const auto& optimizer : optimizers_) std::ranges::copy(optimizer->measured(), std::back_inserter(all));
  return all;
}

}  // namespace longhaul::optim
