// The row loops for routing and for moving tokens to experts: raw pointers and sizes, one thread. Hidden
// states are stored as `storage` says; router weights, logits, probabilities and mixing weights are fp32
// (fp64 for fp64).
#pragma once

#include <cstdint>

#include "kernels/vector/storage.h"

namespace longhaul::kernels {

// If even the largest probability of the given experts is less than this, their shares are computed from
// their logits, because exponentials end at e⁻⁸⁷, in fp64 at e⁻⁷⁰⁰ (vector-inl.h), and the loss of precision
// there must not matter.
inline constexpr float kVanishing = 1e-30F;
inline constexpr double kVanishingWide = 1e-285;

struct RouteForward {
  Storage storage;
  int64_t hidden, experts, k;
  const void *x_td, *router_ed;
  void *probability_te, *log_sum_t, *weight_tk;
  int64_t* choice_tk;
  bool given;  // choice_tk says which experts; else they are chosen
};
// Tokens [begin, end). sums [experts + 1]: Σ_t p_te, then Σ_t (log Σ_e exp logit)².
void route_rows(const RouteForward& problem, int64_t begin, int64_t end, void* sums);

struct RouteBackward {
  Storage storage;
  int64_t tokens, hidden, experts, k;
  const void *x_td, *router_ed, *probability_te, *log_sum_t, *weight_tk;
  const int64_t *choice_tk, *sequence_t;
  const void *d_weight_tk, *d_probability_sum_se, *d_log_sum_square;  // null: none
  void *d_logits_te, *dx_td;
  void* d_router_ed;  // added to
};
// d_logits and dx of tokens [begin, end)
void route_backward_rows(const RouteBackward& problem, int64_t begin, int64_t end);
// d_router's columns [begin, end), after that
void route_backward_columns(const RouteBackward& problem, int64_t begin, int64_t end);

struct Combine {
  Storage storage;
  int64_t hidden, k;
  const int64_t* place_tk;
  const void* weight_tk;  // null: ones
  const void* y_rd;
  void* out_td;
  const void* d_out_td;  // backward: dy[place] = weight · d_out, d_weight = ⟨d_out, y[place]⟩
  void *dy_rd, *d_weight_tk;
};
// out[t] = Σ_k weight · y[place], in the order of k
void combine_rows(const Combine& problem, int64_t begin, int64_t end);
void combine_backward_rows(const Combine& problem, int64_t begin, int64_t end);

}  // namespace longhaul::kernels
