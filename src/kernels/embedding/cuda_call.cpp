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
  const auto [sorted, order] = ids.to(at::kInt).sort(/*stable=*/true, /*dim=*/0, /*descending=*/false);
  const Tensor workspace = cuda::workspace(cuda::embedding_workspace_bytes(dy.size(0), dy.size(1)), dy);
  cuda::embedding_gradient({.tokens = dy.size(0),
                            .hidden = dy.size(1),
                            .ids = sorted.const_data_ptr<int32_t>(),
                            .order = order.const_data_ptr<int64_t>(),
                            .d_out = cuda::bf16(dy),
                            .sink = cuda::fp32_out(sink),
                            .workspace = workspace.mutable_data_ptr()},
                           device.stream());
}

const CudaCalls<EmbeddingCuda> registered({.forward = forward, .add_gradient = add_gradient});

}  // namespace
}  // namespace longhaul::kernels
