// The backward half of DeltaChunk (chunked.h has the equations), with q scaled: p = Q Kᵀ ⊙ Λ, O = Q' S + p U.
// The gradient of log λ_i is what passes token i: what rows behind it read of the state that entered and of
// tokens before it (moment), what tokens before it give to the state that leaves (written), and the state
// that passes through. Pairs stand in a moment twice, with their row and against their column, from the same
// numbers, so that those that do not straddle i cancel exactly.
#include <algorithm>

#include "kernels/delta_rule/cpu.h"
#include "kernels/delta_rule/cpu_chunk.h"

namespace longhaul::kernels {
namespace {

constexpr int64_t kSide = kDeltaTokens;

}  // namespace

void DeltaChunk::backward(const float* state, const float* residual, float* gradient,
                          int64_t chunk_of_segment) {
  rows_.scale_rows(residual, values_, at_.beta, m_, values_, at_.u, values_);
  pack_tokens(at_.d_o, values_, at_.d_o_tokens);
  gradient_of_writes(gradient);
  store(at_.y, m_, values_, job_.dv, token_, head_);
  rows_.dot_rows(at_.z, values_, residual, values_, at_.ones, m_, values_, at_.through);
  for (int64_t i = 0; i < m_; ++i)
    job_.d_beta.data[(token_ + i) * job_.d_beta.token + head_ * job_.d_beta.head] = at_.through[i];
  rows_.scale_rows(at_.y, values_, at_.minus, m_, values_, at_.y, values_);  // −Y from here on
  products_with_states(state, gradient);
  if (job_.by_channel)
    gradients_by_channel(state, gradient);
  else
    gradients_by_head(state, gradient);
  rows_.scale_rows(at_.d_q, keys_, at_.scales, m_, keys_, at_.d_q, keys_);
  if (job_.group > 1) {
    const int64_t at = chunk_of_segment * kSide * keys_;
    rows_.add_rows(at_.d_q, nullptr, keys_, nullptr, m_, keys_, at_.group_dq + at, keys_);
    rows_.add_rows(at_.d_k, nullptr, keys_, nullptr, m_, keys_, at_.group_dk + at, keys_);
  } else {
    store(at_.d_q, m_, keys_, job_.dq, token_, head_);
    store(at_.d_k, m_, keys_, job_.dk, token_, head_);
  }
  pass_gradient(gradient);
}

void DeltaChunk::begin_group() const {
  if (job_.group == 1) return;
  for (float* sums : {at_.group_dq, at_.group_dk})
    std::fill_n(sums, kDeltaSegmentChunks * kSide * keys_, 0.0f);
}

void DeltaChunk::end_group(int64_t document, int64_t start, int64_t tokens, int64_t key_head) const {
  if (job_.group == 1) return;
  const int64_t token = job_.offsets[static_cast<size_t>(document)] + start;
  store(at_.group_dq, tokens, keys_, job_.dq, token, key_head);
  store(at_.group_dk, tokens, keys_, job_.dk, token, key_head);
}

// z and y of dU = pᵀ dO + K° G.
void DeltaChunk::gradient_of_writes(const float* gradient) const {
  products_->transpose(at_.p, kSide, m_, m_, at_.raw, kSide);
  multiply_upper(at_.raw, at_.d_o_tokens, values_, at_.z, false);
  products_->pack(gradient, values_, false, keys_, values_, at_.state_panels);
  products_->multiply(at_.k_to, keys_, at_.state_panels, m_, values_, keys_, at_.z, values_, true);
  loops_.solve_upper(at_.a, kSide, at_.beta, m_, values_, at_.z, at_.y);
}

// first = dO Sᵀ, second = −Y Sᵀ, third = U Gᵀ; d_p = dO Uᵀ and d_a = −Y Uᵀ.
void DeltaChunk::products_with_states(const float* state, const float* gradient) const {
  products_->pack(state, values_, true, values_, keys_, at_.state_panels_t);
  products_->multiply(at_.d_o, values_, at_.state_panels_t, m_, keys_, values_, at_.first, keys_);
  products_->multiply(at_.y, values_, at_.state_panels_t, m_, keys_, values_, at_.second, keys_);
  products_->pack(gradient, values_, true, values_, keys_, at_.state_panels_t);
  products_->multiply(at_.u, values_, at_.state_panels_t, m_, keys_, values_, at_.third, keys_);
  products_->pack(at_.u, values_, true, values_, m_, at_.panels);
  multiply_pairs(at_.d_o, at_.panels, values_, at_.d_p);
  multiply_pairs(at_.y, at_.panels, values_, at_.d_a);
}

void DeltaChunk::gradients_by_head(const float* state, const float* gradient) const {
  std::fill_n(at_.moment, m_, 0.0f);
  if (job_.d_decay.data != nullptr) {
    rows_.dot_rows(at_.k, keys_, at_.third, keys_, at_.suffix, m_, keys_, at_.written);
    for (const auto& [x, of_state] : {std::pair{at_.q, at_.first}, {at_.k, at_.second}}) {
      rows_.dot_rows(x, keys_, of_state, keys_, at_.prefix, m_, keys_, at_.through);
      for (int64_t i = 0; i < m_; ++i) at_.moment[i] += at_.through[i];
    }
  }
  loops_.mask_gradient(at_.d_p, at_.p, at_.mask, kSide, m_, 1, at_.moment);
  loops_.mask_gradient(at_.d_a, at_.a, at_.mask, kSide, m_, 0, at_.moment);
  if (job_.d_decay.data != nullptr) decay_gradient_by_head(state, gradient);

  pack_tokens(at_.k, keys_, at_.k_tokens);
  rows_.scale_rows(at_.first, keys_, at_.prefix, m_, keys_, at_.d_q, keys_);
  multiply_lower(at_.d_p, at_.k_tokens, keys_, at_.d_q, true);
  rows_.scale_rows(at_.second, keys_, at_.prefix, m_, keys_, at_.second, keys_);
  std::fill_n(at_.d_k, m_ * keys_, 0.0f);
  rows_.add_rows(at_.second, at_.third, keys_, at_.suffix, m_, keys_, at_.d_k, keys_);
  products_->transpose(at_.d_a, kSide, m_, m_, at_.raw, kSide);
  loops_.add_square(at_.raw, kSide, m_, at_.d_a);
  multiply_tokens(at_.d_a, at_.k_tokens, m_, keys_, 0, m_, at_.d_k, true);
  pack_tokens(at_.q, keys_, at_.q_tokens);
  products_->transpose(at_.d_p, kSide, m_, m_, at_.raw, kSide);
  multiply_upper(at_.raw, at_.q_tokens, keys_, at_.d_k, true);
}

void DeltaChunk::decay_gradient_by_head(const float* state, const float* gradient) const {
  states_.row_dots(state, gradient, keys_, values_, at_.through);
  double passes = 0, later = 0;
  for (int64_t c = 0; c < keys_; ++c)
    passes += static_cast<double>(at_.total[c]) * static_cast<double>(at_.through[c]);
  float* const out = job_.d_decay.data + token_ * job_.d_decay.token + head_ * job_.d_decay.head;
  for (int64_t i = 0; i < m_; ++i) {
    out[i * job_.d_decay.token] = static_cast<float>(passes);
    passes += at_.written[i];
  }
  for (int64_t i = m_ - 1; i >= 0; --i) {
    later += at_.moment[i];
    out[i * job_.d_decay.token] += static_cast<float>(later);
  }
}

void DeltaChunk::gradients_by_channel(const float* state, const float* gradient) const {
  for (float* sums : {at_.d_q, at_.d_k, at_.moment, at_.written}) std::fill_n(sums, m_ * keys_, 0.0f);
  rows_.add_forward(at_.first, at_.q_from, at_.lambda, m_, keys_, 1, at_.d_q, at_.moment);
  rows_.add_forward(at_.second, at_.k_from, at_.lambda, m_, keys_, 1, at_.d_k, at_.moment);
  rows_.add_backward(at_.third, at_.k_to, at_.lambda, m_, keys_, 1, at_.d_k, at_.written);
  loops_.mask_lower(at_.d_p, nullptr, kSide, m_, 1, at_.d_p);
  loops_.mask_lower(at_.d_a, nullptr, kSide, m_, 0, at_.d_a);
  pairs_backward(at_.d_p, at_.q, at_.d_q);
  pairs_backward(at_.d_a, at_.k, at_.d_k);
  states_.row_dots(state, gradient, keys_, values_, at_.through);
  for (int64_t c = 0; c < keys_; ++c) at_.through[c] *= at_.total[c];
  states_.decay_gradient(at_.moment, at_.written, at_.through, at_.lambda, nullptr, m_, keys_,
                         job_.d_decay.data + token_ * job_.d_decay.token + head_ * job_.d_decay.head,
                         job_.d_decay.token);
}

// Of scores Σ_c x_ic k_jc Λ_c(j → i): d_x, d_k and moment get their sums.
void DeltaChunk::pairs_backward(const float* d_scores, const float* x, float* d_x) const {
  products_->transpose(d_scores, kSide, m_, m_, at_.raw, kSide);
  for (const Pair& pair : pairs_) {
    const int64_t left = pair.left * keys_, right = pair.right * keys_,
                  transposed = pair.left * kSide + pair.right;
    if (pair.diagonal()) {
      rows_.diagonal_gradients(x + left, keys_, at_.k + left, keys_, at_.lambda + left, at_.raw + transposed,
                               kSide, 1, pair.left_rows, keys_, at_.mask + transposed, d_x + left,
                               at_.d_k + left, at_.moment + left);
      continue;
    }
    rows_.scale_backward(at_.k + left, keys_, at_.lambda + left, pair.left_rows, keys_, at_.left);
    rows_.scale_forward(x + right, keys_, at_.lambda + right, pair.right_rows, keys_, 1, at_.right);
    products_->pack(at_.left, keys_, false, pair.left_rows, keys_, at_.panels);
    products_->multiply(d_scores + pair.right * kSide + pair.left, kSide, at_.panels, pair.right_rows, keys_,
                        pair.left_rows, at_.first, keys_);
    rows_.add_forward(at_.first, at_.right, at_.lambda + right, pair.right_rows, keys_, 1, d_x + right,
                      at_.moment + right);
    products_->pack(at_.right, keys_, false, pair.right_rows, keys_, at_.panels);
    products_->multiply(at_.raw + transposed, kSide, at_.panels, pair.left_rows, keys_, pair.right_rows,
                        at_.first, keys_);
    rows_.add_backward(at_.first, at_.left, at_.lambda + left, pair.left_rows, keys_, -1, at_.d_k + left,
                       at_.moment + left);
  }
}

// G ← Λ ⊙ G + Q'ᵀ dO − K'ᵀ Y.
void DeltaChunk::pass_gradient(float* gradient) const {
  products_->transpose(at_.q_from, keys_, m_, keys_, at_.transposed, kSide);
  multiply_tokens(at_.transposed, at_.d_o_tokens, keys_, values_, 0, m_, at_.added, false);
  products_->transpose(at_.k_from, keys_, m_, keys_, at_.transposed, kSide);
  pack_tokens(at_.y, values_, at_.y_tokens);
  multiply_tokens(at_.transposed, at_.y_tokens, keys_, values_, 0, m_, at_.added, true);
  states_.advance(gradient, at_.total, gradient, at_.added, keys_, values_);
}

}  // namespace longhaul::kernels
