#include "kernels/feature_maps/cuda_call.h"

#include "kernels/cuda/tensors.h"
#include "kernels/feature_maps/cuda.h"

namespace longhaul::kernels {
namespace {

cuda::Features features_call(const Tensor& x, int64_t heads, FeatureMap map, Turn turn,
                             const TurnTable& table) {
  return {.tokens = x.size(0),
          .heads = static_cast<int>(heads),
          .head_dim = static_cast<int>(x.size(1) / heads),
          .map = map,
          .turn = turn,
          .x = cuda::bf16(x),
          .x_stride = x.stride(0),
          .cos = cuda::fp32(table.cos_tr),
          .sin = cuda::fp32(table.sin_tr),
          .angles = table.cos_tr.defined() ? static_cast<int>(table.cos_tr.size(1)) : 0};
}

void forward(const Tensor& x, int64_t heads, FeatureMap map, Turn turn, const TurnTable& table,
             const Tensor& y) {
  const cuda::OnDevice device(x);
  cuda::features_forward(features_call(x, heads, map, turn, table), cuda::bf16_out(y), device.stream());
}

void gradient(const Tensor& x, int64_t heads, FeatureMap map, Turn turn, const TurnTable& table,
              const Tensor& dy, const Tensor& dx, const TurnTable& d_table) {
  const cuda::OnDevice device(x);
  cuda::features_backward(features_call(x, heads, map, turn, table),
                          {.d_y = cuda::bf16(dy),
                           .d_x = cuda::bf16_out(dx),
                           .d_cos = cuda::fp32_out(d_table.cos_tr),
                           .d_sin = cuda::fp32_out(d_table.sin_tr)},
                          device.stream());
}

cuda::Gated gated_call(const Tensor& n, const Tensor& u, FeatureMap map) {
  return {.rows = n.size(0),
          .channels = n.size(1),
          .map = map,
          .n = cuda::bf16(n),
          .u = cuda::bf16(u),
          .n_stride = n.stride(0),
          .u_stride = u.stride(0)};
}

void forward_of_gated(const Tensor& n, const Tensor& u, FeatureMap map, const Tensor& y) {
  const cuda::OnDevice device(n);
  cuda::gated_forward(gated_call(n, u, map), cuda::bf16_out(y), device.stream());
}

void gradient_of_gated(const Tensor& n, const Tensor& u, FeatureMap map, const Tensor& dy, const Tensor& dn,
                       const Tensor& du) {
  const cuda::OnDevice device(n);
  cuda::gated_backward(gated_call(n, u, map), cuda::bf16(dy), cuda::bf16_out(dn), cuda::bf16_out(du),
                       device.stream());
}

const CudaCalls<FeaturesCuda> registered({.features = forward,
                                          .features_gradient = gradient,
                                          .gated = forward_of_gated,
                                          .gated_gradient = gradient_of_gated});

}  // namespace
}  // namespace longhaul::kernels
