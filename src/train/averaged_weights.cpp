#include "train/averaged_weights.h"

#include "base/memory/memory_purpose.h"

namespace longhaul::train {
namespace {

constexpr const char* kAverage = "average";

}  // namespace

AveragedWeights::AveragedWeights(const model::ParameterSet& parameters, const optim::Optimizer& optimizer,
                                 double decay)
    : decay_(decay) {
  if (!on()) return;
  const MemoryPurposeScope scope(MemoryPurpose::kOptimizer);
  for (size_t p = 0; p < parameters.all().size(); ++p) {
    const model::Parameter& parameter = *parameters.all()[p];
    for (size_t part = 0; part < parameter.parts.size(); ++part) {
      if (!parameter.trainable() || !parameter.parts[part].spec.trainable) continue;
      const Tensor master = parameter.own_part_of(optimizer.masters()[p].detach(), part);
      averages_.push_back(
          {.master = master, .own = optim::state_of_part(parameter, part, kAverage, at::empty_like(master))});
    }
  }
  begin();
}

void AveragedWeights::begin() {
  const at::NoGradGuard no_gradient;
  for (const Average& average : averages_) average.own.view.copy_(average.master);
}

void AveragedWeights::after_step() {
  const at::NoGradGuard no_gradient;
  for (const Average& average : averages_) average.own.view.mul_(decay_).add_(average.master, 1 - decay_);
}

std::vector<checkpoint::StateEntry> AveragedWeights::tensors() {
  std::vector<checkpoint::StateEntry> entries;
  for (const Average& average : averages_) {
    entries.push_back({.name = std::string(kAverage) + "." + average.own.name,
                       .file = kAverage,
                       .role = kAverage,
                       .shape = average.own.global_shape,
                       .held = average.own.held,
                       .view = average.own.view,
                       .written_here = average.own.first_copy});
  }
  return entries;
}

}  // namespace longhaul::train
