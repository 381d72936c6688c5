// attention: softmax attention over packed documents (FlashAttention-2's contract, arXiv 2307.08691).
//
//   o_t = Σ_{s in doc(t), s ≤ t, s > t − window} softmax_s(scale · q_t·k_s) v_s
//   not causal: the sum is over all s in doc(t) with |s − t| < window
//
// GQA follows from the head counts: query head h reads key head h / (H / Hk). Scores and softmax are
// computed in fp32 (fp64 for fp64 inputs). A row with no visible key gives o = 0 and log-sum-exp −∞.
// Differentiable in q, k, v through o and the log-sum-exp. q, k, v may be narrow()s of one tensor: only
// channels need to be contiguous.
//
// Implementations, in the order in which they are tried: flash (LibTorch's flash attention, bf16 on a GPU),
// cuda (our own, for what flash refuses), cpu (our own, bf16 and fp32; bitwise independent of the number of
// threads), meta (shapes only), aten (LibTorch's operators, every case, any device; the scores of some rows
// exist at once). In addition reference (plain loops), for comparison. Gradients are the same from run to
// run.
#pragma once

#include "kernels/dispatch.h"
#include "tensor/tensor.h"

namespace longhaul::kernels {

struct AttentionOptions {
  double scale = 1.0;
  int64_t window = 0;  // 0: none; w: each token sees w keys including itself
  bool causal = true;  // false: later keys are visible too (visibility.h); not supported by attention_paged
};

struct AttentionResult {
  Tensor o_thd;         // [T, H, Dv], dtype of v
  Tensor logsumexp_th;  // [T, H] fp32 (fp64 for fp64 inputs)
};

// q_thd [T,H,D], k_shd [S,Hk,D], v_shd [S,Hk,Dv]; offsets: int64 [N+1] on the CPU, the boundaries of q's
// documents, or undefined (one document). key_offsets: the boundaries of k's and v's documents if they
// differ from q's (in decoding, the last q token sees the last key), or undefined.
AttentionResult attention(const Tensor& q_thd, const Tensor& k_shd, const Tensor& v_shd,
                          const Tensor& offsets, const Tensor& key_offsets, const AttentionOptions& options);

AttentionResult attention_reference(const Tensor& q_thd, const Tensor& k_shd, const Tensor& v_shd,
                                    const Tensor& offsets, const Tensor& key_offsets,
                                    const AttentionOptions& options);

}  // namespace longhaul::kernels
