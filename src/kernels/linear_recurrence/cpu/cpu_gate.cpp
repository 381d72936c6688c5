// The part of RecurrenceWorker for gates: logits in place of log decays (op.h).
//
//   log_sigmoid     dx = dg σ(−x) / τ
//   lower_bounded   dx = dg ρ σ(−x), ρ = (1 − γ) σ(x) / λ          dγ = Σ_t dλ σ(−x)
//
// dg is the gradient of log λ, less λ dk where keys are tied. dλ is dg / λ, but where λ is small: dg is the
// difference of two suffix sums, and their rounding, over λ, would be more than dλ. There it is what it is by
// definition, S_{t−1} · D_t, for the channels that have such tokens.
#include <algorithm>
#include <cmath>

#include "kernels/linear_recurrence/cpu/cpu_worker.h"

namespace longhaul::kernels {

template <class Element>
HeadGate RecurrenceWorker<Element>::head_gate(int64_t head) const {
  const float* const bound = job_.gate.lower_bound;
  return {bound == nullptr ? nullptr : bound + head * keys_, job_.gate.inverse_divisor};
}

// The block's logits: rows of a decay per channel, or one number a token, side by side.
template <class Element>
void RecurrenceWorker<Element>::load_logits(int64_t document, int64_t start, int64_t head, int64_t columns) {
  if (job_.gate.logits.data != nullptr) {
    const auto from = job_.rows(job_.gate.logits, document, start, head);
    state_loops_.widen_rows(from.data, from.ld, m_, columns, logits_);
  } else {
    x_ = job_.rows(job_.decay, document, start, head);
    if (by_channel_) return;
    for (int64_t i = 0; i < m_; ++i) logits_[i] = *x_.at(i);
  }
  x_ = {logits_, columns};
}

template <class Element>
void RecurrenceWorker<Element>::logit_gradients(int64_t rows, int64_t columns, const float* gradients) {
  if (d_logits_.data != nullptr)
    recurrence_loops<uint16_t>().join_rows(gradients, nullptr, columns, nullptr, rows, columns,
                                           job_.past_caches, d_logits_.data, d_logits_.ld);
  else
    recurrence_loops<float>().join_rows(gradients, nullptr, columns, nullptr, rows, columns, job_.past_caches,
                                        d_decay_.data, d_decay_.ld);
}

// From the gradient of log λ in first_.
template <class Element>
void RecurrenceWorker<Element>::channel_gate_gradients(const float* state, const PassingState& d_state) {
  const bool wants_bound = lower_bound_sums != nullptr;
  std::fill_n(bound_sum_, keys_, 0.0f);
  state_loops_.gate_gradient(head_gate(head_), x_.data, x_.ld, lambda_, m_, keys_, first_,
                             wants_bound ? bound_sum_ : nullptr);
  logit_gradients(m_, keys_, first_);
  if (!wants_bound) return;
  if (job_.gate.small_decays) small_decay_slopes(state, d_state);
  for (int64_t c = 0; c < keys_; ++c) lower_bound_sums[c] += static_cast<double>(bound_sum_[c]);
}

// What gate_gradient leaves out of γ's gradient.
template <class Element>
void RecurrenceWorker<Element>::small_decay_slopes(const float* state, const PassingState& d_state) {
  float *const leaving = p_, *const slope = query_sum_;
  for (int64_t c = 0; c < keys_; ++c) {
    bool any = false;
    for (int64_t i = 0; i < m_; ++i) any = any || lambda_[i * keys_ + c] < kSmallDecay;
    if (!any) continue;
    for (int64_t d = 0; d < values_; ++d) {
      const int64_t at = c * values_ + d;
      leaving[d] = d_state.entered == nullptr
                       ? 0
                       : (d_state.sum == nullptr ? 1 : d_state.decay[c]) * d_state.entered[at];
      if (d_state.sum != nullptr) leaving[d] += d_state.sum[at];
    }
    loops_.channel_slopes(state == nullptr ? nullptr : state + c * values_, leaving, q_.data + c, k_.data + c,
                          keys_, v_.data, d_o_.data, lambda_ + c, job_.scale, m_, values_, second_, slope);
    for (int64_t i = 0; i < m_; ++i) {
      if (!(lambda_[i * keys_ + c] < kSmallDecay)) continue;
      const float d_key = job_.tied ? dk_sum_[i * keys_ + c] : 0;
      bound_sum_[c] += (slope[i] - d_key) / (1 + std::exp(x_.at(i)[c]));
    }
  }
}

template class RecurrenceWorker<uint16_t>;
template class RecurrenceWorker<float>;

}  // namespace longhaul::kernels
