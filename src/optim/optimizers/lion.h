// Lion (arXiv 2302.06675; docs/sources/optimizers.md §4), with decoupled weight decay. Each element has one
// state. A step makes one pass over memory on a CPU (kernels/updates); on other devices it uses LibTorch's
// operations.
//   c = β1 m + (1 − β1) g;  w ← w (1 − lr λ) − lr sign(c);  m ← β2 m + (1 − β2) g
#pragma once

#include "kernels/optimizer_loops/loops.h"
#include "optim/optimizers/elementwise.h"

namespace longhaul::optim {

class Lion final : public Elementwise {
 public:
  Lion(const recipe::OptimOptions& options, Members members);

 private:
  kernels::LionScalars scalars(const StepSettings& settings, const Piece& piece) const;
  void update(const StepSettings& settings);
};

}  // namespace longhaul::optim
