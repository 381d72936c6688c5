// adapted_linear: the product of a frozen weight and of low-rank adapters beside it (LoRA, arXiv 2106.09685):
//
//   y = x Wᵀ + b;   to columns [first, first + out_i) of y comes  (scale · x A_iᵀ) B_iᵀ  of each adapter i
//
// The matrices A_i that read x stand one below the other in one weight, so x is read once for all. Only A and
// B have gradients, which are added to their sinks; the backward pass computes no product for W but the
// gradient of x, if that is wanted. Each product is one of kernels/linear and chooses its implementation
// there; a row of y depends on its row of x only. merged_weight: what one product without adapters would
// need.
#pragma once

#include <vector>

#include "kernels/linear/feed_forward.h"

namespace longhaul::kernels {

struct AdapterUp {
  LinearWeights weights;     // B [out_i, rank], without a bias
  int64_t first_column = 0;  // of y
  int64_t first_rank = 0;    // of the rows of A
};

// x_ti [tokens, in], base [out, in], down [ranks, in] → [tokens, out].
Tensor adapted_linear(const Tensor& x_ti, const LinearWeights& base, const LinearWeights& down,
                      const std::vector<AdapterUp>& ups, double scale);

// y_to += what the adapters make of x; without a gradient. Returns scale · x Aᵀ [tokens, ranks].
Tensor add_adapters(const Tensor& y_to, const Tensor& x_ti, const LinearWeights& down,
                    const std::vector<AdapterUp>& ups, double scale);

// W with scale · B_i A_i added to its rows, in the precision of sums (fp32; fp64 for fp64). No gradient.
Tensor merged_weight(const Tensor& weight_oi, const Tensor& down_ri, const std::vector<AdapterUp>& ups,
                     double scale);

}  // namespace longhaul::kernels
