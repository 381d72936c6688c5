// The feed-forward layer of experts with eight-bit weights (matmul/int8_weight.h), for inference: y =
// swiglu(x Wᵤᵀ) W_dᵀ for rows sorted by expert, with
//
//   (x Wᵀ)_o = scale_o · Σ_i x_i q_oi        summed in fp32 (fp64 for fp64), scaled, rounded once to the
//                                            type of x
//
// fused (CPU, bf16 and fp32): as in feed_forward, with the packed kernels' products, which widen the
// numbers in cache; a row's bits depend neither on the other rows nor on the number of threads. composed,
// for everything else: product, swiglu, product, each of which chooses its implementation; LibTorch's
// product widens one expert at a time, and only those that have rows. dispatch.h records the choices as
// int8_grouped_feed_forward and int8_grouped_linear. There is no gradient: an input that requires one is
// refused (kUsage).
#pragma once

#include <vector>

#include "kernels/matmul/int8_weight.h"

namespace longhaul::kernels {

// x [rows, in] sorted by expert → [rows, out].
Tensor int8_grouped_linear(const Tensor& x_ri, const std::vector<int64_t>& rows_per_expert,
                           const Int8Weight& weight);
// up [experts, 2F, in]: gate and up side by side; down [experts, out, F].
Tensor int8_grouped_feed_forward(const Tensor& x_rd, const std::vector<int64_t>& rows_per_expert,
                                 const Int8Weight& up, const Int8Weight& down);

}  // namespace longhaul::kernels
