#include "kernels/attention/op.h"

#include <fmt/format.h>

#include "kernels/attention/cuda_call.h"
#include "kernels/attention/problem.h"
#include "kernels/by_device.h"
#include "kernels/differentiable.h"
#include "kernels/documents.h"

namespace longhaul::kernels {
namespace {

constexpr const char* kOp = "attention";

enum Implementation : size_t { kCuda, kCpu, kMeta, kAten, kReference };
constexpr std::string_view kImplementations[] = {"cuda", "cpu", "meta", "aten", "reference"};

Refusal refuse_gpu(const AttentionProblem& problem) {
  const Refusal refusal = refuse_cuda(problem.q_thd);
  return refusal.empty() ? cuda_calls<AttentionCuda>().refuse(problem) : refusal;
}

AttentionProblem problem_of(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& offsets, const Tensor& key_offsets,
                            const AttentionOptions& options) {
  if (q.dim() != 3 || !at::isFloatingType(q.scalar_type()))
    refuse_argument(kOp, "q", "[tokens, heads, channels], floating point", shape_text(q));
  if (k.dim() != 3 || k.size(2) != q.size(2) || k.size(1) == 0 || q.size(1) % k.size(1) != 0 || k.scalar_type() != q.scalar_type() ||
      k.device() != q.device()) {
    refuse_argument(kOp, "k", fmt::format("[keys, a divisor of {}, {}] {}", q.size(1), q.size(2), name_of(q.scalar_type())), shape_text(k));
  }
  if (v.dim() != 3 || v.size(0) != k.size(0) || v.size(1) != k.size(1) || v.scalar_type() != q.scalar_type() || v.device() != q.device()) {
    refuse_argument(kOp, "v", fmt::format("[{}, {}, channels] {}", k.size(0), k.size(1), name_of(q.scalar_type())), shape_text(v));
  }
  if (options.window < 0) refuse_argument(kOp, "window", "0 (none) or more", std::to_string(options.window));
  AttentionProblem problem{q, k, v, document_offsets(offsets, q.size(0), kOp), {}, options};
  problem.key_offsets = key_offsets.defined() ? document_offsets(key_offsets, k.size(0), kOp) : problem.offsets;
  if (problem.key_offsets.back() != k.size(0)) refuse_argument(kOp, "k", fmt::format("{} tokens, as q", q.size(0)), shape_text(k));
  if (problem.key_offsets.size() != problem.offsets.size()) {
    refuse_argument(kOp, "key_offsets", fmt::format("{} documents", problem.documents()),
                    fmt::format("{}", problem.key_offsets.size() - 1));
  }
  return problem;
}

AttentionResult forward_of(const AttentionProblem& problem, Implementation implementation) {
  return implementation == kCuda  ? cuda_calls<AttentionCuda>().forward(problem)
         : implementation == kCpu ? attention_forward_cpu(problem)
                                  : attention_forward_reference(problem);
}

AttentionGradients backward_of(const AttentionProblem& problem, Implementation implementation, const AttentionResult& result,
                               const Tensor& d_o, const Tensor& d_logsumexp) {
  return implementation == kCuda  ? cuda_calls<AttentionCuda>().backward(problem, result, d_o, d_logsumexp)
         : implementation == kCpu ? attention_backward_cpu(problem, result, d_o, d_logsumexp)
                                  : attention_backward_reference(problem, result, d_o, d_logsumexp);
}

AttentionResult run(const AttentionProblem& problem, Implementation implementation) {
  const std::vector<Tensor> outputs = differentiable(kOp, {problem.q_thd, problem.k_shd, problem.v_shd}, [&]() -> Recorded {
    const AttentionResult result = forward_of(problem, implementation);
    AttentionProblem rest = problem;  // all but the tensors, which are saved
    rest.q_thd = rest.k_shd = rest.v_shd = Tensor();
    return {.results = {result.o_thd, result.logsumexp_th},
            .saved = {problem.q_thd, problem.k_shd, problem.v_shd, result.o_thd, result.logsumexp_th},
            .backward =
                [rest, implementation](const BackwardCall& call) {
                  AttentionProblem again = rest;
                  again.q_thd = call.saved[0];
                  again.k_shd = call.saved[1];
                  again.v_shd = call.saved[2];
                  const Tensor d_o = call.gradients[0].defined() ? call.gradients[0] : at::zeros_like(call.saved[3]);
                  const auto out = backward_of(again, implementation, {call.saved[3], call.saved[4]}, d_o, call.gradients[1]);
                  return std::vector<Tensor>{out.q_thd, out.k_shd, out.v_shd};
                },
            .zeros_for_missing = false};
  });
  return {outputs[0], outputs[1]};
}

}  // namespace

AttentionResult attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& offsets, const Tensor& key_offsets,
                          const AttentionOptions& options) {
  const AttentionProblem problem = problem_of(q, k, v, offsets, key_offsets, options);
  const size_t choice = Dispatcher(kOp, kImplementations).choose([&](size_t i) {
    return i == kCuda                       ? refuse_gpu(problem)
           : i == kCpu                      ? refuse_attention_cpu(problem)
           : i == kReference && !q.is_cpu() ? kNotOnCpu
           : i == kMeta && !q.is_meta()     ? kNotMeta
                                            : Refusal();
  });
  if (choice == kMeta) {
    const auto results =
        meta_results({q, k, v}, {{{q.size(0), q.size(1), v.size(2)}, v.scalar_type()}, {{q.size(0), q.size(1)}, problem.sum_type()}});
    return {results[0], results[1]};
  }
  if (choice == kAten) return attention_aten(problem);
  return run(problem, static_cast<Implementation>(choice));
}

AttentionResult attention_reference(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& offsets, const Tensor& key_offsets,
                                    const AttentionOptions& options) {
  return run(problem_of(q, k, v, offsets, key_offsets, options), kReference);
}

}  // namespace longhaul::kernels
