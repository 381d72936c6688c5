// The gates of linear_recurrence (op.h) in LibTorch's operators, on whole tensors: for the reference, which
// is plain, and for the aten form, which differentiates them. The fast forms have their own, in the loops
// that read the logits (cpu_gate-inl.h, gate_kernels.h).
#pragma once

#include "kernels/linear_recurrence/problem.h"

namespace longhaul::kernels {

// Of logits x, elementwise, in the dtype of x, which is that of γ.
Tensor gate_decay(const RecurrenceGate& gate, const Tensor& x);  // λ
// k tied to it: 1 − λ, without the difference
Tensor gate_keys(const RecurrenceGate& gate, const Tensor& x_thk);

// From ∂λ less the gradient of tied keys: the gradients of x and, where there is one, of γ.
struct GateGradients {
  Tensor logits, lower_bound_hk;
};
GateGradients gate_gradients(const RecurrenceGate& gate, const Tensor& x, const Tensor& d_lambda);

// The same problem with log_decay, and keys, made beforehand, differentiable in x and γ: for the aten form.
RecurrenceProblem with_gate_made(RecurrenceProblem problem);

}  // namespace longhaul::kernels
