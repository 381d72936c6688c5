// delta_rule in chunks (the WY form of arXiv 2406.06484, with decays as in 2412.06464 and 2510.26692). The
// writes u_t of delta_rule are values of a plain linear recurrence; within a chunk of B tokens that the state
// S enters they follow from one triangular system. With D_ij = Σ_{j < s ≤ i} log λ_s (per channel or one for
// all), never above 0, and sums over channels c:
//
//   a_ij = Σ_c k_ic k_jc e^{D_ijc}  (j < i)     p_ij = Σ_c q_ic k_jc e^{D_ijc}  (j ≤ i)     M = 1 + diag(β) a
//   U = M⁻¹ diag(β) (V − K' S)                  K' = K ⊙ e^{D_·0},  Q' = Q ⊙ e^{D_·0},  K° = K ⊙ e^{D_B·}
//   O = scale · (Q' S + p U)                    S_next = e^{D_B0} ⊙ S + K°ᵀ U
//
// and backward, with G the gradient of S_next:
//
//   dU = scale · pᵀ dO + K° G      Z = M⁻ᵀ dU       Y = diag(β) Z
//   G_prev = scale · Q'ᵀ dO + e^{D_B0} ⊙ G − K'ᵀ Y
//   dV = Y    dβ_i = z_i · (v_i − K'_i S − Σ_j a_ij u_j)    dK' = −Y Sᵀ    da = −Y Uᵀ    dp = scale · dO Uᵀ
//                                                                          dK° = U Gᵀ
//
// D is summed term by term, not taken as a difference of two sums, which one steep decay would leave without
// digits. A decay per channel holds D for every channel, so its chunks are shorter. A few chunks are worked
// on at once, a span: what is kept for the backward pass is the state that enters each span, and everything
// else is made again. LibTorch's operators, outside autograd; any device. Plain data; not thread-safe.
#pragma once

#include "kernels/delta_rule/problem.h"
#include "kernels/document_chunks.h"

namespace longhaul::kernels {

// All chunks of a problem.
struct DeltaCut {
  explicit DeltaCut(const DeltaRuleProblem& problem);
  int64_t spans() const { return (chunks.chunks() + span_chunks - 1) / span_chunks; }

  DocumentChunks chunks;
  int64_t span_chunks;
  Tensor token, place, padded;  // on the device; padded: bool [chunks, width, 1, 1]
};

// One span: operands [C, H, B, …] in the dtype of the state, zero where padded; e a decay's axis, 1 long
// without a decay per channel.
class DeltaSpan {
 public:
  DeltaSpan(const DeltaRuleProblem& problem, const DeltaCut& cut, int64_t number);

  // Walks the chunks: `states` [N, H, K, V] of the documents are advanced.
  void advance(const Tensor& states_nhkv);
  void read(const Tensor& o_thd) const;  // writes the tokens of this span
  // After advance. d_states: the gradients of the states that leave, which become those of the states that
  // enter.
  void backward(const Tensor& d_o_thd, const Tensor& d_states_nhkv, const DeltaRuleGradients& out) const;

  int64_t first_document() const { return document(0); }

 private:
  int64_t document(int64_t chunk) const { return cut_.chunks.document[static_cast<size_t>(first_ + chunk)]; }
  Tensor of_places(const Tensor& x_thd) const;   // [T, Hx, D] → [C, H, B, D], heads repeated
  Tensor of_tokens(const Tensor& x_chbd) const;  // back → [tokens of this span, H, D]
  void make_decays();
  // From the last chunk to the first: dU becomes whole, and → G of the states that leave each, [C, H, K, V].
  Tensor walk_back(const Tensor& d_o, const Tensor& d_u, const Tensor& d_states) const;

  const DeltaRuleProblem& problem_;
  const DeltaCut& cut_;
  int64_t first_, count_;              // chunks
  int64_t begin_, tokens_ = 0;         // tokens
  Tensor q_, k_, v_, beta_;            // beta [C, H, B, 1]
  Tensor within_;                      // [C, H, B, B, e]: e^{D_ij} for j ≤ i, else 0
  Tensor from_begin_, to_end_, kept_;  // e^{D_i0}, e^{D_Bj} [C, H, B, e]; e^{D_B0} [C, H, e, 1]
  Tensor a_, p_, system_;              // [C, H, B, B]
  Tensor w_;                           // M⁻¹ diag(β) K'
  Tensor u_, entering_;                // [C, H, B, V], [C, H, K, V]
};

}  // namespace longhaul::kernels
