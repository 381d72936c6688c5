// Grouped: combines several optimizers into one. Each has the tensors that recipe/sections/optim_groups.h
// assigns to it: entries of optim.group, and AdamW next to Muon. They share masters and steps; phases of
// the same index share their reductions.
#pragma once

#include <memory>
#include <vector>

#include "optim/optimizer.h"

namespace longhaul::optim {

class Grouped final : public Optimizer {
 public:
  using Maker = std::unique_ptr<Optimizer> (*)(const recipe::OptimOptions& options, Members members);
  // `make`: makes an optimizer by the name in its options.
  Grouped(const recipe::OptimOptions& options, Members members, Maker make);
  std::vector<StateTensor> state() override;
  std::vector<OfTensor> measured() const override;

 private:
  std::vector<std::unique_ptr<Optimizer>> optimizers_;
};

// Throws kUsage for an entry of optim.group that matches no tensor of the model; called before a run
// starts.
void check_groups(const recipe::OptimOptions& options, const std::vector<layout::ParameterSpec>& parameters);

}  // namespace longhaul::optim
