#include "kernels/activation/cuda_call.h"

#include "kernels/activation/cuda.h"
#include "kernels/cuda/tensors.h"

namespace longhaul::kernels {
namespace {

using cuda::bf16;
using cuda::bf16_out;

void silu_forward(const Tensor& x, const Tensor& y) {
  const cuda::OnDevice device(x);
  cuda::silu_forward(bf16(x), bf16_out(y), x.numel(), device.stream());
}
void silu_backward(const Tensor& x, const Tensor& dy, const Tensor& dx) {
  const cuda::OnDevice device(x);
  cuda::silu_backward(bf16(x), bf16(dy), bf16_out(dx), x.numel(), device.stream());
}

void swiglu_forward(const Tensor& x, const Tensor& y) {
  const cuda::OnDevice device(x);
  cuda::swiglu_forward(bf16(x), bf16_out(y), y.size(0), y.size(1), device.stream());
}
void swiglu_backward(const Tensor& x, const Tensor& dy, const Tensor& dx) {
  const cuda::OnDevice device(x);
  cuda::swiglu_backward(bf16(x), bf16(dy), bf16_out(dx), dy.size(0), dy.size(1), device.stream());
}

Tensor wide(const Tensor& bias) { return bias.defined() ? bias.to(at::kFloat) : bias; }

void bias_gelu_forward(const Tensor& x, const Tensor& bias, const Tensor& y) {
  const cuda::OnDevice device(x);
  const Tensor wide_bias = wide(bias);
  cuda::bias_gelu_forward(bf16(x), cuda::fp32(wide_bias), bf16_out(y), x.size(0), x.size(1), device.stream());
}
void bias_gelu_backward(const Tensor& x, const Tensor& bias, const Tensor& dy, const Tensor& dx,
                        const Tensor& sink) {
  const cuda::OnDevice device(x);
  const Tensor wide_bias = wide(bias),
               partial = cuda::workspace(cuda::bias_workspace_bytes(x.size(0), x.size(1)), x);
  cuda::bias_gelu_backward(bf16(x), cuda::fp32(wide_bias), bf16(dy), bf16_out(dx), cuda::fp32_out(sink),
                           partial.mutable_data_ptr(), x.size(0), x.size(1), device.stream());
}
void add_bias_gradient(const Tensor& dy, const Tensor& sink) {
  const cuda::OnDevice device(dy);
  const Tensor partial = cuda::workspace(cuda::bias_workspace_bytes(dy.size(0), dy.size(1)), dy);
  cuda::bias_gradient(bf16(dy), cuda::fp32_out(sink), partial.mutable_data_ptr(), dy.size(0), dy.size(1),
                      device.stream());
}

const CudaCalls<ActivationCuda> registered({.silu_forward = silu_forward,
                                            .silu_backward = silu_backward,
                                            .swiglu_forward = swiglu_forward,
                                            .swiglu_backward = swiglu_backward,
                                            .bias_gelu_forward = bias_gelu_forward,
                                            .bias_gelu_backward = bias_gelu_backward,
                                            .add_bias_gradient = add_bias_gradient});

}  // namespace
}  // namespace longhaul::kernels
