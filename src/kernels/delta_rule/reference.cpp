// The definition of delta_rule: loops in the state's dtype. D is the gradient of S.
//
//   S' = λ_t ⊙ S_{t-1}      r_t = v_t − k_t S'      u_t = β_t r_t      S_t = S' + k_tᵀ u_t      o_t = scale ·
//                                                                      q_t S_t
//
//   D += scale · q_tᵀ do_t     dq_t = scale · S_t do_t     du = k_t D     dβ_t = r_t · du
//   dv_t = dr = β_t du
//   dk_t = D u_t − S' dr       D' = D − k_tᵀ dr            dλ_t = Σ_v S_{t-1} ⊙ D'            D ← λ_t ⊙ D'
#include <algorithm>

#include "kernels/delta_rule/problem.h"

namespace longhaul::kernels {
namespace {

template <class Real>
struct DeltaView {
  explicit DeltaView(const DeltaRuleProblem& p)
      : problem(p),
        q(wide(p.in.q_tgk)),
        k(wide(p.in.k_tgk)),
        v(wide(p.in.v_thv)),
        beta(wide(p.in.beta_th)),
        decay(p.decays() ? wide(p.in.log_decay).exp() : Tensor()),
        heads(p.heads()),
        keys(p.keys()),
        values(p.values()) {}

  Tensor wide(const Tensor& x) const { return x.detach().to(problem.state_type()).contiguous(); }
  int64_t key_row(int64_t t, int64_t h) const {
    return (t * problem.key_heads() + h / problem.group()) * keys;
  }
  int64_t value_row(int64_t t, int64_t h) const { return (t * heads + h) * values; }
  int64_t decay_index(int64_t t, int64_t h, int64_t c) const {
    return problem.decays_by_channel() ? (t * heads + h) * keys + c : t * heads + h;
  }
  Real lambda(int64_t t, int64_t h, int64_t c) const {
    return decay.defined() ? decay.template const_data_ptr<Real>()[decay_index(t, h, c)] : Real(1);
  }
  const Real* of(const Tensor& x, int64_t row) const { return x.const_data_ptr<Real>() + row; }

