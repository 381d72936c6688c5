// The definition of attention in LibTorch's operators, one document after another: any device, any floating
// point. The scores of some of its rows exist at once, kScoreBytes of them.
#include <algorithm>
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

constexpr int64_t kScoreBytes = int64_t{128} << 20;

// f(first, count) for runs of the document's queries.
template <class Function>
void for_each_run(const AttentionProblem& problem, const AttentionDocument& document, const Function& f) {
  const int64_t row_bytes = problem.heads() * std::max<int64_t>(1, document.keys) *
                            static_cast<int64_t>(c10::elementSize(problem.sum_type())),
                most = std::max<int64_t>(1, kScoreBytes / row_bytes);
  for (int64_t first = 0; first < document.queries; first += most)
    f(first, std::min(most, document.queries - first));
}

// The scores [H, queries, keys] of the document's queries from `first` on: −∞ where hidden.
Tensor scores_of(const AttentionProblem& problem, const AttentionDocument& document, int64_t first,
                 const Tensor& q_htd, const Tensor& k_hsd) {
  const Visibility& visible = problem.visible;
  const int64_t queries = q_htd.size(1);
  const auto counted = q_htd.options().dtype(at::kLong);
  const Tensor position = at::arange(queries, counted).unsqueeze(1).add(document.shift + first),
               at_key = at::arange(document.keys, counted).unsqueeze(0);
  Tensor hidden = visible.causal ? at_key.gt(position)
                  : visible.window > 0
                      ? at_key.ge(position.add(visible.window))
                      : at::zeros({queries, document.keys}, q_htd.options().dtype(at::kBool));
  if (visible.window > 0) hidden = hidden.logical_or(at_key.le(position.sub(visible.window)));
  if (document.prefix > 0) hidden = hidden.logical_and(at_key.ge(document.prefix));
  return at::matmul(q_htd, k_hsd.transpose(1, 2)).mul_(problem.scale).masked_fill_(hidden, kNothing);
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
    const Tensor k_hsd = rows_by_head(problem.k_shd, document.k, document.keys, problem),
                 v_hsd = rows_by_head(v, document.k, document.keys, problem);
    for_each_run(problem, document, [&](int64_t first, int64_t count) {
      const int64_t begin = document.q + first;
      Tensor terms = scores_of(problem, document, first, rows_by_head(q, begin, count, problem), k_hsd);
      // Relative to the largest score, which the result does not depend on. A row that sees nothing has none,
      // and no sum either.
      Tensor largest = terms.amax(-1, true);
      largest = largest.masked_fill(largest.eq(kNothing), 0);
      terms = terms.sub_(largest).exp_();
      const Tensor sum = terms.sum(-1, true), nothing = sum.eq(0), safe = sum.masked_fill(nothing, 1);
      result.o_thd.narrow(0, begin, count).copy_(at::matmul(terms.div_(safe), v_hsd).transpose(0, 1));
      const Tensor logsumexp = safe.log().add(largest).masked_fill(nothing, kNothing);
      result.logsumexp_th.narrow(0, begin, count).copy_(logsumexp.squeeze(2).transpose(0, 1));
    });
  }
  return result;
}

void attention_backward_aten(const AttentionProblem& problem, const AttentionOutside& outside,
                             const AttentionGradients& into, bool add) {
  const auto column = [](const Tensor& x_th, int64_t begin, int64_t count) {  // [H, queries, 1]
    return x_th.narrow(0, begin, count).transpose(0, 1).unsqueeze(2);
  };
  for (const AttentionDocument& document : problem.visible.documents) {
    const Tensor k = rows_by_head(problem.k_shd, document.k, document.keys, problem),
                 v = rows_by_head(problem.v_shd, document.k, document.keys, problem);
    const Tensor dk = at::zeros(k.sizes(), k.options()), dv = at::zeros(v.sizes(), v.options());
    for_each_run(problem, document, [&](int64_t first, int64_t count) {
      const int64_t begin = document.q + first;
      const Tensor q = rows_by_head(problem.q_thd, begin, count, problem),
                   d_o = rows_by_head(outside.d_o_thd, begin, count, problem),
                   logsumexp = column(outside.logsumexp_th, begin, count);
      const Tensor p = scores_of(problem, document, first, q, k)
                           .sub_(logsumexp.masked_fill(logsumexp.eq(kNothing), 0))
                           .exp_();
      const Tensor ds = at::matmul(d_o, v.transpose(1, 2))
                            .sub_(column(outside.delta_th, begin, count))
                            .mul_(p)
                            .mul_(problem.scale);
      leave(at::matmul(ds, k), into.q_thd, begin, add);
      dk.add_(at::matmul(ds.transpose(1, 2), q));
      dv.add_(at::matmul(p.transpose(1, 2), d_o));
    });
    leave(dk, into.k_shd, document.k, add);
    leave(dv, into.v_shd, document.k, add);
  }
}

}  // namespace longhaul::kernels
