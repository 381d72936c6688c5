// One step of an optimizer on whole tensors of one process, in place: torch.ops.longhaul.optimizer_step.
// Its result for a tensor is, to the bit, that of the trainer's optimizer of the same name on a CPU
// (src/optim, whose headers have the equations), because both use the same loops. It has no ranks, fused
// values, narrow states or working copies, which the trainer's optimizers add.
//
// A tensor of two dimensions is a matrix; one of more is a stack of matrices (experts), each treated
// separately: sums, clips and trust ratios are those of a matrix. Other tensors are vectors. Which states a
// tensor has, in which order, says the optimizer's entry (recipe/optimizers), and so do the options, their
// order and their ranges; the defaults are a recipe's. All states have the tensor's dtype. With [B] the
// dimensions of a stack, a state of rows is [B n], one of columns [B m], and all others are shaped like the
// tensor.
//
// Options are numbers: flags are 0 or 1, values of an enumeration 0, 1, … An optimizer of whole matrices has
// one more, bf16_products: 1 multiplies matrices in bf16, as the trainer does in bf16 runs. Gradients are
// used as they are (clip them before) and are not changed. CPU, fp32 or fp64, all tensors of a call alike; no
// two of them may share memory. Threads: one call at a time on the same tensors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"

namespace longhaul::kernels {

struct OptimizerStep {
  std::string name;
  std::vector<Tensor> values, gradients, states;  // states of the first value, then those of the second, …
  int64_t step = 1;                               // from 1: t of the bias corrections
  double lr = 0;
  std::vector<double> options;
};

// kUsage for arguments that do not fit, before anything is written. Meta tensors are only checked.
void optimizer_step(const OptimizerStep& call);

struct NamedState {
  std::string_view kind;  // "m"
  Tensor tensor;
};
// The states with which a run begins: zeros, in the order above.
std::vector<NamedState> optimizer_states(const std::string& name, const std::vector<Tensor>& values,
                                         const std::vector<double>& options);

}  // namespace longhaul::kernels
