#include "kernels/rotary_heads/cuda_call.h"

#include "kernels/cuda/tensors.h"
#include "kernels/rotary_heads/cuda.h"

namespace longhaul::kernels {
namespace {

int pairs_of(const Tensor& cos) { return cos.defined() ? static_cast<int>(cos.size(1)) : 0; }

void rotate(const Tensor& x, int64_t heads, int64_t head_dim, const Tensor& cos, const Tensor& sin) {
  const cuda::OnDevice device(x);
  cuda::rotary({.tokens = x.size(0),
                .width = static_cast<int>(head_dim),
                .pairs = pairs_of(cos),
                .cos = cuda::fp32(cos),
                .sin = cuda::fp32(sin),
                .parts = {{cuda::bf16(x), x.size(1), static_cast<int>(heads)}},
                .y = cuda::bf16_out(x),
                .y_stride = x.size(1)},
               device.stream());
}

void gather(const std::array<Tensor, 3>& parts, const Tensor& dx, const Tensor& cos, const Tensor& sin) {
  const cuda::OnDevice device(dx);
  cuda::Rotary call{.tokens = dx.size(0),
                    .width = static_cast<int>(parts[0].size(2)),
                    .pairs = pairs_of(cos),
                    .inverse = true,
                    .cos = cuda::fp32(cos),
                    .sin = cuda::fp32(sin),
                    .y = cuda::bf16_out(dx),
                    .y_stride = dx.size(1)};
  for (size_t i = 0; i < parts.size(); ++i) {
    call.parts[i] = {cuda::bf16(parts[i]), parts[i].stride(0), static_cast<int>(parts[i].size(1)),
                     /*turns=*/i < 2};
  }
  cuda::rotary(call, device.stream());
}

const CudaCalls<HeadsCuda> registered({.rotate = rotate, .gather = gather});

}  // namespace
}  // namespace longhaul::kernels
