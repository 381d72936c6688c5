// The definition of attention: loops in fp32 (fp64 for fp64 inputs).
//
//   s_tj = scale · q_t·k_j over visible j,  ℓ_t = log Σ_j e^{s_tj},  p_tj = e^{s_tj − ℓ_t},
//   o_t = Σ_j p_tj v_j
//   dv_j = Σ_t p_tj do_t,  ds_tj = p_tj (do_t·v_j − δ_t),  δ_t = do_t·o_t − dℓ_t,
//   dq_t = scale Σ_j ds_tj k_j,  dk_j = scale Σ_t ds_tj q_t
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
        scale(static_cast<Real>(problem.scale)) {}
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

// Calls body(t, keys): what query token t sees, by the rule of visibility.h.
template <class Body>
void for_each_query(const AttentionProblem& problem, const Body& body) {
  const Visibility& visible = problem.visible;
  std::vector<int64_t> keys;
  for (const AttentionDocument& document : visible.documents) {
    for (int64_t i = 0; i < document.queries; ++i) {
      keys.clear();
      for (int64_t j = 0; j < document.keys; ++j) {
        const int64_t ahead = j - (i + document.shift);  // of the query, in positions
        const bool behind = visible.window == 0 || ahead > -visible.window;
        const bool before = visible.causal ? ahead <= 0 : visible.window == 0 || ahead < visible.window;
        if (j < document.prefix || (behind && before)) keys.push_back(document.k + j);
      }
      body(document.q + i, keys);
    }
  }
}

template <class Real>
AttentionResult forward(const AttentionProblem& problem, bool wide) {
  const View<Real> view(problem);
  Tensor o = at::zeros({problem.q_thd.size(0), view.heads, view.values}, view.q.options());
  Tensor lse = at::empty({problem.q_thd.size(0), view.heads}, view.q.options());
  Real* out = o.mutable_data_ptr<Real>();
  const Real* v = view.v.template const_data_ptr<Real>();
  for_each_query(problem, [&](int64_t t, const std::vector<int64_t>& keys) {
    for (int64_t h = 0; h < view.heads; ++h) {
      Real largest = -std::numeric_limits<Real>::infinity();
      for (const int64_t s : keys) largest = std::max(largest, view.score(t, s, h));
      Real sum = 0;
      for (const int64_t s : keys) sum += std::exp(view.score(t, s, h) - largest);
      const Real log_sum = keys.empty() ? largest : largest + std::log(sum);
      lse.mutable_data_ptr<Real>()[t * view.heads + h] = log_sum;
      for (const int64_t s : keys) {
        const Real p = std::exp(view.score(t, s, h) - log_sum);
        for (int64_t d = 0; d < view.values; ++d) out[view.o_at(t, h) + d] += p * v[view.v_at(s, h) + d];
      }
    }
  });
  return {wide ? o : o.to(problem.v_shd.scalar_type()), lse};
}

template <class Real>
void backward(const AttentionProblem& problem, const AttentionOutside& outside,
              const AttentionGradients& into, bool add) {
  const View<Real> view(problem);
  const Tensor d_o = outside.d_o_thd.to(problem.sum_type()).contiguous(),
               log_sums = outside.logsumexp_th.contiguous(), delta = outside.delta_th.contiguous();
  const Tensor d_q = at::zeros_like(view.q), d_k = at::zeros_like(view.k), d_v = at::zeros_like(view.v);
  const Real *q = view.q.template const_data_ptr<Real>(), *k = view.k.template const_data_ptr<Real>(),
             *v = view.v.template const_data_ptr<Real>();
  Real *dq = d_q.mutable_data_ptr<Real>(), *dk = d_k.mutable_data_ptr<Real>(),
       *dv = d_v.mutable_data_ptr<Real>();
  for_each_query(problem, [&](int64_t t, const std::vector<int64_t>& keys) {
    for (int64_t h = 0; h < view.heads; ++h) {
      const Real* g = d_o.const_data_ptr<Real>() + view.o_at(t, h);
      const Real log_sum = log_sums.const_data_ptr<Real>()[t * view.heads + h],
                 common = delta.const_data_ptr<Real>()[t * view.heads + h];
      for (const int64_t s : keys) {
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
  const auto leave = [add](const Tensor& from, const Tensor& to) { add ? to.add_(from) : to.copy_(from); };
  leave(d_q, into.q_thd);
  leave(d_k, into.k_shd);
  leave(d_v, into.v_shd);
}

}  // namespace

AttentionResult attention_forward_reference(const AttentionProblem& problem, bool wide) {
  return problem.sum_type() == at::kDouble ? forward<double>(problem, wide) : forward<float>(problem, wide);
}

void attention_backward_reference(const AttentionProblem& problem, const AttentionOutside& outside,
                                  const AttentionGradients& into, bool add) {
  return problem.sum_type() == at::kDouble ? backward<double>(problem, outside, into, add)
                                           : backward<float>(problem, outside, into, add);
}

}  // namespace longhaul::kernels
