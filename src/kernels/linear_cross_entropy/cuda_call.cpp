#include "kernels/linear_cross_entropy/cuda_call.h"

#include "kernels/cuda/tensors.h"
#include "kernels/linear_cross_entropy/cuda.h"

namespace longhaul::kernels {
namespace {

Tensor run(const CrossEntropyProblem& problem, const CrossEntropyGradients& gradients) {
  const cuda::OnDevice device(problem.hidden_td);
  const Tensor loss = cuda::fp32_like(problem.hidden_td, {problem.tokens()});
  const cuda::LinearCrossEntropy call{.tokens = problem.tokens(),
                                      .hidden = problem.channels(),
                                      .vocabulary = problem.vocabulary(),
                                      .chunk = problem.options.chunk,
                                      .z_loss = static_cast<float>(problem.options.z_loss),
                                      .scale = static_cast<float>(problem.options.upstream),
                                      .h = cuda::bf16(problem.hidden_td),
                                      .weight = cuda::bf16(problem.weight_vd),
                                      .labels = problem.labels_t.const_data_ptr<int64_t>(),
                                      .loss = cuda::fp32_out(loss),
                                      .d_h = cuda::bf16_out(gradients.hidden_td),
                                      .d_weight = cuda::fp32_out(gradients.sink_vd)};
  const Tensor workspace = cuda::workspace(cuda::linear_cross_entropy_workspace_bytes(call), problem.hidden_td);
  cuda::linear_cross_entropy(call, workspace.mutable_data_ptr(), device.stream());
  return loss;
}

const CudaCalls<CrossEntropyCuda> registered({.run = run});

}  // namespace
}  // namespace longhaul::kernels
