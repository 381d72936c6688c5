#include "kernels/rotary_heads/cuda_call.h"

#include "kernels/cuda/tensors.h"
#include "kernels/rotary_heads/cuda.h"

namespace longhaul::kernels {
namespace {

int pairs_of(const Tensor& cos) { return cos.defined() ? static_cast<int>(cos.size(1)) : 0; }

void rotate(const Tensor& x, int64_t heads, int64_t head_dim, const Tensor& cos, const Tensor& sin) {
  const cuda::OnDevice device(x);
  cuda::rotary(cuda::bf16(x), x.size(1), cuda::fp32(cos), cuda::fp32(sin), cuda::bf16_out(x), x.size(1),
               x.size(0), static_cast<int>(heads), static_cast<int>(head_dim), pairs_of(cos), false,
               device.stream());
}

void gather(const Tensor& part, const Tensor& dx, int64_t column, const Tensor& cos, const Tensor& sin) {
  const cuda::OnDevice device(dx);
  cuda::rotary(cuda::bf16(part), part.stride(0), cuda::fp32(cos), cuda::fp32(sin),
               cuda::bf16_out(dx) + column, dx.size(1), part.size(0), static_cast<int>(part.size(1)),
               static_cast<int>(part.size(2)), pairs_of(cos), true, device.stream());
}

const CudaCalls<HeadsCuda> registered({.rotate = rotate, .gather = gather});

}  // namespace
}  // namespace longhaul::kernels
