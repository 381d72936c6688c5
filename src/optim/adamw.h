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

#include "optim/element_loops.h"
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
  struct Piece {  // a run of elements of one parameter
    size_t parameter = 0;
    int64_t begin = 0, length = 0;
    double weight_decay = 0;
    bool trainable = true;
  };
  struct Stretch {  // of a piece, what one thread does at a time
    const Piece* piece = nullptr;
    int64_t begin = 0, length = 0;  // elements of the parameter
    bool packs = false;             // whole rows, which are packed anew
  };
  void list_pieces();
  AdamwImplementation choose(bool on_cpu);
  AdamwScalars scalars(const StepSettings& settings) const;
  void update(const StepSettings& settings);
  void update_on_gpu(const AdamwScalars& common, double lr);
  void update_fused(const AdamwScalars& common, double lr);
  bool packs(const Piece& piece) const;
  std::vector<Stretch> stretches_of(const Piece& piece) const;
  void update_piece(const Piece& piece, int64_t begin, int64_t length, const AdamwScalars& scalars);
  void pack_rows(const Stretch& stretch);
  void update_with_tensor_operations(const Piece& piece, const AdamwScalars& scalars);

  recipe::OptimOptions options_;
  std::vector<Tensor> m_, v_;  // per parameter; undefined for frozen ones
  std::vector<Piece> pieces_;
  AdamwImplementation implementation_ = AdamwImplementation::kFused;
};

// The reference: one step t (from 1) on one matrix of n elements, in plain loops. Real is float or double.
struct AdamwReferenceStep {
  double lr = 0, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0;
  double gradient_scale = 1;
  int64_t t = 1;
};
template <class Real>
void adamw_reference(std::span<Real> weight, std::span<Real> m, std::span<Real> v, std::span<const Real> gradient,
                     const AdamwReferenceStep& step);
extern template void adamw_reference(std::span<float>, std::span<float>, std::span<float>, std::span<const float>,
                                     const AdamwReferenceStep&);
extern template void adamw_reference(std::span<double>, std::span<double>, std::span<double>, std::span<const double>,
                                     const AdamwReferenceStep&);

}  // namespace longhaul::optim
