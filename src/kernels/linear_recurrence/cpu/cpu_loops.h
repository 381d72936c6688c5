// The loops over rows around the matrix products of the CPU recurrence: decays, masks, rounding, gradients of
// the decay. Raw pointers, one thread. Compiled for several instruction sets; recurrence_loops() gives the
// one that goes with the products' set.
//
// Element is bf16 (its bits, uint16_t) or fp32: what q, k, v and the operands of products are; sums are fp32.
// Rows follow each other at a stride `ld`, which may be negative. λ = e^g in (0, 1]; every decay is a product
// of consecutive λ, so it never overflows and is exact to a few units in the last place whatever the size of
// g (docs/sources/linear-attention.md §2: each exponent is a difference ≤ 0).
#pragma once

#include <cstdint>

#include "kernels/gemm/block.h"

namespace longhaul::kernels {

// A state, or its gradient, on its way through a segment: decay ∘ entered + sum, where sum began from zero
// with the segment.
struct PassingState {
  const float* entered = nullptr;                // null: zeros
  const float *decay = nullptr, *sum = nullptr;  // of the blocks so far; null before the first
  bool zero() const { return entered == nullptr && sum == nullptr; }
};

// A gate of one head (op.h).
struct HeadGate {
  const float* lower_bound = nullptr;  // γ, of each column; null: log_sigmoid
  float inverse_divisor = 1;           // 1/τ
};
// A gradient of λ is that of log λ over λ, which is a sum in which larger terms cancel: where a decay is
// smaller than this, too little is left of it.
constexpr float kSmallDecay = 1.0f / 64;

template <class Element>
struct RecurrenceLoops {
  // out [rows × columns]
  void (*copy_rows)(const Element* x, int64_t ld, int64_t rows, int64_t columns, Element* out);
  // not of zeros
  void (*round_state)(const PassingState& state, int64_t rows, int64_t columns, Element* out);
  // out_i = factor_i x_i.
  void (*scale_rows)(const Element* x, int64_t ld, const float* factor, int64_t rows, int64_t columns,
                     Element* out, int64_t ld_out);
  // out_i = first_i + factor_i second_i, rounded once; second may be null. With past_caches, rows of `out`
  // that are whole lines go past the caches. `add_rows` adds to fp32 sums instead.
  void (*join_rows)(const float* first, const float* second, int64_t ld, const float* factor, int64_t rows,
                    int64_t columns, bool past_caches, Element* out, int64_t ld_out);
  void (*add_rows)(const float* first, const float* second, int64_t ld, const float* factor, int64_t rows,
                   int64_t columns, float* out, int64_t ld_out);
  // out_i = factor_i Σ_c x_ic z_ic.
  void (*dot_rows)(const Element* x, int64_t ld, const float* z, int64_t ld_z, const float* factor,
                   int64_t rows, int64_t columns, float* out);

  // out_ij = scores_ij mask_ij for j ≤ first + i, else 0.
  void (*mask_scores)(const float* scores, const float* mask, int64_t ld, int64_t first, int64_t rows,
                      int64_t columns, Element* out, int64_t ld_out);
  // The transposed pair of backward: rows are keys j = first + r, columns queries i = first + c. a and p
  // (scores and dO Vᵀ) and mask share ld; where i < j the outputs are 0. With sums: w = a p mask for i > j;
  // key_sum_j = Σ_i w, query_sum_i += Σ_j w.
  void (*mask_pair)(const float* a, const float* p, const float* mask, int64_t ld, int64_t rows,
                    int64_t columns, Element* a_out, Element* p_out, int64_t ld_out, float* key_sum,
                    float* query_sum);

  // out_ic = x_ic f_ic with f = start Π λ over rows 0 … i (forward), f = Π λ over the rows after i
  // (backward), or, for a diagonal block of a gate with a bound, the decay from its middle row to row i,
  // above 1 before the middle (from_middle): what queries take; its inverse is what keys take.
  void (*scale_forward)(const Element* x, int64_t ld, const float* lambda, int64_t rows, int64_t columns,
                        float start, Element* out);
  void (*scale_backward)(const Element* x, int64_t ld, const float* lambda, int64_t rows, int64_t columns,
                         Element* out);
  void (*scale_from_middle)(const Element* x, int64_t ld, const float* lambda, int64_t rows, int64_t columns,
                            bool inverse, Element* out);
  // With the same f: sum_ic += f_ic z_ic and moment_ic += weight x_ic z_ic (x as the functions above left it;
  // weight 1, of an inverse −1).
  void (*add_forward)(const float* z, const Element* x, const float* lambda, int64_t rows, int64_t columns,
                      float start, float* sum, float* moment);
  void (*add_backward)(const float* z, const Element* x, const float* lambda, int64_t rows, int64_t columns,
                       float weight, float* sum, float* moment);
  void (*add_from_middle)(const float* z, const Element* x, const float* lambda, int64_t rows,
                          int64_t columns, bool inverse, float* sum, float* moment);

