// Activations: one pass over memory forward and one backward; only the input is kept.
//
//   silu_heads y = x σ(x) over a fused [query | key | value], returned as three views of heads; backward
//              gathers the three gradients: dx = dy σ (1 + x (1 − σ))
//   swiglu     y = silu(gate) up, where a row of x holds gate and up next to each other       (arXiv
//              2002.05202)
//   bias_gelu  y = gelu(x + bias), tanh form; the bias' gradient is added to a sink (kernels/linear) in the
//              same pass
//
// Computed in fp32 (fp64 for fp64 inputs) and rounded once to the dtype of x. Column sums are over fixed
// blocks of rows (kernels/vector/row_blocks.h), so results do not depend on the number of threads.
#pragma once

#include "kernels/gradient_sink.h"
#include "tensor/tensor.h"

namespace longhaul::kernels {

Tensor swiglu(const Tensor& x_t2f);  // [tokens, 2·F], gate first → [tokens, F]

struct Heads {
  Tensor q_thd, k_thd, v_thd;  // [tokens, heads, head_dim]; views of one tensor, rows far apart
};
// x_tc [tokens, (heads + 2 kv_heads) · head_dim].
Heads silu_heads(const Tensor& x_tc, int64_t heads, int64_t kv_heads, int64_t head_dim);

// bias_c: [channels] in the dtype of x, or undefined. bias_sink: [channels] fp32 (fp64 for fp64), to which
// the bias' gradient is added (undefined: not wanted).
Tensor bias_gelu(const Tensor& x_tc, const Tensor& bias_c, const GradientSink& bias_sink);

// The same with ATen operators under autograd: the references, which also run where the CPU's loops do not.
// The bias of bias_gelu gets its gradient from autograd.
Tensor silu_reference(const Tensor& x_tc);
Tensor swiglu_reference(const Tensor& x_t2f);
Tensor bias_gelu_reference(const Tensor& x_tc, const Tensor& bias_c);

}  // namespace longhaul::kernels
