#include "kernels/delta_rule/tokens.h"

#include <cmath>

#include "base/threads/parallel.h"

namespace longhaul::kernels {
namespace {

// One token of one head; decay: of each key channel, or one (step 0).
template <class Real>
struct DeltaToken {
  const Real *q, *k, *v, *decay;
  int64_t decay_step;
  Real beta, scale;
};

// Two passes over the state: what it has under the key, then what is written and read.
template <class Real>
void delta_token(const DeltaToken<Real>& token, int64_t keys, int64_t values, Real* state, Real* write,
                 Real* out) {
  for (int64_t d = 0; d < values; ++d) write[d] = 0;
  for (int64_t c = 0; c < keys; ++c) {
    Real* row = state + c * values;
    const Real decay = token.decay[c * token.decay_step], k = token.k[c];
    for (int64_t d = 0; d < values; ++d) {
      row[d] *= decay;
      write[d] += k * row[d];
    }
  }
  for (int64_t d = 0; d < values; ++d) {
    write[d] = token.beta * (token.v[d] - write[d]);
    out[d] = 0;
  }
  for (int64_t c = 0; c < keys; ++c) {
    Real* row = state + c * values;
    const Real k = token.k[c], q = token.q[c] * token.scale;
    for (int64_t d = 0; d < values; ++d) {
      row[d] += k * write[d];
      out[d] += q * row[d];
    }
  }
}

template <class Real>
void run_tokens(const DeltaRuleProblem& problem, const RecurrenceStates& states, int64_t most,
                const Tensor& o) {
  const auto wide = [&](const Tensor& x) { return x.to(problem.state_type()).contiguous(); };
  const Tensor q = wide(problem.in.q_tgk), k = wide(problem.in.k_tgk), v = wide(problem.in.v_thv),
               beta = wide(problem.in.beta_th);
  const Tensor logs = problem.decays() ? wide(problem.in.log_decay) : Tensor();
  const int64_t heads = problem.heads(), keys = problem.keys(), values = problem.values(),
                step = problem.decays_by_channel() ? keys : 1;
  const Tensor sums = at::empty_like(v);
  const auto row_of = [](const Tensor& x, int64_t row) { return x.const_data_ptr<Real>() + row; };
  parallel_for(
      0, problem.documents() * heads, std::max<int64_t>(1, 65536 / (keys * values)),
      [&](int64_t first, int64_t last) {
        std::vector<Real> write(static_cast<size_t>(values)), decay(static_cast<size_t>(step), Real(1));
        for (int64_t i = first; i < last; ++i) {
          const auto n = static_cast<size_t>(i / heads);
          const int64_t h = i % heads, begin = problem.offsets[n], end = problem.offsets[n + 1];
          if (end - begin >= most) continue;
          Real* state =
              states.state_shkv.mutable_data_ptr<Real>() + (states.rows[n] * heads + h) * keys * values;
          for (int64_t t = begin; t < end; ++t) {
            const int64_t head = t * heads + h, key = (t * problem.key_heads() + h / problem.group()) * keys;
            // Not by LibTorch's exp, which may round an element by where it stands among others.
            for (int64_t c = 0; c < step && logs.defined(); ++c)
              decay[static_cast<size_t>(c)] = std::exp(row_of(logs, head * step)[c]);
            const DeltaToken<Real> token{.q = row_of(q, key),
                                         .k = row_of(k, key),
                                         .v = row_of(v, head * values),
                                         .decay = decay.data(),
                                         .decay_step = step == 1 ? 0 : 1,
                                         .beta = *row_of(beta, head),
                                         .scale = static_cast<Real>(problem.in.scale)};
            delta_token(token, keys, values, state, write.data(),
                        sums.mutable_data_ptr<Real>() + head * values);
          }
        }
      });
  for (size_t n = 0; n < states.rows.size(); ++n) {
    const int64_t begin = problem.offsets[n], length = problem.offsets[n + 1] - begin;
    if (length < most) o.narrow(0, begin, length).copy_(sums.narrow(0, begin, length));
  }
}

}  // namespace

void delta_rule_tokens(const DeltaRuleProblem& problem, const RecurrenceStates& states, int64_t most,
                       const Tensor& o) {
  if (problem.state_type() == at::kDouble) return run_tokens<double>(problem, states, most, o);
  run_tokens<float>(problem, states, most, o);
}

}  // namespace longhaul::kernels
