// The definition of attention in LibTorch's operators under autograd, one document after another: any device. The scores of a document
// exist at once, and are kept for the backward pass.
#include <limits>

#include "kernels/attention/problem.h"

namespace longhaul::kernels {
namespace {

// Queries [tokens, H, D] of one document against its keys; both may be none.
AttentionResult document(const Tensor& q_thd, const Tensor& k_shd, const Tensor& v_shd, const AttentionProblem& problem) {
  const int64_t queries = q_thd.size(0), keys = k_shd.size(0), shift = keys - queries;
  const auto by_head = [&](const Tensor& x) {
    return x.to(problem.sum_type()).repeat_interleave(problem.heads() / x.size(1), 1).transpose(0, 1);
  };
  const Tensor q = by_head(q_thd), k = by_head(k_shd), v = by_head(v_shd);
  const Tensor last = at::arange(queries, q.options().dtype(at::kLong)).unsqueeze(1).add(shift),
               at_key = at::arange(keys, last.options()).unsqueeze(0);
  Tensor hidden = at_key.gt(last);
  if (problem.options.window > 0) hidden = hidden.logical_or(at_key.le(last.sub(problem.options.window)));

  const Tensor scores = at::matmul(q, k.transpose(1, 2)).mul(problem.options.scale);
  // Relative to the largest score, which the result does not depend on. A row that sees nothing has none, and no sum either.
  const Tensor largest = keys == 0 ? at::zeros({problem.heads(), queries, 1}, q.options())
                                   : scores.detach().masked_fill(hidden, std::numeric_limits<float>::lowest()).amax(-1, true);
  const Tensor terms = scores.sub(largest).masked_fill(hidden, -std::numeric_limits<double>::infinity()).exp();
  const Tensor sum = terms.sum(-1, true), nothing = sum.eq(0), safe = sum.masked_fill(nothing, 1);
  const Tensor o = at::matmul(terms.div(safe), v);
  const Tensor logsumexp = safe.log().add(largest).masked_fill(nothing, -std::numeric_limits<double>::infinity());
  return {o.transpose(0, 1).to(v_shd.scalar_type()), logsumexp.squeeze(2).transpose(0, 1)};
}

}  // namespace

AttentionResult attention_aten(const AttentionProblem& problem) {
  std::vector<Tensor> o, logsumexp;
  for (size_t n = 0; n + 1 < problem.offsets.size(); ++n) {
    const int64_t begin = problem.offsets[n], queries = problem.offsets[n + 1] - begin;
    const int64_t first_key = problem.key_offsets[n], keys = problem.key_offsets[n + 1] - first_key;
    const AttentionResult part = document(problem.q_thd.narrow(0, begin, queries), problem.k_shd.narrow(0, first_key, keys),
                                          problem.v_shd.narrow(0, first_key, keys), problem);
    o.push_back(part.o_thd);
    logsumexp.push_back(part.logsumexp_th);
  }
  return {at::cat(o), at::cat(logsumexp)};
}

}  // namespace longhaul::kernels