  const DeltaRuleProblem& problem;
  Tensor q, k, v, beta, decay;
  int64_t heads, keys, values;
};

// `state` becomes S_t, `residual` r_t.
template <class Real>
void delta_step(const DeltaView<Real>& view, int64_t t, int64_t h, Real* state, Real* residual) {
  const Real *k = view.of(view.k, view.key_row(t, h)), *v = view.of(view.v, view.value_row(t, h));
  const Real beta = *view.of(view.beta, t * view.heads + h);
  std::copy_n(v, view.values, residual);
  for (int64_t c = 0; c < view.keys; ++c) {
    const Real lambda = view.lambda(t, h, c);
    for (int64_t d = 0; d < view.values; ++d) {
      state[c * view.values + d] *= lambda;
      residual[d] -= k[c] * state[c * view.values + d];
    }
  }
  for (int64_t c = 0; c < view.keys; ++c) {
    for (int64_t d = 0; d < view.values; ++d) state[c * view.values + d] += k[c] * beta * residual[d];
  }
}

Tensor reference_first_states(const DeltaRuleProblem& problem, const Tensor& given) {
  if (given.defined()) return given.detach().to(problem.state_type()).clone(at::MemoryFormat::Contiguous);
  return at::zeros({problem.documents(), problem.heads(), problem.keys(), problem.values()},
                   problem.state_options());
}

template <class Real>
LinearRecurrenceResult delta_forward(const DeltaRuleProblem& problem) {
  const DeltaView<Real> view(problem);
  const int64_t keys = view.keys, values = view.values;
  const Tensor o = at::empty({problem.tokens(), view.heads, values}, problem.state_options());
  const Tensor states = reference_first_states(problem, problem.in.initial_state_nhkv);
  std::vector<Real> residual(static_cast<size_t>(values));
  for (int64_t n = 0; n < problem.documents(); ++n) {
    for (int64_t h = 0; h < view.heads; ++h) {
      Real* state = states.mutable_data_ptr<Real>() + (n * view.heads + h) * keys * values;
      for (int64_t t = problem.offsets[static_cast<size_t>(n)];
           t < problem.offsets[static_cast<size_t>(n) + 1]; ++t) {
        delta_step(view, t, h, state, residual.data());
        const Real* q = view.of(view.q, view.key_row(t, h));
        Real* out = o.mutable_data_ptr<Real>() + view.value_row(t, h);
        for (int64_t d = 0; d < values; ++d) {
          Real sum = 0;
          for (int64_t c = 0; c < keys; ++c) sum += q[c] * state[c * values + d];
          out[d] = static_cast<Real>(problem.in.scale) * sum;
        }
      }
    }
  }
  return {o.to(problem.in.v_thv.scalar_type()), states};
}

template <class Real>
struct DeltaSums {
  explicit DeltaSums(const DeltaView<Real>& view)
      : q(at::zeros_like(view.q)),
        k(at::zeros_like(view.k)),
        v(at::zeros_like(view.v)),
        beta(at::zeros_like(view.beta)),
        decay(view.decay.defined() ? at::zeros_like(view.decay) : Tensor()) {}
  Tensor q, k, v, beta, decay;  // the last of λ
};

// One token backward: `before` is S_{t-1}, `now` S_t, `gradient` D.
template <class Real>
void delta_step_backward(const DeltaView<Real>& view, int64_t t, int64_t h, const Real* before,
                         const Real* now, const Real* residual, const Real* d_o, Real* gradient,
                         const DeltaSums<Real>& sums) {
  const int64_t keys = view.keys, values = view.values;
  const Real scale = static_cast<Real>(view.problem.in.scale), beta = *view.of(view.beta, t * view.heads + h);
  const Real *q = view.of(view.q, view.key_row(t, h)), *k = view.of(view.k, view.key_row(t, h));
  Real* dq = sums.q.template mutable_data_ptr<Real>() + view.key_row(t, h);
  Real* dk = sums.k.template mutable_data_ptr<Real>() + view.key_row(t, h);
  Real* dr = sums.v.template mutable_data_ptr<Real>() + view.value_row(t, h);  // starts as zeros
  for (int64_t c = 0; c < keys; ++c) {
    for (int64_t d = 0; d < values; ++d) {
      const int64_t at = c * values + d;
      gradient[at] += scale * q[c] * d_o[d];
      dq[c] += scale * now[at] * d_o[d];
      dk[c] += gradient[at] * beta * residual[d];
      dr[d] += k[c] * gradient[at];
    }
  }
  Real d_beta = 0;
  for (int64_t d = 0; d < values; ++d) {
    d_beta += residual[d] * dr[d];
    dr[d] *= beta;
  }
  sums.beta.template mutable_data_ptr<Real>()[t * view.heads + h] = d_beta;
  for (int64_t c = 0; c < keys; ++c) {
    const Real lambda = view.lambda(t, h, c);
    Real d_lambda = 0;
    for (int64_t d = 0; d < values; ++d) {
      const int64_t at = c * values + d;
      dk[c] -= lambda * before[at] * dr[d];
      gradient[at] -= k[c] * dr[d];
      d_lambda += before[at] * gradient[at];
      gradient[at] *= lambda;
    }
    if (sums.decay.defined())
      sums.decay.template mutable_data_ptr<Real>()[view.decay_index(t, h, c)] += d_lambda;
  }
}

template <class Real>
DeltaRuleGradients delta_backward(const DeltaRuleProblem& problem, const Tensor& d_o_thd,
                                  const Tensor& d_final) {
  const DeltaView<Real> view(problem);
  const DeltaSums<Real> sums(view);
  const Tensor d_o = view.wide(d_o_thd), d_states = reference_first_states(problem, d_final),
               initial = reference_first_states(problem, problem.in.initial_state_nhkv);
  const int64_t area = view.keys * view.values, values = view.values;
  for (int64_t n = 0; n < problem.documents(); ++n) {
    const int64_t begin = problem.offsets[static_cast<size_t>(n)],
                  length = problem.offsets[static_cast<size_t>(n) + 1] - begin;
    for (int64_t h = 0; h < view.heads; ++h) {
      std::vector<Real> states(static_cast<size_t>((length + 1) * area)),
          residuals(static_cast<size_t>(length * values + 1));
      std::copy_n(view.of(initial, (n * view.heads + h) * area), area, states.data());
      for (int64_t i = 0; i < length; ++i) {
        Real* now = states.data() + (i + 1) * area;
        std::copy_n(now - area, area, now);
        delta_step(view, begin + i, h, now, residuals.data() + i * values);
      }
      Real* gradient = d_states.mutable_data_ptr<Real>() + (n * view.heads + h) * area;
      for (int64_t i = length - 1; i >= 0; --i) {
        const Real* before = states.data() + i * area;
        delta_step_backward(view, begin + i, h, before, before + area, residuals.data() + i * values,
                            view.of(d_o, view.value_row(begin + i, h)), gradient, sums);
      }
    }
  }
  const auto as = [](const Tensor& gradient, const Tensor& input) {
    return gradient.to(input.scalar_type());
  };
  return {as(sums.q, problem.in.q_tgk),
          as(sums.k, problem.in.k_tgk),
          as(sums.v, problem.in.v_thv),
          as(sums.beta, problem.in.beta_th),
          problem.decays() ? as(sums.decay * view.decay, problem.in.log_decay) : Tensor(),
          d_states};
}

}  // namespace

LinearRecurrenceResult delta_rule_forward_reference(const DeltaRuleProblem& problem) {
  return problem.state_type() == at::kDouble ? delta_forward<double>(problem) : delta_forward<float>(problem);
}

DeltaRuleGradients delta_rule_backward_reference(const DeltaRuleProblem& problem, const Tensor& d_o_thd,
                                                 const Tensor& d_final_nhkv) {
  return problem.state_type() == at::kDouble ? delta_backward<double>(problem, d_o_thd, d_final_nhkv)
                                             : delta_backward<float>(problem, d_o_thd, d_final_nhkv);
}

}  // namespace longhaul::kernels
