// The definition of attention in LibTorch's operators, one document after another: any device, any floating
// point. The scores of a document exist at once.
#include <limits>

#include "kernels/attention/problem.h"

namespace longhaul::kernels {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

// Rows [begin, begin + count) of x in the dtype of sums, as [heads, rows, channels], key heads repeated for
// their query heads.
Tensor rows_by_head(const Tensor& x, int64_t begin, int64_t count, const AttentionProblem& problem) {
  return x.narrow(0, begin, count)
      .to(problem.sum_type())
      .repeat_interleave(problem.heads() / x.size(1), 1)
      .transpose(0, 1);
}

// One document's scores [H, queries, keys]: −∞ where hidden.
Tensor scores_of(const AttentionProblem& problem, const AttentionDocument& document, const Tensor& q_htd,
                 const Tensor& k_htd) {
  const Visibility& visible = problem.visible;
  const auto counted = q_htd.options().dtype(at::kLong);
  const Tensor position = at::arange(document.queries, counted).unsqueeze(1).add(document.shift),
               at_key = at::arange(document.keys, counted).unsqueeze(0);
  Tensor hidden = visible.causal ? at_key.gt(position)
                  : visible.window > 0
                      ? at_key.ge(position.add(visible.window))
                      : at::zeros({document.queries, document.keys}, q_htd.options().dtype(at::kBool));
  if (visible.window > 0) hidden = hidden.logical_or(at_key.le(position.sub(visible.window)));
  if (document.prefix > 0) hidden = hidden.logical_and(at_key.ge(document.prefix));
  return at::matmul(q_htd, k_htd.transpose(1, 2)).mul_(problem.scale).masked_fill_(hidden, kNothing);
}

// [H, rows, channels] to rows of `to`, heads of a group summed.
void leave(const Tensor& x_hsd, const Tensor& to, int64_t begin, bool add) {
  const Tensor rows = to.narrow(0, begin, x_hsd.size(1));
  const Tensor sum = x_hsd.view({to.size(1), x_hsd.size(0) / to.size(1), x_hsd.size(1), x_hsd.size(2)})
                         .sum(1)
                         .transpose(0, 1);
  if (add)
    rows.add_(sum);
  else
    rows.copy_(sum);
}

}  // namespace

AttentionResult attention_forward_aten(const AttentionProblem& problem, bool wide) {
  const Tensor &q = problem.q_thd, &v = problem.v_shd;
  const ScalarType sums = problem.sum_type();
  const AttentionResult result{
      at::zeros({q.size(0), q.size(1), v.size(2)}, v.options().dtype(wide ? sums : v.scalar_type())),
      at::full({q.size(0), q.size(1)}, kNothing, q.options().dtype(sums))};
  for (const AttentionDocument& document : problem.visible.documents) {
    if (document.queries == 0 || document.keys == 0) continue;
    const Tensor v_hsd = rows_by_head(v, document.k, document.keys, problem);
    Tensor terms = scores_of(problem, document, rows_by_head(q, document.q, document.queries, problem),
                             rows_by_head(problem.k_shd, document.k, document.keys, problem));
    // Relative to the largest score, which the result does not depend on. A row that sees nothing has none,
    // and no sum either.
    Tensor largest = terms.amax(-1, true);
    largest = largest.masked_fill(largest.eq(kNothing), 0);
    terms = terms.sub_(largest).exp_();
    const Tensor sum = terms.sum(-1, true), nothing = sum.eq(0), safe = sum.masked_fill(nothing, 1);
    result.o_thd.narrow(0, document.q, document.queries)
        .copy_(at::matmul(terms.div_(safe), v_hsd).transpose(0, 1));
    const Tensor logsumexp = safe.log().add(largest).masked_fill(nothing, kNothing);
    result.logsumexp_th.narrow(0, document.q, document.queries).copy_(logsumexp.squeeze(2).transpose(0, 1));
  }
  return result;
}

void attention_backward_aten(const AttentionProblem& problem, const AttentionOutside& outside,
                             const AttentionGradients& into, bool add) {
  const auto column = [](const Tensor& x_th, const AttentionDocument& document) {  // [H, queries, 1]
    return x_th.narrow(0, document.q, document.queries).transpose(0, 1).unsqueeze(2);
  };
  for (const AttentionDocument& document : problem.visible.documents) {
    const Tensor q = rows_by_head(problem.q_thd, document.q, document.queries, problem),
                 k = rows_by_head(problem.k_shd, document.k, document.keys, problem),
                 v = rows_by_head(problem.v_shd, document.k, document.keys, problem),
                 d_o = rows_by_head(outside.d_o_thd, document.q, document.queries, problem);
    const Tensor logsumexp = column(outside.logsumexp_th, document);
    const Tensor p =
        scores_of(problem, document, q, k).sub_(logsumexp.masked_fill(logsumexp.eq(kNothing), 0)).exp_();
    const Tensor ds = at::matmul(d_o, v.transpose(1, 2))
                          .sub_(column(outside.delta_th, document))
                          .mul_(p)
                          .mul_(problem.scale);
    leave(at::matmul(ds, k), into.q_thd, document.q, add);
    leave(at::matmul(ds.transpose(1, 2), q), into.k_shd, document.k, add);
    leave(at::matmul(p.transpose(1, 2), d_o), into.v_shd, document.k, add);
  }
}

}  // namespace longhaul::kernels
