#include "optim/step_measures.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/memory/memory_purpose.h"
#include "recipe/sections/optim_groups.h"

namespace longhaul::optim {

StepMeasures::StepMeasures(Optimizer& optimizer, model::ParameterSet& parameters)
    : optimizer_(optimizer), parameters_(parameters) {
  const MemoryPurposeScope scope(MemoryPurpose::kOther);
  const at::NoGradGuard no_grad;
  for (size_t p = 0; p < parameters.all().size(); ++p)
    before_.push_back(parameters.all()[p]->trainable() ? optimizer.masters()[p].clone() : Tensor());
}

Tensor StepMeasures::sums_of_roles() const {
  const Tensor sums =
      at::zeros({static_cast<int64_t>(recipe::names_of(recipe::Role{}).size()), 3}, at::kDouble);
  auto* const at = sums.mutable_data_ptr<double>();
  const auto squares = [](const Tensor& x) {
    const double norm = at::linalg_vector_norm(x, 2, std::nullopt, false, at::kDouble).item<double>();
    return norm * norm;
  };
  for (size_t p = 0; p < before_.size(); ++p) {
    const model::Parameter& parameter = *parameters_.all()[p];
    for (size_t part = 0; part < parameter.parts.size() && before_[p].defined(); ++part) {
      const model::Part& of = parameter.parts[part];
      if (!of.spec.trainable || !of.first_copy || of.own.empty()) continue;
      const Tensor now = parameter.own_part_of(optimizer_.masters()[p], part),
                   before = parameter.own_part_of(before_[p], part);
      double* const row = at + 3 * static_cast<int64_t>(of.spec.tensor.role);
      row[0] += static_cast<double>(now.numel());
      row[1] += squares(now);
      row[2] += squares(now - before);
    }
  }
  return sums;
}

std::map<std::string, double> StepMeasures::of_step(const Reduce& reduce) const {
  const at::NoGradGuard no_grad;
  const std::vector<std::string_view> roles = recipe::names_of(recipe::Role{});
  const auto& told = kOfTensors;
  const Tensor of_roles = sums_of_roles();
  // how many, and their sum
  const Tensor sums = at::zeros({std::ssize(told), 2}, at::kDouble);
  // and of their negatives
  const Tensor most = at::full({std::ssize(told), 2}, -std::numeric_limits<double>::max(), at::kDouble);
  for (const OfTensor& each : optimizer_.measured()) {
    const auto row = std::ranges::find(told, each.name) - std::begin(told);
    auto *const sum = sums.mutable_data_ptr<double>() + 2 * row, *const largest =
                                                                     most.mutable_data_ptr<double>() +
                                                                     2 * row;
    sum[0] += 1, sum[1] += each.number;
    largest[0] = std::max(largest[0], each.number), largest[1] = std::max(largest[1], -each.number);
  }
  const Tensor all = at::cat({of_roles.flatten(), sums.flatten()});
  reduce(all, comm::Reduction::kSum);
  reduce(most, comm::Reduction::kMax);

  std::map<std::string, double> result;
  const auto tell = [&](const std::string& suffix, const double* row) {
    if (row[0] == 0) return;
    result["weight_rms" + suffix] = std::sqrt(row[1] / row[0]);
    result["update_rms" + suffix] = std::sqrt(row[2] / row[0]);
  };
  const auto* row = all.const_data_ptr<double>();
  double total[3] = {};
  for (const std::string_view role : roles) {
    for (int i = 0; i < 3; ++i) total[i] += row[i];
    tell("." + std::string(role), row);
    row += 3;
  }
  tell("", total);
  result["weight_norm"] = std::sqrt(total[1]);
  const auto* largest = most.const_data_ptr<double>();
  for (const std::string_view name : told) {
    if (row[0] > 0) {
      result[std::string(name) + "_mean"] = row[1] / row[0];
      result[std::string(name) + "_most"] = largest[0];
      result[std::string(name) + "_least"] = -largest[1];
    }
    row += 2, largest += 2;
  }
  return result;
}

}  // namespace longhaul::optim
