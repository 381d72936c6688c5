// Rotary positions by CUDA kernels on tensors of one device: x bf16, cos and sin fp32 [tokens, pairs],
// contiguous, or undefined: no rotation.
#pragma once

#include "kernels/cuda/calls.h"

namespace longhaul::kernels {

struct HeadsCuda {
  // The first `heads` heads of each row of x [tokens, row], in place.
  void (*rotate)(const Tensor& x_tc, int64_t heads, int64_t head_dim, const Tensor& cos_tr,
                 const Tensor& sin_tr);
  // The heads of part [tokens, heads, head_dim], whose rows are contiguous, turned back into dx [tokens, row]
  // from column `column` on.
  void (*gather)(const Tensor& part_thd, const Tensor& dx_tc, int64_t column, const Tensor& cos_tr,
                 const Tensor& sin_tr);
};

}  // namespace longhaul::kernels
