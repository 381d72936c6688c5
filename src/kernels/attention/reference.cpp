// The definition of attention: loops in fp32 (fp64 for fp64 inputs).
//
//   s_tj = scale · q_t·k_j over visible j,  ℓ_t = log Σ_j e^{s_tj},  p_tj = e^{s_tj − ℓ_t},  o_t = Σ_j p_tj v_j
//   dv_j = Σ_t p_tj do_t,  ds_tj = p_tj (do_t·v_j − do_t·o_t + dℓ_t),  dq_t = scale Σ_j ds_tj k_j,  dk_j = scale Σ_t ds_tj q_t
#include <cmath>
#include <limits>

#include "kernels/attention/problem.h"

namespace longhaul::kernels {
namespace {

template <class Real>
struct View {
  explicit View(const AttentionProblem& problem)
      : q(problem.q_thd.to(problem.sum_type()).contiguous()),
        k(problem.k_shd.to(problem.sum_type()).contiguous()),
        v(problem.v_shd.to(problem.sum_type()).contiguous()),
        heads(problem.heads()),
        key_heads(problem.k_shd.size(1)),
        group(problem.group()),
        keys(problem.q_thd.size(2)),
        values(problem.v_shd.size(2)),
        scale(static_cast<Real>(problem.options.scale)) {}
  int64_t q_at(int64_t t, int64_t h) const { return (t * heads + h) * keys; }
  int64_t k_at(int64_t s, int64_t h) const { return (s * key_heads + h / group) * keys; }
  int64_t v_at(int64_t s, int64_t h) const { return (s * key_heads + h / group) * values; }
  int64_t o_at(int64_t t, int64_t h) const { return (t * heads + h) * values; }
  Real score(int64_t t, int64_t s, int64_t h) const {
    const Real *a = q.const_data_ptr<Real>() + q_at(t, h), *b = k.const_data_ptr<Real>() + k_at(s, h);
    Real sum = 0;
    for (int64_t c = 0; c < keys; ++c) sum += a[c] * b[c];
    return scale * sum;
  }
  Tensor q, k, v;
  int64_t heads, key_heads, group, keys, values;
  Real scale;
};

// Calls body(t, first, last): query token t sees keys [first, last).
template <class Body>
void for_each_query(const AttentionProblem& problem, const Body& body) {
  for (size_t n = 0; n + 1 < problem.offsets.size(); ++n) {
    const int64_t begin = problem.offsets[n], end = problem.offsets[n + 1], key_begin = problem.key_offsets[n];
    const int64_t shift = (problem.key_offsets[n + 1] - key_begin) - (end - begin);  // the last query sees the last key
    for (int64_t t = begin; t < end; ++t) {
      const int64_t last = std::max<int64_t>(0, t - begin + shift + 1);
      const int64_t first = problem.options.window > 0 ? std::max<int64_t>(0, last - problem.options.window) : 0;
      body(t, key_begin + first, key_begin + last);
    }
  }
}

template <class Real>
AttentionResult forward(const AttentionProblem& problem) {
  const View<Real> view(problem);
  Tensor o = at::zeros({problem.q_thd.size(0), view.heads, view.values}, view.q.options());
  Tensor lse = at::empty({problem.q_thd.size(0), view.heads}, view.q.options());
  Real* out = o.mutable_data_ptr<Real>();
  const Real* v = view.v.template const_data_ptr<Real>();
  for_each_query(problem, [&](int64_t t, int64_t first, int64_t last) {
    for (int64_t h = 0; h < view.heads; ++h) {
      Real largest = -std::numeric_limits<Real>::infinity();
      for (int64_t s = first; s < last; ++s) largest = std::max(largest, view.score(t, s, h));
      Real sum = 0;
      for (int64_t s = first; s < last; ++s) sum += std::exp(view.score(t, s, h) - largest);
      const Real log_sum = first < last ? largest + std::log(sum) : largest;
      lse.mutable_data_ptr<Real>()[t * view.heads + h] = log_sum;
      for (int64_t s = first; s < last; ++s) {
        const Real p = std::exp(view.score(t, s, h) - log_sum);
        for (int64_t d = 0; d < view.values; ++d) out[view.o_at(t, h) + d] += p * v[view.v_at(s, h) + d];
      }
    }
  });
  return {o.to(problem.v_shd.scalar_type()), lse};
}

template <class Real>
AttentionGradients backward(const AttentionProblem& problem, const AttentionResult& result, const Tensor& d_o_thd,
                            const Tensor& d_logsumexp_th) {
  const View<Real> view(problem);
  const Tensor d_o = d_o_thd.to(problem.sum_type()).contiguous(), o = result.o_thd.to(problem.sum_type()).contiguous();
  const Tensor d_lse = d_logsumexp_th.defined() ? d_logsumexp_th.contiguous() : at::zeros_like(result.logsumexp_th);
  Tensor d_q = at::zeros_like(view.q), d_k = at::zeros_like(view.k), d_v = at::zeros_like(view.v);
  const Real *q = view.q.template const_data_ptr<Real>(), *k = view.k.template const_data_ptr<Real>(),
             *v = view.v.template const_data_ptr<Real>();
  Real *dq = d_q.mutable_data_ptr<Real>(), *dk = d_k.mutable_data_ptr<Real>(), *dv = d_v.mutable_data_ptr<Real>();
  for_each_query(problem, [&](int64_t t, int64_t first, int64_t last) {
    for (int64_t h = 0; h < view.heads; ++h) {
      const Real *g = d_o.const_data_ptr<Real>() + view.o_at(t, h), *y = o.const_data_ptr<Real>() + view.o_at(t, h);
      const Real log_sum = result.logsumexp_th.const_data_ptr<Real>()[t * view.heads + h];
      Real common = -d_lse.const_data_ptr<Real>()[t * view.heads + h];
      for (int64_t d = 0; d < view.values; ++d) common += g[d] * y[d];
      for (int64_t s = first; s < last; ++s) {
        const Real p = std::exp(view.score(t, s, h) - log_sum);
        Real d_score = -common;
        for (int64_t d = 0; d < view.values; ++d) {
          d_score += g[d] * v[view.v_at(s, h) + d];
          dv[view.v_at(s, h) + d] += p * g[d];
        }
        d_score *= p * view.scale;
        for (int64_t c = 0; c < view.keys; ++c) {
          dq[view.q_at(t, h) + c] += d_score * k[view.k_at(s, h) + c];
          dk[view.k_at(s, h) + c] += d_score * q[view.q_at(t, h) + c];
        }
      }
    }
  });
  return {d_q.to(problem.q_thd.scalar_type()), d_k.to(problem.k_shd.scalar_type()), d_v.to(problem.v_shd.scalar_type())};
}

}  // namespace

AttentionResult attention_forward_reference(const AttentionProblem& problem) {
  return problem.sum_type() == at::kDouble ? forward<double>(problem) : forward<float>(problem);
}

AttentionGradients attention_backward_reference(const AttentionProblem& problem, const AttentionResult& result, const Tensor& d_o_thd,
                                                const Tensor& d_logsumexp_th) {
  return problem.sum_type() == at::kDouble ? backward<double>(problem, result, d_o_thd, d_logsumexp_th)
                                           : backward<float>(problem, result, d_o_thd, d_logsumexp_th);
}

}  // namespace longhaul::kernels
