// Element-wise operations that the mixers of the linear-attention family apply to queries, keys and gates
// around the recurrence (docs/sources/linear-attention.md §1), each in one pass over memory:
//
//   features       y = φ(x), and if there are angles a for each channel or pair (positions times
//                  frequencies), per head of D channels
//     cosine       y = [φ(x) cos a | φ(x) sin a]: products of two such heads are Σ φ(q) φ(k) cos(a_q − a_k)
//                  LRPE, arXiv 2307.14995
//     rotary       y_j = x_j cos a_j − x_{j+D/2} sin a_j,  y_{j+D/2} = x_{j+D/2} cos a_j + x_j sin a_j
//                  arXiv 2104.09864
//   gated          y = n ⊙ φ(u)
//
// φ: the identity, silu, relu or sigmoid. Computed in fp32 (fp64 for fp64 inputs), with one rounding for
// each element stored; only x and u are kept. x and u may be columns of a wider matrix. Implementations:
// cuda (our kernels, bf16), cpu (vector loops), meta, aten (LibTorch's operators, any device).
#pragma once

#include "kernels/feature_maps/kinds.h"
#include "tensor/tensor.h"

namespace longhaul::kernels {

// cos and sin of each token's angles, fp32 (fp64 for fp64 inputs), for the D channels (cosine) or D/2 pairs
// (rotary) of a head: [T, H·…] if each head has its own, or […] if all share them. Differentiable, for
// frequencies that are learned.
struct TurnTable {
  Tensor cos_tr, sin_tr;
};

// x_tc [T, H·D] → [T, H, D]; with a cosine turn [T, H, 2·D].
Tensor features(const Tensor& x_tc, int64_t heads, FeatureMap map, Turn turn = Turn::kNone,
                const TurnTable& table = {});
Tensor gated(const Tensor& n_tc, const Tensor& u_tc, FeatureMap map);  // both [T, C]

// The same with ATen operators under autograd.
Tensor features_reference(const Tensor& x_tc, int64_t heads, FeatureMap map, Turn turn = Turn::kNone,
                          const TurnTable& table = {});
Tensor gated_reference(const Tensor& n_tc, const Tensor& u_tc, FeatureMap map);

}  // namespace longhaul::kernels
