// SGD with momentum and decoupled weight decay: one state an element, without momentum none. On a CPU one pass over memory (kernels/updates);
// LibTorch's operations elsewhere.
//   m ← μ m + g;  w ← w (1 − lr λ) − lr m, with Nesterov's momentum − lr (g + μ m)
#pragma once

#include "kernels/updates/loops.h"
#include "optim/optimizers/elementwise.h"

namespace longhaul::optim {

class Sgd final : public Elementwise {
 public:
  Sgd(const recipe::OptimOptions& options, Members members);

 private:
  kernels::SgdScalars scalars(const StepSettings& settings, const Piece& piece) const;
  void update(const StepSettings& settings);
};

}  // namespace longhaul::optim
