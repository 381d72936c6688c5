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
  const Tensor workspace =
      cuda::workspace(cuda::linear_cross_entropy_workspace_bytes(call), problem.hidden_td);
  cuda::linear_cross_entropy(call, workspace.mutable_data_ptr(), device.stream());
  return loss;
}

cuda::TokenHead head_of(const CrossEntropyProblem& problem) {
  return {.tokens = problem.tokens(),
          .hidden = problem.channels(),
          .vocabulary = problem.vocabulary(),
          .chunk = problem.options.chunk,
          .logit_scale = static_cast<float>(problem.logit_scale),
          .h = cuda::bf16(problem.hidden_td),
          .weight = cuda::bf16(problem.weight_vd),
          .labels = problem.labels_t.const_data_ptr<int64_t>()};
}

const float* given(const Tensor& x) { return x.defined() ? x.const_data_ptr<float>() : nullptr; }

void token_logits(const CrossEntropyProblem& problem, const TokenLogits& out) {
  const cuda::OnDevice device(problem.hidden_td);
  const cuda::TokenHead head = head_of(problem);
  const Tensor workspace =
      cuda::workspace(cuda::token_head_workspace_bytes(head, /*backward=*/false), problem.hidden_td);
  cuda::token_head(
      head, {cuda::fp32_out(out.logsumexp_t), cuda::fp32_out(out.label_t), cuda::fp32_out(out.entropy_t)},
      workspace.mutable_data_ptr(), device.stream());
}

void token_logits_backward(const CrossEntropyProblem& problem, const TokenLogitsGradient& of,
                           const CrossEntropyGradients& into) {
  const cuda::OnDevice device(problem.hidden_td);
  const cuda::TokenHead head = head_of(problem);
  const Tensor workspace =
      cuda::workspace(cuda::token_head_workspace_bytes(head, /*backward=*/true), problem.hidden_td);
  const cuda::TokenHeadGradients gradients{.logsumexp = given(of.logsumexp_t),
                                           .entropy = given(of.entropy_t),
                                           .d_logsumexp = given(of.upstream.logsumexp_t),
                                           .d_label = given(of.upstream.label_t),
                                           .d_entropy = given(of.upstream.entropy_t),
                                           .d_h = cuda::bf16_out(into.hidden_td),
                                           .d_weight = cuda::fp32_out(into.sink_vd)};
  cuda::token_head_backward(head, gradients, workspace.mutable_data_ptr(), device.stream());
}

const CudaCalls<CrossEntropyCuda> registered({.run = run,
                                              .token_logits = token_logits,
                                              .token_logits_backward = token_logits_backward});

}  // namespace
}  // namespace longhaul::kernels
