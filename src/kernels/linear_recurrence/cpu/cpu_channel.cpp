// The part of RecurrenceWorker for a decay per key channel. The scores of a block are made of pairs (left
// half, right half) at every level of halving: with r the first token of the right half, Λ(j → i) = Λ(j → r)
// Λ(r → i) for j left, i right, so their part is one product of rows scaled by factors ≤ 1. What remains are
// the diagonal blocks of `channel_block` tokens: exactly, pair by pair, or, when the gate has a bound, as a
// product too, with Λ(m → i) and 1 / Λ(m → j) from the middle row m: no factor is then further from 1 than
// half the block's decay, so that a factor times a small gradient stays a normal number. (The secondary
// chunking of docs/sources/linear-attention.md §2, halved instead of cut into equal parts: each token is
// scaled once a level.)
#include <algorithm>

#include "kernels/linear_recurrence/cpu/cpu_worker.h"

namespace longhaul::kernels {

template <class Element>
void RecurrenceWorker<Element>::list_pairs() {
  pairs_.clear();
  int64_t level = 0;
  for (int64_t half = block_ / 2; half >= job_.channel_block; half /= 2, ++level) {
    for (int64_t start = 0; start + half < m_; start += 2 * half) {
      pairs_.push_back({start, half, start + half, std::min(half, m_ - start - half), level, false});
    }
  }
  for (int64_t start = 0; start < m_; start += job_.channel_block) {
    const int64_t rows = std::min(job_.channel_block, m_ - start);
    pairs_.push_back({start, rows, start, rows, level, true});
  }
}

// The rows of both sides of a pair, scaled.
template <class Element>
void RecurrenceWorker<Element>::scale_pair(const Pair& pair) const {
  const float *const left = lambda_ + pair.left * keys_, *const right = lambda_ + pair.right * keys_;
  if (pair.diagonal) {
    loops_.scale_from_middle(q_.at(pair.right), q_.ld, right, pair.right_rows, keys_, false,
                             right_factors(pair));
    loops_.scale_from_middle(k_.at(pair.left), k_.ld, left, pair.left_rows, keys_, true, left_factors(pair));
  } else {
    loops_.scale_forward(q_.at(pair.right), q_.ld, right, pair.right_rows, keys_, 1, right_factors(pair));
    loops_.scale_backward(k_.at(pair.left), k_.ld, left, pair.left_rows, keys_, left_factors(pair));
  }
}

template <class Element>
void RecurrenceWorker<Element>::channel_scores() const {
  for (const Pair& pair : pairs_) {
    float* const out = a_ + pair.right * block_ + pair.left;
    if (pair.diagonal && job_.smallest_decay == 0) {
      loops_.diagonal_scores(q_.at(pair.right), q_.ld, k_.at(pair.left), k_.ld, lambda_ + pair.left * keys_,
                             pair.left_rows, keys_, out, block_);
      continue;
    }
    scale_pair(pair);
    products_->pack(left_factors(pair), keys_, true, keys_, pair.left_rows, row_panels_);
    multiply(right_factors(pair), keys_, row_panels_, pair.right_rows, pair.left_rows, keys_, out, block_);
  }
}

// Scores with keys as rows; exact diagonal blocks take their gradients on the way.
template <class Element>
void RecurrenceWorker<Element>::channel_scores_transposed() const {
  for (float* sums : {dq_sum_, dk_sum_, moment_, written_}) std::fill_n(sums, m_ * keys_, 0.0f);
  for (const Pair& pair : pairs_) {
    float* const out = a_ + pair.left * block_ + pair.right;
    const int64_t at = pair.left * keys_;
    if (pair.diagonal && job_.smallest_decay == 0) {
      loops_.diagonal_gradients(q_.at(pair.right), q_.ld, k_.at(pair.left), k_.ld, lambda_ + at,
                                p_ + pair.left * block_ + pair.right, block_, job_.scale, pair.left_rows,
                                keys_, out, dq_sum_ + at, dk_sum_ + at, moment_ + at);
      continue;
    }
    scale_pair(pair);
    products_->pack(right_factors(pair), keys_, true, keys_, pair.right_rows, row_panels_);
    multiply(left_factors(pair), keys_, row_panels_, pair.left_rows, pair.right_rows, keys_, out, block_);
  }
}

// What a product left in first_, the gradient of one side's scaled rows, to the sums of that side.
template <class Element>
void RecurrenceWorker<Element>::add_pair(const Pair& pair, bool queries) const {
  const int64_t rows = queries ? pair.right_rows : pair.left_rows,
                at = (queries ? pair.right : pair.left) * keys_;
  const Element* const scaled = queries ? right_factors(pair) : left_factors(pair);
  float* const sum = (queries ? dq_sum_ : dk_sum_) + at;
  if (pair.diagonal)
    loops_.add_from_middle(first_, scaled, lambda_ + at, rows, keys_, !queries, sum, moment_ + at);
  else if (queries)
    loops_.add_forward(first_, scaled, lambda_ + at, rows, keys_, 1, sum, moment_ + at);
  else
    loops_.add_backward(first_, scaled, lambda_ + at, rows, keys_, -1, sum, moment_ + at);
}

template <class Element>
void RecurrenceWorker<Element>::channel_gradients(const float* state, const PassingState& d_state,
                                                  float* group) {
  for (const Pair& pair : pairs_) {
    if (pair.diagonal && job_.smallest_decay == 0) continue;
    products_->pack(left_factors(pair), keys_, false, pair.left_rows, keys_, row_panels_);
    multiply(pairs_q_ + pair.right * block_ + pair.left, block_, row_panels_, pair.right_rows, keys_,
             pair.left_rows, first_, keys_);
    add_pair(pair, true);
    products_->pack(right_factors(pair), keys_, false, pair.right_rows, keys_, row_panels_);
    multiply(pairs_k_ + pair.left * block_ + pair.right, block_, row_panels_, pair.left_rows, keys_,
             pair.right_rows, first_, keys_);
    add_pair(pair, false);
  }
  if (!d_state.zero()) {
    multiply(v_.data, v_.ld, state_panels_t_, m_, keys_, values_, first_, keys_);
    loops_.add_backward(first_, scaled_k_, lambda_, m_, keys_, 1, dk_sum_, written_);
  }
  if (state != nullptr) {
    products_->pack(rounded({.entered = state}), values_, true, values_, keys_, state_panels_t_);
    multiply(d_o_.data, d_o_.ld, state_panels_t_, m_, keys_, values_, first_, keys_);
    loops_.scale_forward(q_.data, q_.ld, lambda_, m_, keys_, job_.scale, scaled_q_);
    loops_.add_forward(first_, scaled_q_, lambda_, m_, keys_, job_.scale, dq_sum_, moment_);
  }
  store(dq_sum_, nullptr, ones_, keys_, 0, m_, dq_, nullptr);
  if (!job_.tied) store(dk_sum_, nullptr, ones_, keys_, 0, m_, dk_, group);
  if (!job_.wants_decay()) return;
  if (!passed_through(state, d_state, dots_)) std::fill_n(dots_, keys_, 0.0f);
  const Rows<float> d_log = job_.gated() ? Rows<float>{first_, keys_} : d_decay_;
  state_loops_.decay_gradient(moment_, written_, dots_, lambda_, job_.tied ? dk_sum_ : nullptr, m_, keys_,
                              d_log.data, d_log.ld);
  if (job_.gated()) channel_gate_gradients(state, d_state);
}

template class RecurrenceWorker<uint16_t>;
template class RecurrenceWorker<float>;

}  // namespace longhaul::kernels
