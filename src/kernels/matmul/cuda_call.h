// The products of experts by CUDA kernels on tensors of one device: bf16, contiguous, rows sorted by expert;
// the sink fp32.
#pragma once

#include <vector>

#include "kernels/cuda/calls.h"

namespace longhaul::kernels {

struct MatmulCuda {
  // Of expert e with weight [out, in]: y = x Wᵀ, or with `transposed` y = x W.
  Tensor (*grouped)(const Tensor& x_ri, const std::vector<int64_t>& rows_per_expert, const Tensor& weight_eoi,
                    bool transposed);
  // sink[e] += dyᵀ x over the rows of expert e.
  void (*add_grouped_weight_gradients)(const Tensor& sink_eoi, const Tensor& dy_ro, const Tensor& x_ri,
                                       const std::vector<int64_t>& rows_per_expert);
};

}  // namespace longhaul::kernels
