// The definition of linear_recurrence: loops in the state's dtype.
//
//   S_t = λ_t ⊙ S_{t-1} + k_tᵀ v_t          o_t = scale · q_t S_t
//   D_t = scale · q_tᵀ do_t + λ_{t+1} ⊙ D_{t+1}
//   (D of the last token also takes the final state's gradient)
//   dq_t = scale · S_t do_t     dk_t = D_t v_t     dv_t = k_t D_t     dλ_t = Σ_v S_{t-1} ⊙ D_t
//   dS_0 = λ_1 ⊙ D_1
#include <cmath>

#include "kernels/linear_recurrence/gate.h"

namespace longhaul::kernels {
namespace {

// Raw views of one problem in the state's dtype; index arithmetic in one place.
template <class Real>
struct View {
  explicit View(const RecurrenceProblem& problem)
      : type(problem.state_type()),
        given(problem.log_decay.defined() ? problem.log_decay.detach().to(type) : Tensor()),
        q(problem.q_thk.to(type).contiguous()),
        k(problem.options.tied_keys ? gate_keys(problem.gate(), given) : problem.k_thk.to(type).contiguous()),
        v(problem.v_thv.to(type).contiguous()),
        decay(problem.gated()   ? gate_decay(problem.gate(), given)
              : given.defined() ? given.exp().contiguous()
                                : Tensor()),
        kind(problem.decay),
        heads(problem.heads()),
        key_heads(k.size(1)),
        group(problem.group()),
        keys(problem.q_thk.size(2)),
        values(problem.v_thv.size(2)) {}

  const Real* q_row(int64_t t, int64_t h) const { return q.const_data_ptr<Real>() + (t * heads + h) * keys; }
  const Real* k_row(int64_t t, int64_t h) const {
    return k.const_data_ptr<Real>() + (t * key_heads + h / group) * keys;
  }
  const Real* v_row(int64_t t, int64_t h) const {
    return v.const_data_ptr<Real>() + (t * key_heads + h / group) * values;
  }
  int64_t decay_index(int64_t t, int64_t h, int64_t c) const {
    switch (kind) {
      case DecayKind::kHead:
        return h;
      case DecayKind::kHeadToken:
        return t * heads + h;
      default:
        return (t * heads + h) * keys + c;
    }
  }
  Real lambda(int64_t t, int64_t h, int64_t c) const {
    return kind == DecayKind::kNone ? Real(1) : decay.const_data_ptr<Real>()[decay_index(t, h, c)];
  }

