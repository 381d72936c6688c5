// The gates of op.h in CUDA kernels: a token's decay, tied key and slopes from its logit, in fp32
// (docs/sources/linear-attention.md §5.3).
#pragma once

#include <cmath>

#include "kernels/cuda/numbers.h"

namespace longhaul::kernels::cuda {

enum class RecurrenceGateKind : int { kNone, kLogSigmoid, kLowerBounded };

struct RecurrenceGate {
  RecurrenceGateKind kind = RecurrenceGateKind::kNone;
  float inverse_divisor = 1;
  const Bf16* logits = nullptr;        // as log_decay would be, bf16; null: fp32 ones stand in its place
  const float* lower_bound = nullptr;  // γ [H, keys], of a lower-bounded gate
};

LONGHAUL_HD bool gated(const RecurrenceGate& gate) { return gate.kind != RecurrenceGateKind::kNone; }
LONGHAUL_HD bool bounded(const RecurrenceGate& gate) {
  return gate.kind == RecurrenceGateKind::kLowerBounded;
}

// Sigmoids of a logit by u = e^{−|x|}.
struct Logit {
  float x, u;
  LONGHAUL_HD float larger() const { return 1.f / (1.f + u); }
  LONGHAUL_HD float sigmoid() const { return x < 0 ? u * larger() : larger(); }
  LONGHAUL_HD float rest() const { return x < 0 ? larger() : u * larger(); }  // σ(−x)
  LONGHAUL_HD float log_sigmoid() const { return fminf(x, 0.f) - log1pf(u); }
};
LONGHAUL_HD Logit logit_at(const RecurrenceGate& gate, const float* fp32, int64_t at) {
  const float x = gate.logits != nullptr ? to_float(gate.logits[at]) : fp32[at];
  return {x, exponential(-fabsf(x))};
}

LONGHAUL_HD float bound_at(const RecurrenceGate& gate, int64_t at) {
  return bounded(gate) ? gate.lower_bound[at] : 0.f;
}

// Added to a lower-bounded λ, which above 1e-12 does not notice: the gradient of γ is that of log λ over λ,
// and a λ of 0 would lose it.
constexpr float kLeastDecay = 0x1p-64f;

LONGHAUL_HD float gate_log_decay(const RecurrenceGate& gate, const Logit& x) {
  return gate.inverse_divisor * x.log_sigmoid();
}  // log_sigmoid
LONGHAUL_HD float gate_decay(const RecurrenceGate& gate, const Logit& x, float bound) {
  return bounded(gate) ? bound + (1.f - bound) * x.sigmoid() + kLeastDecay
                       : exponential(gate_log_decay(gate, x));
}
LONGHAUL_HD float gate_key(const RecurrenceGate& gate, const Logit& x, float bound) {
  return bounded(gate) ? (1.f - bound) * x.rest() : -expm1f(gate_log_decay(gate, x));
}
// ∂ log λ / ∂x, and ∂ log λ / ∂γ.
LONGHAUL_HD float gate_slope(const RecurrenceGate& gate, const Logit& x, float bound) {
  return bounded(gate) ? x.rest() * ((1.f - bound) * x.sigmoid() / gate_decay(gate, x, bound))
                       : gate.inverse_divisor * x.rest();
}
LONGHAUL_HD float bound_slope(const RecurrenceGate& gate, const Logit& x, float bound) {
  return x.rest() / gate_decay(gate, x, bound);
}

}  // namespace longhaul::kernels::cuda
