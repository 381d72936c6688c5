#include "kernels/norm/cuda_call.h"

#include "kernels/cuda/tensors.h"
#include "kernels/norm/cuda.h"

namespace longhaul::kernels {
namespace {

Refusal refuse(const Tensor& x) {
  static_assert(cuda::kMostNormChannels == 16384);
  return x.size(1) > cuda::kMostNormChannels ? "it takes at most 16384 channels" : "";
}

cuda::GateKind gate_kind(const Tensor& gate) {
  return gate.defined() ? cuda::GateKind::kSigmoid : cuda::GateKind::kNone;
}

void forward(const NormCall& call) {
  const cuda::OnDevice device(call.x_tc);
  const cuda::Norm norm{.rows = call.x_tc.size(0),
                        .channels = static_cast<int>(call.x_tc.size(1)),
                        .eps = static_cast<float>(call.eps),
                        .alpha = static_cast<float>(call.alpha),
                        .beta = static_cast<float>(call.beta),
                        .x = cuda::bf16(call.x_tc),
                        .residual = cuda::bf16(call.branch_tc),
                        .h = cuda::bf16_out(call.joined_tc),
                        .weight = cuda::fp32(call.weight_c),
                        .bias = cuda::fp32(call.bias_c),
                        .gate_kind = gate_kind(call.gate_tc),
                        .gate = cuda::bf16(call.gate_tc),
                        .y = cuda::bf16_out(call.y_tc),
                        .mean = cuda::fp32_out(call.mean_t),
                        .inverse = cuda::fp32_out(call.scale_t)};
  (call.kind == NormKind::kLayer ? cuda::layer_norm_forward : cuda::rms_norm_forward)(norm, device.stream());
}

void backward(const NormGradientCall& call) {
  const cuda::OnDevice device(call.z_tc);
  const int64_t rows = call.z_tc.size(0);
  const int channels = static_cast<int>(call.z_tc.size(1));
  const Tensor partial = cuda::workspace(cuda::norm_workspace_bytes(rows, channels), call.z_tc);
  const cuda::Norm norm{.rows = rows,
                        .channels = channels,
                        .alpha = static_cast<float>(call.alpha),
                        .beta = static_cast<float>(call.beta),
                        .x = cuda::bf16(call.z_tc),
                        .weight = cuda::fp32(call.weight_c),
                        .gate_kind = gate_kind(call.gate_tc),
                        .gate = cuda::bf16(call.gate_tc),
                        .mean = cuda::fp32_out(call.mean_t),
                        .inverse = cuda::fp32_out(call.scale_t)};
  const cuda::NormGradient gradient{.d_y = cuda::bf16(call.dy_tc),
                                    .d_residual = cuda::bf16(call.d_joined_tc),
                                    .d_x = cuda::bf16_out(call.dx_tc),
                                    .d_branch = cuda::bf16_out(call.d_branch_tc),
                                    .d_gate = cuda::bf16_out(call.d_gate_tc),
                                    .d_weight = cuda::fp32_out(call.dw_c),
                                    .d_bias = cuda::fp32_out(call.db_c),
                                    .partial = static_cast<float*>(partial.mutable_data_ptr())};
  (call.kind == NormKind::kLayer ? cuda::layer_norm_backward : cuda::rms_norm_backward)(norm, gradient,
                                                                                        device.stream());
}

const CudaCalls<NormCuda> registered({.refuse = refuse, .forward = forward, .backward = backward});

}  // namespace
}  // namespace longhaul::kernels
