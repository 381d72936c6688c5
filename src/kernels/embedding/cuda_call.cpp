#include "kernels/embedding/cuda_call.h"

#include "kernels/cuda/tensors.h"
#include "kernels/embedding/cuda.h"

namespace longhaul::kernels {
namespace {

void forward(const Tensor& ids, const Tensor& table, const Tensor& positions, const Tensor& position_table,
             const Tensor& out) {
  const cuda::OnDevice device(table);
  cuda::embedding_forward(ids.const_data_ptr<int64_t>(), cuda::bf16(table),
                          positions.defined() ? positions.const_data_ptr<int64_t>() : nullptr,
                          cuda::bf16(position_table), cuda::bf16_out(out), out.size(0), out.size(1),
                          device.stream());
}

void add_gradient(const Tensor& ids, const Tensor& dy, const Tensor& sink) {
  const cuda::OnDevice device(dy);
  const cuda::EmbeddingPlan plan =
      cuda::plan_embedding({ids.const_data_ptr<int64_t>(), static_cast<size_t>(ids.numel())});
  const cuda::Table tokens(plan.tokens, dy), starts(plan.starts, dy);
  const cuda::Table distinct(plan.ids, dy);
  cuda::embedding_gradient(tokens.data(), starts.data(), distinct.data(), distinct.size, cuda::bf16(dy),
                           cuda::fp32_out(sink), dy.size(1), device.stream());
}

const CudaCalls<EmbeddingCuda> registered({.forward = forward, .add_gradient = add_gradient});

}  // namespace
}  // namespace longhaul::kernels
