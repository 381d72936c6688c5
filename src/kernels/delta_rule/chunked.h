// delta_rule in chunks (the WY form of arXiv 2406.06484, with decays as in 2412.06464 and 2510.26692). The
// writes u_t of delta_rule are values of a plain linear recurrence; within a chunk of B tokens that the state
// S enters they follow from one triangular system. With D_ij = Σ_{j < s ≤ i} log λ_s (per channel or one for
// all), never above 0, and sums over channels c:
//
//   a_ij = Σ_c k_ic k_jc e^{D_ijc}  (j < i)     p_ij = Σ_c q_ic k_jc e^{D_ijc}  (j ≤ i)     M = 1 + diag(β) a
//   U = U° − W S     U° = M⁻¹ diag(β) V     W = M⁻¹ diag(β) K'
//   O = scale · (Q' S + p U)            K' = K ⊙ e^{D_·0},  Q' = Q ⊙ e^{D_·0},  K° = K ⊙ e^{D_B·}
//   S_next = P S + K°ᵀ U°               P = diag(e^{D_B0}) − K°ᵀ W
//
// and backward, with G the gradient of S_next:
//
//   dU = dU° + K° G      dU° = scale · pᵀ dO      Z = M⁻ᵀ dU       Y = diag(β) Z
//   G_prev = Pᵀ G + scale · Q'ᵀ dO − Wᵀ dU°
//   dV = Y    dβ_i = z_i · (v_i − K'_i S − Σ_j a_ij u_j)    dK' = −Y Sᵀ    da = −Y Uᵀ    dp = scale · dO Uᵀ
//                                                                          dK° = U Gᵀ
//
// So one product of matrices with P a step, over all documents of a span at once (cut.h), is all that waits
// for another; the rest is done for all chunks of a span together. M⁻¹ is found by doubling: with N the
// inverse of the blocks of b tokens, and C what M has in the lower left of blocks of 2b, that of the blocks
// of 2b is N − N C N, which is products only, and as exact as substitution.
//
// D is summed term by term, not taken as a difference of two sums, which one steep decay would leave without
// digits. A decay per channel holds D for every channel, so its chunks are shorter. What is kept for the
// backward pass is the state that enters a span within a document; everything else is made again.
//
// LibTorch's operators, outside autograd; any device. Everything is in the dtype of the state: operands are
// fp32 when they are multiplied, and rounding each to bf16 first would cost a pass over memory that takes
// longer than the product saves. Plain data; not thread-safe.
#pragma once

#include "kernels/delta_rule/cut.h"
#include "kernels/delta_rule/problem.h"

namespace longhaul::kernels {

// By tokens on the CPU, whose caches they should fit, and one document at a time; elsewhere by bytes, and as
// many documents as leave 16 steps between states that are kept, because every step is started by the host
// and the fewer there are the better.
DeltaRoom delta_room(const DeltaRuleProblem& problem);

// kept: what the backward pass reads besides the inputs (null: not wanted), in the same room. d_final may be
// undefined: zeros.
LinearRecurrenceResult delta_rule_forward_chunked(const DeltaRuleProblem& problem, const DeltaRoom& room,
                                                  Tensor* kept);
DeltaRuleGradients delta_rule_backward_chunked(const DeltaRuleProblem& problem, const DeltaRoom& room,
                                               const Tensor& kept, const Tensor& d_o_thd,
                                               const Tensor& d_final_nhkv);

// One span: operands [C, H, B, …] in the dtype of the state, zero where padded; e a decay's axis, 1 long
// without a decay per channel.
class DeltaSpan {
 public:
  DeltaSpan(const DeltaRuleProblem& problem, const DeltaSpanCut& cut, int64_t width);

  // States of the span's documents, [n, H, K, V]: those of all documents → theirs, and back.
  Tensor states_of(const Tensor& all) const { return all.index_select(0, documents_); }
  void put_states(const Tensor& states, const Tensor& all) const { all.index_copy_(0, documents_, states); }

  Tensor advance(const Tensor& entering);  // the states that enter → those that leave
  void read(const Tensor& o_thd) const;    // after advance: writes the tokens of this span
  // After advance. The gradients of the states that leave → those of the states that enter.
  Tensor backward(const Tensor& d_o_thd, const Tensor& d_leaving, const DeltaRuleGradients& out) const;

 private:
  Tensor of_places(const Tensor& x_thd) const;  // [T, Hx, D] → [C, H, B, D], heads repeated
  // back: [C, Hx, B, D] → the tokens of this span
  void put_tokens(const Tensor& x_chbd, const Tensor& out_thd) const;
  // Returns the rows that belong to step s and its first `count` documents, for products: [count · H, …].
  Tensor of_step(const Tensor& x, size_t s, int64_t count) const;
  int64_t documents_at(size_t s) const { return cut_.steps[s + 1] - cut_.steps[s]; }  // 0 behind the last
  size_t steps() const { return cut_.steps.size() - 1; }
  void make_decays();
  // `gradients` of what the chunks read of their own states become those of the states that enter them;
  // returns those of the states that leave them.
  Tensor walk_back(const Tensor& gradients, const Tensor& d_leaving) const;

  const DeltaRuleProblem& problem_;
  const DeltaSpanCut& cut_;
  int64_t count_, width_;                             // chunks, tokens of one
  Tensor documents_, last_, places_, place_, token_;  // of the cut, on the device
  Tensor padding_;                     // bool [C · B, 1, 1]; undefined where every place has a token
  Tensor q_, k_, v_, beta_;            // beta [C, H, B, 1]
  Tensor within_;                      // [C, H, B, B, e]: e^{D_ij} for j ≤ i, else 0
  Tensor from_begin_, to_end_, kept_;  // e^{D_i0}, e^{D_Bj} [C, H, B, e]; e^{D_B0} [C, H, e, 1]
  Tensor a_, p_, inverse_;             // [C, H, B, B]: M⁻¹
  Tensor w_, passes_;                  // [C, H, B, K]; P [C, H, K, K]
  Tensor u_, entering_;                // [C, H, B, V], [C, H, K, V]
};

}  // namespace longhaul::kernels
