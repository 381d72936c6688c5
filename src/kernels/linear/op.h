// linear: y = x Wᵀ + b for a weight whose gradient is added to a buffer of its own (the main gradient, fp32
// while x is bf16) instead of being returned through autograd: several micro-batches accumulate without a
// temporary, and a caller may postpone the product.
// grouped_linear: the same for rows sorted by expert, with one weight for each expert, all experts in one
// parallel region.
//
// Each of the three products chooses between our CUDA kernels (matmul/, bf16, for experts), our packed
// kernels (matmul/, bf16 and fp32 on the CPU) and LibTorch's. dispatch.h records the choices as linear,
// linear_input_gradient, linear_weight_gradient, the same with the prefix grouped_, and as linear_wide. The
// packed kernels give the same bits for every number of threads; without kept copies of the weight,
// LibTorch computes y and the gradient of x.
#pragma once

#include <vector>

#include "kernels/gradient_sink.h"
#include "kernels/matmul/packed_weight.h"
#include "tensor/tensor.h"

namespace longhaul::kernels {

// The destinations of the gradients of a weight and its bias.
struct LinearSinks {
  GradientSink weight, bias;

  bool wanted() const { return weight.wanted() || bias.wanted(); }
};

// The operands that a product sees in place of its own (kernels/spikes): counts of spikes times their
// threshold, and the weight as eight bits by groups hold it. Gradients pass straight through: that of x is
// the one of what was seen, and so is the weight's. x itself is kept for the backward pass, and counted
// again.
struct SpikeInput {
  double k = 0;  // 0: no spikes
  bool rounded_weight = false;
  bool wanted() const { return k > 0; }
};

// x_ti [tokens, in], weight_oi [out, in], bias_o [out] or undefined → [tokens, out]. Differentiable in x; the
// gradients of weight and bias are added to the sinks.
Tensor linear(const Tensor& x_ti, const Tensor& weight_oi, const Tensor& bias_o, const LinearSinks& sinks,
              KeptPacked kept = {}, const SpikeInput& spikes = {});

// x_ri [rows, in] sorted by expert, rows_per_expert on the host, weight_eoi [experts, out, in] → [rows, out].
// Experts without rows are skipped.
Tensor grouped_linear(const Tensor& x_ri, const std::vector<int64_t>& rows_per_expert,
                      const Tensor& weight_eoi, const GradientSink& sink, KeptPacked kept = {},
                      const SpikeInput& spikes = {});

// Logits: x Wᵀ [tokens, out] in fp32 (fp64 for fp64) with a weight [out, in]; the sums are not rounded to
// the dtype of x. No gradient.
Tensor linear_wide(const Tensor& x_ti, const Tensor& weight_oi, KeptPacked kept = {});

// sink += dyᵀ x, in the sink's precision.
void add_weight_gradient(const Tensor& sink_oi, const Tensor& dy_to, const Tensor& x_ti);

}  // namespace longhaul::kernels
