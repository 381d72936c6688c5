// short_convolution on the CPU.
#pragma once

#include "kernels/short_convolution/problem.h"

namespace longhaul::kernels {

ShortConvolutionResult convolution_forward_cpu(const ConvolutionProblem& problem);
// d_final_nwc may be undefined: zeros.
ConvolutionGradients convolution_backward_cpu(const ConvolutionProblem& problem, const Tensor& dy_tc,
                                              const Tensor& d_final_nwc);

}  // namespace longhaul::kernels
