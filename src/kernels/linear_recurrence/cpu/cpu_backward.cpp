// The backward half of RecurrenceWorker. With P_ij = do_i · v_j, scores held transposed (rows are keys):
//
//   dq_i = scale [ Λ(0 → i) ⊙ (S do_i) + Σ_{j ≤ i} P_ij k_j ⊙ Λ(j → i) ]
//   dk_j = Λ(j → m) ⊙ (D v_j) + scale Σ_{i ≥ j} P_ij q_i ⊙ Λ(j → i)
//   dv_j = Dᵀ(k_j ⊙ Λ(j → m)) + scale Σ_{i ≥ j} A_ij do_i
//   dg_i = Σ_{s ≥ i} q_s ⊙ dq_s|S + Σ_{j < i} k_j ⊙ dk_j|D + Λ ∘ rowsum(S ⊙ D) + Σ_{s ≥ i > j} P_sj A_sj
//
// where |S and |D are the parts that come from the states. The last sum runs over the pairs that straddle i;
// it is made of a suffix sum of (what s reads) − (what j gives), in which all other pairs cancel exactly
// because both sides use the same rounded numbers. For a scalar decay everything is summed over channels as
// well.
#include <algorithm>

#include "kernels/linear_recurrence/cpu/cpu_worker.h"

