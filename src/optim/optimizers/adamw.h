// AdamW (arXiv 1711.05101; docs/sources/optimizers.md §4): decoupled weight decay, both moments
// bias-corrected.
//   w ← w (1 − lr λ);  m ← β1 m + (1 − β1) g;  v ← β2 v + (1 − β2) g²
//   w ← w − lr/(1 − β1^t) · m / (sqrt(v)/sqrt(1 − β2^t) + ε)
// λ is 0 for tensors whose specification has decay = false; tensors of both kinds may share a value.
// Moments are fp32 (fp64 where the master is). On a CPU one pass over memory does everything: it reads and
// zeroes the gradient, updates m, v and the master, writes the working copy, rounded to nearest even, and
// packs its rows again where matrix products keep packed copies (Parameter::packed). The result depends
// neither on the number of threads nor on the instruction set.
#pragma once

#include "kernels/adamw/op.h"
#include "optim/optimizers/elementwise.h"

namespace longhaul::optim {

// How the update is computed. kAutomatic takes the first of these that supports the parameters: our CUDA
// kernel (fp32 state), the fused loops of the CPU, LibTorch's operations on any device. --explain-dispatch
// shows the choice as "adamw".
enum class AdamwImplementation { kAutomatic, kCuda, kFused, kTensorOperations };

class AdamW final : public Elementwise {
 public:
  AdamW(const recipe::OptimOptions& options, Members members,
        AdamwImplementation implementation = AdamwImplementation::kAutomatic);

 private:
  AdamwImplementation choose();
  kernels::AdamwScalars scalars(const StepSettings& settings, const Piece& piece) const;
  void update(const StepSettings& settings);
  void update_on_gpu(const StepSettings& settings);
  void update_stretch(const Stretch& stretch, const kernels::AdamwScalars& scalars);

  AdamwImplementation implementation_ = AdamwImplementation::kFused;
};

}  // namespace longhaul::optim
