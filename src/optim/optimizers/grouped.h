// Grouped: several optimizers as one, each with the tensors that recipe/sections/optim_groups.h gives it: entries of optim.group, and AdamW beside Muon. They
// share masters, steps and, phase by phase, reductions.
#pragma once

#include <memory>
#include <vector>

#include "optim/optimizer.h"

namespace longhaul::optim {

class Grouped final : public Optimizer {
 public:
  using Maker = std::unique_ptr<Optimizer> (*)(const recipe::OptimOptions& options, Members members);
  // `make`: an optimizer by its options' name.
  Grouped(const recipe::OptimOptions& options, Members members, Maker make);
  std::vector<StateTensor> state() override;
  std::vector<OfTensor> measured() const override;

 private:
  std::vector<std::unique_ptr<Optimizer>> optimizers_;
};

// kUsage for an entry of optim.group that is about no tensor of the model; before a run starts.
void check_groups(const recipe::OptimOptions& options, const std::vector<layout::ParameterSpec>& parameters);

}  // namespace longhaul::optim
