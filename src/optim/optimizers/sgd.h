// SGD with momentum and decoupled weight decay. Each element has one state, or none without momentum. A
// step makes one pass over memory on a CPU (kernels/updates); on other devices it uses LibTorch's
// operations.
//   m ← μ m + g;  w ← w (1 − lr λ) − lr m, with Nesterov's momentum − lr (g + μ m)
#pragma once

#include "kernels/optimizer_loops/loops.h"
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
