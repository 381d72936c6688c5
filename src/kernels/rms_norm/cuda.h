// rms_norm on a GPU, with the residual added before and a gate applied after it where they are given (kernels/cuda/norm.h has the
// equations and the pointers). Weights are fp32; their gradients are added to what is there, in an order that does not vary.
#pragma once

#include "kernels/cuda/norm.h"

namespace longhaul::kernels::cuda {

void rms_norm_forward(const Norm& norm, Stream stream);
void rms_norm_backward(const Norm& norm, const NormGradient& gradient, Stream stream);  // norm.x is h; d_bias is not used

}  // namespace longhaul::kernels::cuda