  // One diagonal block of at most 16 tokens with a decay per channel, exact: a_ij = Σ_c q_ic k_jc Π_{j < s ≤
  // i} λ_sc for j ≤ i.
  void (*diagonal_scores)(const Element* q, int64_t ld_q, const Element* k, int64_t ld_k, const float* lambda,
                          int64_t rows, int64_t columns, float* a, int64_t ld_a);
  // Its backward: at_ji = a_ij; with pt_ji = dO_i · v_j, times scale: dq, dk += their sums, moment += q ⊙ dq
  // − k ⊙ dk of these.
  void (*diagonal_gradients)(const Element* q, int64_t ld_q, const Element* k, int64_t ld_k,
                             const float* lambda, const float* pt, int64_t ld_pt, float scale, int64_t rows,
                             int64_t columns, float* at, float* dq, float* dk, float* moment);

  // out = 1 − e^g, without cancellation.
  void (*tied_keys)(const float* g, int64_t ld, int64_t rows, int64_t columns, Element* out);

  // One token of the recurrence itself: after_r = λ_r before_r + k_r v (before null: zeros; may be after),
  // out = scale Σ_r q_r after_r.
  void (*step)(const float* before, const float* lambda, const Element* q, const Element* k, const Element* v,
               float scale, int64_t rows, int64_t columns, float* after, Element* out);

  // Decays and, where they are asked for, keys tied to them, of a gate's logits.
  void (*gate_rows)(const HeadGate& gate, const float* x, int64_t ld, int64_t rows, int64_t columns,
                    float* lambda, Element* keys);
  // The gradient of one channel's λ without λ as a factor, token by token: slope_i = Σ_v S_{i−1} ⊙ D_i, from
  // its rows of the state that enters (null: zeros) and of the gradient that leaves (overwritten). q, k and
  // lambda point at the channel, their rows ld apart; v and d_o are [rows × columns], as is `before`, which
  // takes the states.
  void (*channel_slopes)(const float* state, float* gradient, const Element* q, const Element* k, int64_t ld,
                         const Element* v, const Element* d_o, const float* lambda, float scale, int64_t rows,
                         int64_t columns, float* before, float* slope);
};

// Those that know no Element.
struct StateLoops {
  // out = decay_r state + add, row by row; out may be state or add.
  void (*advance)(float* out, const float* decay, const float* state, const float* add, int64_t rows,
                  int64_t columns);
  // out_r = Σ_c x_rc y_rc
  void (*row_dots)(const float* x, const float* y, int64_t rows, int64_t columns, float* out);
  // lambda = e^g, [rows × columns]. Returns the largest g.
  float (*exponentials)(const float* g, int64_t ld, int64_t rows, int64_t columns, float* lambda);
  void (*products)(const float* lambda, int64_t rows, int64_t columns, float* total);  // total_c = Π_i λ_ic
  float (*smallest)(const float* x, int64_t count);
  // mask_ij = scale Π_{j < s ≤ i} λ_s for j ≤ i.
  void (*decay_mask)(const float* lambda, int64_t rows, float scale, float* mask, int64_t ld);
  // d_g_ic = Σ_{s ≥ i} moment_sc + Σ_{j < i} write_jc + total_c − λ_ic tied_ic (tied may be null).
  void (*decay_gradient)(const float* moment, const float* write, const float* total, const float* lambda,
                         const float* tied, int64_t rows, int64_t columns, float* d_g, int64_t ld);
  void (*widen_rows)(const uint16_t* x, int64_t ld, int64_t rows, int64_t columns, float* out);
  // Turns the gradient of log λ, [rows × columns], into that of the logits. d_bound (or null) += that of γ,
  // but for decays below kSmallDecay.
  void (*gate_gradient)(const HeadGate& gate, const float* x, int64_t ld, const float* lambda, int64_t rows,
                        int64_t columns, float* gradient, float* d_bound);
};

template <class Element>
const RecurrenceLoops<Element>& recurrence_loops();  // of the set that block_kernels() names
const StateLoops& state_loops();

}  // namespace longhaul::kernels
