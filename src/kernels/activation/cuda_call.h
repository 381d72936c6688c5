// The activations' CUDA kernels on tensors: contiguous, of one device, bf16; outputs are written, sinks added
// to.
#pragma once

#include "kernels/cuda/calls.h"

namespace longhaul::kernels {

struct ActivationCuda {
  void (*silu_forward)(const Tensor& x, const Tensor& y);
  void (*silu_backward)(const Tensor& x, const Tensor& dy, const Tensor& dx);
  void (*swiglu_forward)(const Tensor& x_t2f, const Tensor& y_tf);
  void (*swiglu_backward)(const Tensor& x_t2f, const Tensor& dy_tf, const Tensor& dx_t2f);
  // bias bf16 and sink fp32 [channels], or both undefined.
  void (*bias_gelu_forward)(const Tensor& x_tc, const Tensor& bias_c, const Tensor& y_tc);
  void (*bias_gelu_backward)(const Tensor& x_tc, const Tensor& bias_c, const Tensor& dy_tc,
                             const Tensor& dx_tc, const Tensor& sink_c);
  // sink_c fp32 += Σ over the rows of dy_tc: the gradient of a bias without an activation.
  void (*add_bias_gradient)(const Tensor& dy_tc, const Tensor& sink_c);
};

}  // namespace longhaul::kernels
