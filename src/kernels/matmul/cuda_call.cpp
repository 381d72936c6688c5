#include "kernels/matmul/cuda_call.h"

#include "kernels/cuda/tensors.h"
#include "kernels/matmul/cuda.h"

namespace longhaul::kernels {
namespace {

std::vector<int64_t> offsets_of(const std::vector<int64_t>& rows_per_expert) {
  std::vector<int64_t> offsets{0};
  for (const int64_t rows : rows_per_expert) offsets.push_back(offsets.back() + rows);
  return offsets;
}

Tensor grouped(const Tensor& x, const std::vector<int64_t>& rows_per_expert, const Tensor& weight,
               bool transposed) {
  const cuda::OnDevice device(x);
  const cuda::Table offsets(offsets_of(rows_per_expert), x);
  const int64_t out = weight.size(transposed ? 2 : 1);
  const Tensor y = at::empty({x.size(0), out}, x.options().requires_grad(false));
  cuda::Matmul product;
  product.m = x.size(0), product.n = out, product.k = x.size(1);
  product.a = cuda::bf16(x), product.a_stride = x.size(1);
  product.b = cuda::bf16(weight), product.b_stride = weight.size(2), product.b_transposed = !transposed;
  product.c = cuda::bf16_out(y), product.c_stride = out;
  product.grouping = cuda::Matmul::Grouping::kRows;
  product.groups = static_cast<int>(rows_per_expert.size());
  product.offsets = offsets.data();
  product.b_group = weight.size(1) * weight.size(2);
  cuda::matmul(product, device.stream());
  return y;
}

void add_grouped_weight_gradients(const Tensor& sink, const Tensor& dy, const Tensor& x,
                                  const std::vector<int64_t>& rows_per_expert) {
  const cuda::OnDevice device(x);
  const cuda::Table offsets(offsets_of(rows_per_expert), x);
  cuda::Matmul product;
  product.m = dy.size(1), product.n = x.size(1), product.k = x.size(0);
  product.a = cuda::bf16(dy), product.a_stride = dy.size(1), product.a_transposed = true;
  product.b = cuda::bf16(x), product.b_stride = x.size(1);
  product.c_fp32 = cuda::fp32_out(sink), product.c_stride = x.size(1), product.accumulate = true;
  product.grouping = cuda::Matmul::Grouping::kDepth;
  product.groups = static_cast<int>(rows_per_expert.size());
  product.offsets = offsets.data();
  product.c_group = sink.size(1) * sink.size(2);
  cuda::matmul(product, device.stream());
}

const CudaCalls<MatmulCuda> registered({.grouped = grouped,
                                        .add_grouped_weight_gradients = add_grouped_weight_gradients});

}  // namespace
}  // namespace longhaul::kernels
