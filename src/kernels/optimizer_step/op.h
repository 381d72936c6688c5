// One step of an optimizer on whole tensors of one process, in place: torch.ops.longhaul.optimizer_step.
// Its result for a tensor is, to the bit, that of the trainer's optimizer of the same name on a CPU
// (src/optim, whose headers have the equations), because both use the same loops. It has no ranks, fused
// values, narrow states or working copies, which the trainer's optimizers add.
//
// A tensor of two dimensions is a matrix; one of more is a stack of matrices (experts), each treated
// separately: sums, clips and trust ratios are those of a matrix. Other tensors are vectors. The states of
// a tensor, in this order, all in the tensor's dtype; [B] are the dimensions of a stack:
//
//   adamw, lamb   m, v                     as the tensor
//   lion, muon    momentum                 as the tensor
//   sgd           momentum                 as the tensor; none with momentum 0
//   came          momentum                 as the tensor; then for matrices row_mean [B n], column_mean [B
//                 m], row_residual [B n], column_residual [B m], for vectors second_moment, as the tensor
//   adafactor     momentum                 as the tensor, with a momentum above 0; then row_mean [B n],
//                 column_mean [B m], or second_moment
//   sm3           momentum                 likewise; then row_bound [B n], column_bound [B m], or
//                 sum_of_squares
//
// Options are numbers in the order of kStepRules; omitted ones have the defaults given there, which are
// those of a recipe. Flags are 0 or 1. Gradients are used as they are (clip them before) and are not
// changed. CPU, fp32 or fp64, all tensors of a call alike; no two of them may share memory. Threads: one
// call at a time on the same tensors.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"

namespace longhaul::kernels {

struct StepOption {
  std::string_view name;
  double initial = 0, least = 0, most = 0;
  bool whole = false;  // 0, 1, …
};

struct StepRule {
  std::string_view name;
  std::span<const StepOption> options;
};
std::span<const StepRule> step_rules();

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
