// The raw level of attention: dispatched like op.h's, without autograd, with everything an argument. Its
// callers are autograd (op.cpp), context parallelism, and any code that holds keys in parts:
//
//   forward    each part of the keys gives (o, log-sum-exp); merge_attention combines two such results into
//              that of both parts
//   backward   each (range of queries, range of keys) adds its share to dq, dk and dv, given the
//              log-sum-exp and delta of all keys
//
//   o = Σ_j p_j v_j,  p_j = exp(scale q·k_j − ℓ),  ℓ = log Σ_j exp(scale q·k_j)
//   δ = do·o − dℓ,  ds_j = p_j (do·v_j − δ)
//
// Visibility::pair says which keys of a range the queries of a range see. Source:
// docs/sources/long-context-parallelism.md A6.
#pragma once

#include "kernels/attention/op.h"
#include "kernels/attention/visibility.h"

namespace longhaul::kernels {

struct AttentionProblem {
  Tensor q_thd, k_shd, v_shd;  // [T,H,D], [S,Hk,D], [S,Hk,Dv]
  Visibility visible;
  double scale = 1.0;

  int64_t heads() const { return q_thd.size(1); }
  int64_t group() const { return q_thd.size(1) / k_shd.size(1); }
  ScalarType sum_type() const { return q_thd.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }
};

struct AttentionOutside {         // of all keys, not of the problem's alone
  Tensor d_o_thd;                 // dtype of v
  Tensor logsumexp_th, delta_th;  // fp32 (fp64)
  Tensor o_thd{};                 // dtype of v; where given, an implementation may make δ from it
};

struct AttentionGradients {
  Tensor q_thd, k_shd, v_shd;
};

// wide: o in fp32 (fp64 for fp64 inputs), as merge_attention wants it; else in v's dtype. Rows that see
// nothing: o = 0, log-sum-exp −∞.
AttentionResult attention_forward(const AttentionProblem& problem, bool wide = false);

// `into` becomes the result over the keys of both; o of both in the dtype of the log-sum-exp. In any order
// and grouping the same but for rounding.
void merge_attention(const AttentionResult& into, const AttentionResult& part);

// δ [T,H] in fp32 (fp64); o in any dtype; d_logsumexp [T,H] or undefined.
Tensor attention_delta(const Tensor& o_thd, const Tensor& d_o_thd, const Tensor& d_logsumexp_th);

// Adds to `into`, which are fp32 (fp64), channels contiguous. dk and dv are summed over the query heads of a
// group.
void attention_backward(const AttentionProblem& problem, const AttentionOutside& outside,
                        const AttentionGradients& into);

}  // namespace longhaul::kernels
