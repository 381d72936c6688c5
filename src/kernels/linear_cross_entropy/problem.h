// What every implementation of linear_cross_entropy receives: checked arguments in one struct. On the CPU only the tokens that have a
// label; elsewhere all, because picking some would make the host wait: those with a label below 0 get a loss and gradients of 0.
#pragma once

#include "kernels/linear_cross_entropy/op.h"

namespace longhaul::kernels {

struct CrossEntropyProblem {
  Tensor hidden_td, weight_vd, labels_t;  // contiguous; every label below vocabulary
  LinearCrossEntropyOptions options;
  KeptPacked kept;           // of weight_vd
  bool all_labelled = true;  // no label is below 0

  int64_t tokens() const { return hidden_td.size(0); }
  int64_t channels() const { return hidden_td.size(1); }
  int64_t vocabulary() const { return weight_vd.size(0); }
  ScalarType sum_type() const { return hidden_td.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }
};

// Where gradients go, times options.upstream. An undefined tensor is not wanted.
struct CrossEntropyGradients {
  Tensor hidden_td;  // written; dtype of hidden
  Tensor sink_vd;    // added to
  bool wanted() const { return hidden_td.defined() || sink_vd.defined(); }
};

// Each returns the loss of every token, [tokens] in sum_type().
Tensor cross_entropy_reference(const CrossEntropyProblem& problem, const CrossEntropyGradients& gradients);
Tensor cross_entropy_aten(const CrossEntropyProblem& problem, const CrossEntropyGradients& gradients);
Tensor cross_entropy_fused(const CrossEntropyProblem& problem, const CrossEntropyGradients& gradients);
Refusal refuse_cross_entropy_fused(const CrossEntropyProblem& problem, const CrossEntropyGradients& gradients);

}  // namespace longhaul::kernels
