// Moving tokens to experts and back. Every token is copied once for each expert it chose, sorted by expert (stable: ties keep token
// order), and the experts' outputs come back weighted and summed in a fixed order, so results do not depend on threads.
#pragma once

#include <vector>

#include "tensor/tensor.h"

namespace longhaul::kernels {

struct ExpertAssignment {
  Tensor source_r;   // int64 [tokens · k]: token of each sorted row
  Tensor place_tk;   // int64 [tokens, k]: sorted row of each choice
  std::vector<int64_t> rows_per_expert;
};

ExpertAssignment assign_experts(const Tensor& choice_tk, int64_t experts);  // int64 [tokens, k] expert of each choice

// [tokens, hidden] → [tokens · k, hidden] sorted by expert. Differentiable.
Tensor permute_to_experts(const Tensor& x_td, const ExpertAssignment& assignment);

// Σ_k weight_tk · y[place_tk] → [tokens, hidden]. Differentiable in y and weight (weights fp32, fp64 for fp64 inputs).
Tensor combine_experts(const Tensor& y_rd, const Tensor& weight_tk, const ExpertAssignment& assignment);

}  // namespace longhaul::kernels
