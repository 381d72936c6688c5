// AdamW (arXiv 1711.05101; specs: optimizers.md §4): decoupled weight decay, both moments bias-corrected.
//   w ← w (1 − lr λ);  m ← β1 m + (1 − β1) g;  v ← β2 v + (1 − β2) g²
//   w ← w − lr/(1 − β1^t) · m / (sqrt(v)/sqrt(1 − β2^t) + ε)
// λ is 0 for tensors whose specification has decay = false; tensors of both kinds may share a value. Moments are fp32 (fp64 where
// the master is). On a CPU one pass over memory does it all: reads and zeroes the gradient, updates m, v and master, writes the
// working copy, rounded to nearest even, and packs its rows anew where products keep packed copies (Parameter::packed); the result does
// not depend on the number of threads, nor on the instruction set.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/adamw/op.h"
#include "optim/optimizer.h"

namespace longhaul::optim {

// How the update is computed: kAutomatic is the first of these that takes the parameters: our CUDA kernel (fp32 state), the fused loops of
// the CPU, LibTorch's operations on any device. --explain-dispatch says which, as "adamw".
enum class AdamwImplementation { kAutomatic, kCuda, kFused, kTensorOperations };

class AdamW final : public Optimizer {
 public:
  // kUsage when the dtypes of `precision` have no implementation: master, moments and main gradient must agree (fp32 or fp64), and
  // the working copy is of the same dtype, or bf16 beside fp32.
  AdamW(const recipe::OptimOptions& options, model::ParameterSet& parameters, Precision precision,
        AdamwImplementation implementation = AdamwImplementation::kAutomatic);
  std::vector<StateTensor> state() override;

 private:
  struct Piece {  // a run of elements of this rank's share of one parameter
    size_t parameter = 0;
    int64_t begin = 0, length = 0;
    double weight_decay = 0, lr_factor = 1;
    bool trainable = true;
    bool like(const Piece& other) const {
      return parameter == other.parameter && weight_decay == other.weight_decay && lr_factor == other.lr_factor &&
             trainable == other.trainable;
    }
  };
  struct Stretch {  // of a piece, what one thread does at a time
    const Piece* piece = nullptr;
    int64_t begin = 0, length = 0;  // elements of that share
    bool packs = false;             // whole rows, which are packed anew
  };
  void list_pieces();
  AdamwImplementation choose(bool on_cpu);
  kernels::AdamwScalars scalars(const StepSettings& settings, const Piece& piece) const;
  void update(const StepSettings& settings);
  void update_on_gpu(const StepSettings& settings);
  void update_fused(const StepSettings& settings);
  bool packs(const Piece& piece) const;
  std::vector<Stretch> stretches_of(const Piece& piece) const;
  void update_piece(const Piece& piece, int64_t begin, int64_t length, const kernels::AdamwScalars& scalars);
  void pack_rows(const Stretch& stretch);
  void update_with_tensor_operations(const Piece& piece, const kernels::AdamwScalars& scalars);

  recipe::OptimOptions options_;
  std::vector<Tensor> m_, v_;  // per parameter, of the share; undefined for frozen ones
  std::vector<Piece> pieces_;
  AdamwImplementation implementation_ = AdamwImplementation::kFused;
};

}  // namespace longhaul::optim