namespace longhaul::kernels {

template <class Element>
void RecurrenceWorker<Element>::pack_output_gradients() {
  pack_tokens(d_o_, values_, do_tokens_);
}

template <class Element>
void RecurrenceWorker<Element>::gradient_write(float* y) {
  if (by_channel_) {
    loops_.scale_forward(q_.data, q_.ld, lambda_, m_, keys_, job_.scale, scaled_q_);
  } else {
    loops_.scale_rows(q_.data, q_.ld, prefix_, m_, keys_, scaled_q_, keys_);
  }
  products_->transpose(scaled_q_, keys_, m_, keys_, transposed_, block_);
  multiply_tokens(transposed_, block_, do_tokens_, keys_, values_, 0, m_, y);
}

template <class Element>
double RecurrenceWorker<Element>::gradient_block(const float* state, const PassingState& d_state,
                                                 float* dk_sums, float* dv_sums) {
  scalar_pair_products();
  if (by_channel_) {
    channel_scores_transposed();
    loops_.scale_backward(k_.data, k_.ld, lambda_, m_, keys_, scaled_k_);
  }
  mask_pairs(!by_channel_ && job_.wants_decay());
  if (!d_state.zero()) {
    const Element* const operand = rounded(d_state);
    products_->pack(operand, values_, false, keys_, values_, state_panels_);
    products_->pack(operand, values_, true, values_, keys_, state_panels_t_);
  }
  for (int64_t j = 0; j < m_; j += strip_) {
    const int64_t rows = std::min(strip_, m_ - j);
    multiply_tokens(scores_ + j * block_, block_, do_tokens_, rows, values_, j, m_, first_);
    if (!d_state.zero()) {
      const Rows<const Element> keys = by_channel_ ? Rows<const Element>{scaled_k_, keys_} : k_;
      multiply(keys.at(j), keys.ld, state_panels_, rows, values_, keys_, second_, values_);
    }
    store(first_, !d_state.zero() ? second_ : nullptr, by_channel_ ? ones_ : suffix_, values_, j, rows, dv_,
          dv_sums);
  }
  if (!by_channel_) return scalar_gradients(state, d_state, dk_sums);
  channel_gradients(state, d_state, dk_sums);
  return 0;
}

// a_ji = q_i · k_j (for scalar decays) and p_ji = do_i · v_j, for the strips' rows j and all later i.
template <class Element>
void RecurrenceWorker<Element>::scalar_pair_products() const {
  const auto transposed_products = [&](const Rows<const Element>& left, const Rows<const Element>& right,
                                       int64_t columns, float* out) {
    products_->pack(right.data, right.ld, true, columns, m_, row_panels_);
    for (int64_t j = 0; j < m_; j += strip_) {
      multiply(left.at(j), left.ld,
               row_panels_ + j / kPanelColumns * packed_size<Element>(columns, kPanelColumns),
               std::min(strip_, m_ - j), m_ - j, columns, out + j * block_ + j, block_);
    }
  };
  transposed_products(v_, d_o_, values_, p_);
  if (!by_channel_) transposed_products(k_, q_, keys_, a_);
}

template <class Element>
void RecurrenceWorker<Element>::mask_pairs(bool sums) const {
  std::fill_n(query_sum_, m_, 0.0f);
  // diagonal blocks wider than a strip take its part above the diagonal as well
  if (by_channel_ && job_.channel_block > strip_) {
    std::fill_n(pairs_k_, m_ * block_, Element(0));
    std::fill_n(pairs_q_, m_ * block_, Element(0));
  }
  for (int64_t j = 0; j < m_; j += strip_) {
    const int64_t rows = std::min(strip_, m_ - j), at = j * block_ + j;
    loops_.mask_pair(a_ + at, p_ + at, mask_t_ + at, block_, rows, m_ - j, scores_ + at, pairs_k_ + at,
                     block_, sums ? key_sum_ + j : nullptr, query_sum_ + j);
    products_->transpose(pairs_k_ + at, block_, rows, m_ - j, pairs_q_ + at, block_);
  }
}

template <class Element>
void RecurrenceWorker<Element>::store(const float* first, const float* second, const float* factor,
                                      int64_t columns, int64_t row, int64_t rows, const Rows<Element>& out,
                                      float* group) const {
  if (group != nullptr) {
    loops_.add_rows(first, second, columns, factor + row, rows, columns, group + row * columns, columns);
  } else {
    loops_.join_rows(first, second, columns, factor + row, rows, columns, job_.past_caches, out.at(row),
                     out.ld);
  }
}

template <class Element>
double RecurrenceWorker<Element>::scalar_gradients(const float* state, const PassingState& d_state,
                                                   float* group) {
  const bool decay = job_.wants_decay();
  float *dots_q = dots_, *dots_k = dots_ + block_;
  std::fill_n(dots_, 2 * block_, 0.0f);
  pack_tokens(q_, keys_, q_tokens_);
  for (int64_t j = 0; j < m_; j += strip_) {
    const int64_t rows = std::min(strip_, m_ - j);
    multiply_tokens(pairs_k_ + j * block_, block_, q_tokens_, rows, keys_, j, m_, first_);
    if (!d_state.zero()) {
      multiply(v_.at(j), v_.ld, state_panels_t_, rows, keys_, values_, second_, keys_);
      if (decay) loops_.dot_rows(k_.at(j), k_.ld, second_, keys_, suffix_ + j, rows, keys_, dots_k + j);
    }
    store(first_, !d_state.zero() ? second_ : nullptr, suffix_, keys_, j, rows, dk_, group);
  }
  pack_tokens(k_, keys_, k_tokens_);
  if (state != nullptr)
    products_->pack(rounded({.entered = state}), values_, true, values_, keys_, state_panels_t_);
  for (int64_t i = 0; i < m_; i += strip_) {
    const int64_t rows = std::min(strip_, m_ - i);
    multiply_tokens(pairs_q_ + i * block_, block_, k_tokens_, rows, keys_, 0, i + rows, first_);
    if (state != nullptr) {
      multiply(d_o_.at(i), d_o_.ld, state_panels_t_, rows, keys_, values_, second_, keys_);
      if (decay) loops_.dot_rows(q_.at(i), q_.ld, second_, keys_, prefix_ + i, rows, keys_, dots_q + i);
    }
    store(first_, state != nullptr ? second_ : nullptr, prefix_, keys_, i, rows, dq_, nullptr);
  }
  return decay ? scalar_decay_gradient(state, d_state) : 0;
}

template <class Element>
bool RecurrenceWorker<Element>::passed_through(const float* state, const PassingState& d_state,
                                               float* sums) const {
  if (state == nullptr || d_state.zero()) return false;
  const float* gradient = d_state.sum == nullptr ? d_state.entered : d_state.sum;
  if (d_state.sum != nullptr && d_state.entered != nullptr) {
    state_loops_.advance(x, d_state.decay, d_state.entered, d_state.sum, keys_, values_);
    gradient = x;
  }
  state_loops_.row_dots(state, gradient, keys_, values_, sums);
  for (int64_t c = 0; c < keys_; ++c) sums[c] *= total_[c];
  return true;
}

template <class Element>
double RecurrenceWorker<Element>::scalar_decay_gradient(const float* state, const PassingState& d_state) {
  const float *dots_q = dots_, *dots_k = dots_ + block_;
  double through = 0;
  if (passed_through(state, d_state, second_)) {
    for (int64_t c = 0; c < keys_; ++c) through += second_[c];
  }
  for (int64_t i = 0; i < m_; ++i) {
    first_[i] = static_cast<float>(through);
    through += dots_k[i];
  }
  double later = 0, sum = 0;
  for (int64_t i = m_ - 1; i >= 0; --i) {
    later += dots_q[i] + (query_sum_[i] - key_sum_[i]);
    const double gradient = first_[i] + later;
    second_[i] = static_cast<float>(gradient);
    sum += gradient;
  }
  if (job_.gated()) {
    state_loops_.gate_gradient(head_gate(head_), logits_, m_, lambda_, 1, m_, second_, nullptr);
    logit_gradients(m_, 1, second_);
  } else if (job_.kind == DecayKind::kHeadToken) {
    for (int64_t i = 0; i < m_; ++i) *d_decay_.at(i) = second_[i];
  }
  return sum;
}

template class RecurrenceWorker<uint16_t>;
template class RecurrenceWorker<float>;

}  // namespace longhaul::kernels
