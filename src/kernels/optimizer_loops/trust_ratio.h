// LAMB's trust ratio (docs/sources/optimizers.md §3), which the trainer and the operator for Python share.
#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/optimizer_loops/loops.h"
#include "recipe/sections/optim_options.h"

namespace longhaul::kernels {

// Whether the steps of a tensor with this weight decay are scaled at all.
inline bool has_trust_ratio(const recipe::OptimOptions& options, double weight_decay) {
  return weight_decay != 0 || options.nvlamb;
}

// ‖w‖/‖u‖ of one logical tensor that has a ratio, from the sums of all its elements, within the options'
// bounds. It is 1, which no bound changes, where one of the norms is 0.
inline double trust_ratio(const recipe::OptimOptions& options, const LambSums& sums) {
  if (!(sums.weights > 0 && sums.updates > 0)) return 1;
  const double ratio = std::max(std::sqrt(sums.weights / sums.updates), options.lamb_min_ratio);
  return options.lamb_max_ratio > 0 ? std::min(ratio, options.lamb_max_ratio) : ratio;
}

// What a new gradient counts in the first moment: β3.
inline double gradient_share(const recipe::OptimOptions& options) {
  return options.lamb_grad_averaging ? 1 - options.beta1 : 1;
}

}  // namespace longhaul::kernels
