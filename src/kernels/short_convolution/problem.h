// A call of short_convolution as its implementations get it: arguments checked, outside autograd, x with
// contiguous rows however far apart, weight turned to [W, C], weight and bias in fp32 (fp64 for fp64 inputs).
#pragma once

#include <vector>

#include "kernels/short_convolution/op.h"

namespace longhaul::kernels {

struct ConvolutionProblem {
  Tensor x_tc, weight_wc, bias_c, initial_state_nwc;  // the last two may be undefined
  std::vector<int64_t> offsets;
  ShortConvolutionOptions options;

  int64_t width() const { return weight_wc.size(0); }
  int64_t channels() const { return x_tc.size(1); }
  int64_t documents() const { return static_cast<int64_t>(offsets.size()) - 1; }
};

struct ConvolutionGradients {
  Tensor x_tc, weight_wc, bias_c, initial_state_nwc;  // undefined where the problem has none
};

// An implementation.
struct ConvolutionForm {
  ShortConvolutionResult (*forward)(const ConvolutionProblem& problem);
  // d_final_nwc may be undefined: zeros.
  ConvolutionGradients (*backward)(const ConvolutionProblem& problem, const Tensor& dy_tc,
                                   const Tensor& d_final_nwc);
};

}  // namespace longhaul::kernels