  ScalarType type;
  Tensor given;           // log_decay, or a gate's logits
  Tensor q, k, v, decay;  // λ
  DecayKind kind;
  int64_t heads, key_heads, group, keys, values;
};

int64_t token_at(const RecurrenceProblem& problem, size_t document, int64_t i) {
  return problem.options.reverse ? problem.offsets[document + 1] - 1 - i : problem.offsets[document] + i;
}

// Advances the state of head h over token t.
template <class Real>
void advance(const View<Real>& view, int64_t t, int64_t h, Real* state_kv) {
  const Real* k = view.k_row(t, h);
  const Real* v = view.v_row(t, h);
  for (int64_t c = 0; c < view.keys; ++c) {
    const Real lambda = view.lambda(t, h, c);
    for (int64_t d = 0; d < view.values; ++d)
      state_kv[c * view.values + d] = lambda * state_kv[c * view.values + d] + k[c] * v[d];
  }
}

template <class Real>
LinearRecurrenceResult reference_forward(const RecurrenceProblem& problem) {
  const View<Real> view(problem);
  const auto options = problem.q_thk.options().dtype(view.type);
  Tensor o = at::empty({problem.tokens(), view.heads, view.values}, options);
  Tensor final_state = problem.initial_state_nhkv.defined()
                           ? problem.initial_state_nhkv.clone(at::MemoryFormat::Contiguous)
                           : at::zeros({problem.documents(), view.heads, view.keys, view.values}, options);
  const Real scale = static_cast<Real>(problem.options.scale);
  for (size_t n = 0; n + 1 < problem.offsets.size(); ++n) {
    for (int64_t h = 0; h < view.heads; ++h) {
      Real* state = final_state.mutable_data_ptr<Real>() +
                    (static_cast<int64_t>(n) * view.heads + h) * view.keys * view.values;
      for (int64_t i = 0; i < problem.offsets[n + 1] - problem.offsets[n]; ++i) {
        const int64_t t = token_at(problem, n, i);
        advance(view, t, h, state);
        const Real* q = view.q_row(t, h);
        Real* out = o.mutable_data_ptr<Real>() + (t * view.heads + h) * view.values;
        for (int64_t d = 0; d < view.values; ++d) {
          Real sum = 0;
          for (int64_t c = 0; c < view.keys; ++c) sum += q[c] * state[c * view.values + d];
          out[d] = scale * sum;
        }
      }
    }
  }
  return {o.to(problem.v_thv.scalar_type()), final_state};
}

template <class Real>
struct GradientBuffers {
  Tensor q, k, v, decay, state;
};

// One head of one document, backward. `states` holds S_0 … S_L of that head.
template <class Real>
void backward_head(const RecurrenceProblem& problem, const View<Real>& view, size_t n, int64_t h,
                   const Real* d_o, const std::vector<Real>& states, GradientBuffers<Real>& out) {
  const int64_t keys = view.keys, values = view.values, area = keys * values;
  const Real scale = static_cast<Real>(problem.options.scale);
  // starts as d_final
  Real* d_state =
      out.state.template mutable_data_ptr<Real>() + (static_cast<int64_t>(n) * view.heads + h) * area;
  for (int64_t i = problem.offsets[n + 1] - problem.offsets[n] - 1; i >= 0; --i) {
    const int64_t t = token_at(problem, n, i);
    const Real *q = view.q_row(t, h), *k = view.k_row(t, h), *v = view.v_row(t, h);
    const Real* g = d_o + (t * view.heads + h) * values;
    const Real *before = states.data() + i * area, *now = before + area;
    Real* dq = out.q.template mutable_data_ptr<Real>() + (t * view.heads + h) * keys;
    Real* dk = out.k.template mutable_data_ptr<Real>() + (t * view.key_heads + h / view.group) * keys;
    Real* dv = out.v.template mutable_data_ptr<Real>() + (t * view.key_heads + h / view.group) * values;
    for (int64_t c = 0; c < keys; ++c) {
      const Real lambda = view.lambda(t, h, c);
      Real d_lambda = 0;
      for (int64_t d = 0; d < values; ++d) {
        Real& total = d_state[c * values + d];
        total += scale * q[c] * g[d];
        dq[c] += scale * now[c * values + d] * g[d];
        dk[c] += total * v[d];
        dv[d] += k[c] * total;
        d_lambda += before[c * values + d] * total;
        total *= lambda;
      }
      if (out.decay.defined())
        out.decay.template mutable_data_ptr<Real>()[view.decay_index(t, h, c)] += d_lambda;
    }
  }
}

template <class Real>
RecurrenceGradients reference_backward(const RecurrenceProblem& problem, const Tensor& d_o_thd,
                                       const Tensor& d_final, bool want_decay) {
  const View<Real> view(problem);
  const Tensor d_o = d_o_thd.to(view.type).contiguous();
  const auto options = d_o.options();
  GradientBuffers<Real> out{
      at::zeros_like(view.q), at::zeros_like(view.k), at::zeros_like(view.v),
      want_decay ? at::zeros_like(view.decay) : Tensor(),
      d_final.defined() ? d_final.to(view.type).clone(at::MemoryFormat::Contiguous)
                        : at::zeros({problem.documents(), view.heads, view.keys, view.values}, options)};
  const int64_t area = view.keys * view.values;
  for (size_t n = 0; n + 1 < problem.offsets.size(); ++n) {
    const int64_t length = problem.offsets[n + 1] - problem.offsets[n];
    for (int64_t h = 0; h < view.heads; ++h) {
      std::vector<Real> states(static_cast<size_t>((length + 1) * area), Real(0));
      if (problem.initial_state_nhkv.defined()) {
        const Tensor initial = problem.initial_state_nhkv[static_cast<int64_t>(n)][h].contiguous();
        std::copy_n(initial.const_data_ptr<Real>(), area, states.data());
      }
      for (int64_t i = 0; i < length; ++i) {
        Real* now = states.data() + (i + 1) * area;
        std::copy_n(now - area, area, now);
        advance(view, token_at(problem, n, i), h, now);
      }
      backward_head(problem, view, n, h, d_o.const_data_ptr<Real>(), states, out);
    }
  }
  RecurrenceGradients result{
      .q_thk = out.q.to(problem.q_thk.scalar_type()),
      .k_thk = problem.options.tied_keys ? Tensor() : out.k.to(problem.k_thk.scalar_type()),
      .v_thv = out.v.to(problem.v_thv.scalar_type()),
      .initial_state_nhkv = out.state};
  if (!want_decay) return result;
  GateGradients of_gate{view.decay * out.decay, Tensor()};  // of a given log_decay
  if (problem.gated())
    of_gate =
        gate_gradients(problem.gate(), view.given, problem.options.tied_keys ? out.decay - out.k : out.decay);
  result.log_decay = of_gate.logits.to(problem.log_decay.scalar_type());
  result.lower_bound_hk = of_gate.lower_bound_hk;
  return result;
}

template <class Real>
void fold(const RecurrenceProblem& problem, bool gradient, const Tensor& state_nhkv,
          const Tensor& decay_nhk) {
  const View<Real> view(problem);
  const Real scale = static_cast<Real>(problem.options.scale);
  const int64_t keys = view.keys, values = view.values;
  state_nhkv.zero_();
  decay_nhk.fill_(1);
  for (size_t n = 0; n + 1 < problem.offsets.size(); ++n) {
    const int64_t length = problem.offsets[n + 1] - problem.offsets[n];
    for (int64_t h = 0; h < view.heads; ++h) {
      const int64_t at = static_cast<int64_t>(n) * view.heads + h;
      Real* state = state_nhkv.mutable_data_ptr<Real>() + at * keys * values;
      for (int64_t i = 0; i < length; ++i) {
        const int64_t t = token_at(problem, n, gradient ? length - 1 - i : i);
        for (int64_t c = 0; c < keys; ++c) {
          const Real lambda = view.lambda(t, h, c);
          decay_nhk.mutable_data_ptr<Real>()[at * keys + c] *= lambda;
          for (int64_t d = 0; gradient && d < values; ++d)
            state[c * values + d] =
                lambda * (state[c * values + d] + scale * view.q_row(t, h)[c] * view.v_row(t, h)[d]);
        }
        if (!gradient) advance(view, t, h, state);
      }
    }
  }
}

}  // namespace

LinearRecurrenceResult recurrence_forward_reference(const RecurrenceProblem& problem) {
  return problem.state_type() == at::kDouble ? reference_forward<double>(problem)
                                             : reference_forward<float>(problem);
}

RecurrenceGradients recurrence_backward_reference(const RecurrenceProblem& problem, const Tensor& d_o_thd,
                                                  const Tensor& d_final_nhkv, bool want_decay) {
  return problem.state_type() == at::kDouble
             ? reference_backward<double>(problem, d_o_thd, d_final_nhkv, want_decay)
             : reference_backward<float>(problem, d_o_thd, d_final_nhkv, want_decay);
}

void recurrence_fold_reference(const RecurrenceProblem& problem, bool gradient, const Tensor& state_nhkv,
                               const Tensor& decay_nhk) {
  if (problem.state_type() == at::kDouble) return fold<double>(problem, gradient, state_nhkv, decay_nhk);
  fold<float>(problem, gradient, state_nhkv, decay_nhk);
}

}  // namespace longhaul::kernels
