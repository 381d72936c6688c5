#include "kernels/attention/op.h"

#include <fmt/format.h>

#include "kernels/attention/problem.h"
#include "kernels/by_device.h"
#include "kernels/differentiable.h"
#include "kernels/documents.h"
#include "kernels/saved/recomputed.h"

namespace longhaul::kernels {
namespace {

AttentionProblem problem_of(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& offsets,
                            const Tensor& key_offsets, const AttentionOptions& options) {
  // What stands in the documents is checked first where documents are counted in rows of q and k.
  if (q.dim() != 3)
    refuse_argument(kAttentionOp, "q", "[tokens, heads, channels], floating point", shape_text(q));
  if (k.dim() != 3) refuse_argument(kAttentionOp, "k", "[keys, heads, channels]", shape_text(k));
  const std::vector<int64_t> of_queries = document_offsets(offsets, q.size(0), kAttentionOp);
  const std::vector<int64_t> of_keys =
      key_offsets.defined() ? document_offsets(key_offsets, k.size(0), kAttentionOp) : of_queries;
  if (of_keys.back() != k.size(0))
    refuse_argument(kAttentionOp, "k", fmt::format("{} tokens, as q", q.size(0)), shape_text(k));
  if (of_keys.size() != of_queries.size()) {
    refuse_argument(kAttentionOp, "key_offsets", fmt::format("{} documents", of_queries.size() - 1),
                    fmt::format("{}", of_keys.size() - 1));
  }
  AttentionProblem problem{q, k, v, Visibility::packed(of_queries, of_keys), options.scale};
  problem.visible.window = options.window;
  problem.visible.causal = options.causal;
  return checked_attention(std::move(problem));
}

AttentionGradients gradients_of(AttentionBy by, const AttentionProblem& problem,
                                const AttentionResult& result, const BackwardCall& call) {
  const Tensor d_o = call.gradients[0].defined() ? call.gradients[0] : at::zeros_like(result.o_thd),
               &d_logsumexp = call.gradients[1];
  AttentionOutside outside{.d_o_thd = d_o, .logsumexp_th = result.logsumexp_th, .delta_th = {}};
  if (!d_logsumexp.defined()) outside.o_thd = result.o_thd;
  by = choose_attention_backward(by, problem, outside);
  if (by != AttentionBy::kFlash) outside.delta_th = attention_delta_by(by, result.o_thd, d_o, d_logsumexp);
  return attention_backward_by(by, problem, outside, nullptr);
}

// Products with all keys are most of a long sequence's work: a part that is made again (recomputed.h) finds
// their result.
AttentionResult result_of(const AttentionProblem& problem, AttentionBy by) {
  if (runs_again()) {
    const std::vector<Tensor> kept = kept_by_first_run();
    return {kept.at(0), kept.at(1)};
  }
  const AttentionResult result = attention_forward_by(by, problem, /*wide=*/false);
  keep_for_second_run({result.o_thd, result.logsumexp_th});
  return result;
}

AttentionResult run(const AttentionProblem& problem, AttentionBy by) {
  const std::vector<Tensor> outputs =
      differentiable(kAttentionOp, {problem.q_thd, problem.k_shd, problem.v_shd}, [&]() -> Recorded {
        const AttentionResult result = result_of(problem, by);
        AttentionProblem rest = problem;  // all but the tensors, which are saved
        rest.q_thd = rest.k_shd = rest.v_shd = Tensor();
        return {.results = {result.o_thd, result.logsumexp_th},
                .saved = {problem.q_thd, problem.k_shd, problem.v_shd, result.o_thd, result.logsumexp_th},
                .backward =
                    [rest, by](const BackwardCall& call) {
                      AttentionProblem again = rest;
                      again.q_thd = call.saved[0];
                      again.k_shd = call.saved[1];
                      again.v_shd = call.saved[2];
                      const AttentionGradients out =
                          gradients_of(by, again, {call.saved[3], call.saved[4]}, call);
                      return std::vector<Tensor>{out.q_thd, out.k_shd, out.v_shd};
                    },
                .zeros_for_missing = false};
      });
  return {outputs[0], outputs[1]};
}

}  // namespace

AttentionResult attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& offsets,
                          const Tensor& key_offsets, const AttentionOptions& options) {
  const AttentionProblem problem = problem_of(q, k, v, offsets, key_offsets, options);
  return run(problem, choose_attention(problem));
}

AttentionResult attention_reference(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& offsets,
                                    const Tensor& key_offsets, const AttentionOptions& options) {
  return run(problem_of(q, k, v, offsets, key_offsets, options), AttentionBy::kReference);
}

}  // namespace longhaul::kernels
