// Rotary positions by CUDA kernels on tensors of one device: x bf16, cos and sin fp32 [tokens, pairs],
// contiguous, or undefined: no rotation.
#pragma once

#include <array>

#include "kernels/cuda/calls.h"

namespace longhaul::kernels {

struct HeadsCuda {
  // The first `heads` heads of each row of x [tokens, row], in place.
  void (*rotate)(const Tensor& x_tc, int64_t heads, int64_t head_dim, const Tensor& cos_tr,
                 const Tensor& sin_tr);
  // The heads of queries, keys and values [tokens, heads, head_dim], whose rows are contiguous, side by side
  // into dx [tokens, row]; those of queries and keys turned back.
  void (*gather)(const std::array<Tensor, 3>& parts_thd, const Tensor& dx_tc, const Tensor& cos_tr,
                 const Tensor& sin_tr);
};

}  // namespace longhaul::kernels
