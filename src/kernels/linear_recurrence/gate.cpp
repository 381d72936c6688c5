#include "kernels/linear_recurrence/gate.h"

namespace longhaul::kernels {
namespace {

bool bounded(const RecurrenceGate& gate) { return gate.kind == RecurrenceGate::Kind::kLowerBounded; }

// log_decay is a logarithm, whose slope is infinite at a λ of 0. So much more of it, which no λ above 1e-12
// notices, keeps the slope, and with it what such a token gives γ.
constexpr double kLeastDecay = 0x1p-64;

}  // namespace

Tensor gate_decay(const RecurrenceGate& gate, const Tensor& x) {
  if (!bounded(gate)) return at::log_sigmoid(x).div(gate.divisor).exp();
  return gate.lower_bound_hk + (1 - gate.lower_bound_hk) * x.sigmoid();
}

Tensor gate_keys(const RecurrenceGate& gate, const Tensor& x_thk) {
  if (!bounded(gate)) return at::log_sigmoid(x_thk).div(gate.divisor).expm1().neg();
  return (1 - gate.lower_bound_hk) * x_thk.neg().sigmoid();
}

GateGradients gate_gradients(const RecurrenceGate& gate, const Tensor& x, const Tensor& d_lambda) {
  const Tensor rest = x.neg().sigmoid();
  if (!bounded(gate)) return {d_lambda * gate_decay(gate, x) * rest / gate.divisor, Tensor()};
  return {d_lambda * (1 - gate.lower_bound_hk) * x.sigmoid() * rest, (d_lambda * rest).sum(0)};
}

RecurrenceProblem with_gate_made(RecurrenceProblem problem) {
  if (!problem.gated()) return problem;
  RecurrenceGate gate = problem.gate();
  const Tensor x = problem.log_decay.to(problem.state_type());
  problem.log_decay =
      bounded(gate) ? gate_decay(gate, x).add(kLeastDecay).log() : at::log_sigmoid(x).div(gate.divisor);
  if (problem.options.tied_keys) {
    problem.k_thk = gate_keys(gate, x).to(problem.q_thk.scalar_type());
    problem.options.tied_keys = false;
  }
  problem.options.gate = {};
  return problem;
}

}  // namespace longhaul::kernels
