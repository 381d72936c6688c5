#include "kernels/linear_recurrence/cpu/cpu_worker.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "base/memory/memory_purpose.h"

namespace longhaul::kernels {

FlushDenormals::FlushDenormals() {
#if defined(__x86_64__)
  before_ = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(static_cast<unsigned>(before_) | 0x8040u);  // flush to zero, denormals are zero
#elif defined(__aarch64__)
  asm volatile("mrs %0, fpcr" : "=r"(before_));
  asm volatile("msr fpcr, %0" : : "r"(before_ | uint64_t{1} << 24));
#else
  before_ = 0;
#endif
}

FlushDenormals::~FlushDenormals() {
#if defined(__x86_64__)
  __builtin_ia32_ldmxcsr(static_cast<unsigned>(before_));
#elif defined(__aarch64__)
  asm volatile("msr fpcr, %0" : : "r"(before_));
#endif
}

template <class Element>
RecurrenceWorker<Element>::RecurrenceWorker(const RecurrenceJob<Element>& job, bool backward)
    : job_(job),
      loops_(recurrence_loops<Element>()),
      state_loops_(state_loops()),
      block_(job.plan.block),
      strip_(std::max<int64_t>(16, products_->depth)),
      keys_(job.keys),
      values_(job.values),
      by_channel_(job.kind == DecayKind::kKeyToken) {
  reserve_scratch(backward);
  int64_t bytes = 0;
  for (const auto& [pointer, size] : reservations_) bytes += size;
  const MemoryPurposeScope scope(MemoryPurpose::kWorkspace);
  memory_ = at::empty({bytes / 4}, at::kFloat);
  char* next = static_cast<char*>(memory_.mutable_data_ptr());
  for (const auto& [pointer, size] : reservations_) {
    *pointer = next;
    next += size;
  }
  std::fill_n(ones_, block_, 1.0f);
}

template <class Element>
RecurrenceWorker<Element>::~RecurrenceWorker() {
#ifdef __x86_64__
  __builtin_ia32_sfence();
#endif
}

template <class Element>
void RecurrenceWorker<Element>::reserve(void** pointer, int64_t bytes) {
  reservations_.emplace_back(pointer, (bytes + 63) / 64 * 64);
}

template <class Element>
void RecurrenceWorker<Element>::reserve_scratch(bool backward) {
  const int64_t square = block_ * block_, wide = std::max(keys_, values_), area = keys_ * values_,
                packs = (block_ + kPack<Element> - 1) / kPack<Element>;
  for (float** pointer : {&x, &passage_sum}) reserve(*pointer, area);
  for (float** pointer : {&passage_decay, &total_}) reserve(*pointer, keys_);
  for (float** pointer : {&prefix_, &suffix_, &ones_}) reserve(*pointer, block_);
  reserve(powers_, block_ + 1);
  reserve(mask_, square);
  reserve(lambda_, block_ * (by_channel_ ? keys_ : 1));
  reserve(a_, square);
  reserve(first_, block_ * wide);
  reserve(second_, block_ * wide);
  reserve(row_panels_, std::max(packed_size<Element>(wide, block_), packed_size<Element>(block_, wide)));
  reserve(state_panels_, packed_size<Element>(keys_, values_));
  reserve(state_, area);
  const int64_t places = backward ? job_.plan.segment_blocks : 1;
  reserve(q_copy_, block_ * keys_);
  if (!job_.tied) reserve(k_copy_, places * block_ * keys_);
  reserve(v_copy_, places * block_ * values_);
  reserve(v_tokens_, packs * packed_size<Element>(kPack<Element>, values_));
  reserve(scaled_q_, block_ * keys_);
  reserve(scaled_k_, block_ * keys_);
  reserve(transposed_, block_ * keys_);
  reserve(scores_, square);
  if (job_.tied) reserve(tied_, block_ * keys_);
  if (job_.gated()) reserve(logits_, block_ * (by_channel_ ? keys_ : 1));
  if (by_channel_) {
    int64_t levels = 1;
    for (int64_t half = block_ / 2; half >= job_.channel_block; half /= 2) ++levels;
    reserve(level_q_, levels * block_ * keys_);
    reserve(level_k_, levels * block_ * keys_);
  }
  if (!backward) return;
  const int64_t segment = block_ * job_.plan.segment_blocks;
  reserve(state_panels_t_, packed_size<Element>(values_, keys_));
  reserve(states, job_.plan.segment_blocks * area);
  if (job_.group > 1) {
    reserve(group_dk, segment * keys_);
    reserve(group_dv, segment * values_);
  }
  reserve(mask_t_, square);
  reserve(p_, square);
  reserve(pairs_q_, square);
  reserve(pairs_k_, square);
  reserve(d_o_copy_, block_ * values_);
  reserve(do_tokens_, packs * packed_size<Element>(kPack<Element>, values_));
  reserve(q_tokens_, packs * packed_size<Element>(kPack<Element>, keys_));
  reserve(k_tokens_, packs * packed_size<Element>(kPack<Element>, keys_));
  reserve(dots_, 2 * std::max(block_, keys_));
  for (float** pointer : {&key_sum_, &query_sum_}) reserve(*pointer, block_);
  if (!by_channel_) return;
  for (float** pointer : {&dq_sum_, &dk_sum_, &moment_, &written_}) reserve(*pointer, block_ * keys_);
  if (job_.gated()) reserve(bound_sum_, keys_);
}

template <class Element>
void RecurrenceWorker<Element>::multiply(const Element* a, int64_t lda, const Element* panels, int64_t m,
                                         int64_t n, int64_t k, float* c, int64_t ldc, bool accumulate) const {
  for (int64_t i = 0; i < m; i += strip_) {
    next_rows_.fetch_some();
    products_->multiply(a + i * lda, lda, panels, std::min(strip_, m - i), n, k, c + i * ldc, ldc,
                        accumulate);
  }
}

template <class Element>
const Element* RecurrenceWorker<Element>::rounded(const PassingState& state) const {
  loops_.round_state(state, keys_, values_, state_);
  return state_;
}

template <class Element>
void RecurrenceWorker<Element>::pack_tokens(const Rows<const Element>& x_rows, int64_t columns,
                                            Element* panels) const {
  constexpr int64_t kTokens = kPack<Element>;
  for (int64_t t = 0; t < m_; t += kTokens) {
    products_->pack(x_rows.at(t), x_rows.ld, false, std::min(kTokens, m_ - t), columns,
                    panels + t / kTokens * packed_size<Element>(kTokens, columns));
  }
}

// C [m × n] = Σ over tokens first … end − 1 of a's columns times the tokens' rows; first is a multiple of
// strip_.
template <class Element>
void RecurrenceWorker<Element>::multiply_tokens(const Element* a, int64_t lda, const Element* panels,
                                                int64_t m, int64_t n, int64_t first, int64_t end,
                                                float* c) const {
  constexpr int64_t kTokens = kPack<Element>;
  for (int64_t t = first; t < end;) {
    const int64_t inside = t % kTokens, next = std::min(end, t - inside + kTokens);
    multiply(a + t, lda, panels + t / kTokens * packed_size<Element>(kTokens, n) + inside * kPanelColumns, m,
             n, next - t, c, n, t > first);
    t = next;
  }
}

// ---- decays

template <class Element>
void RecurrenceWorker<Element>::enter_head(int64_t head) {
  const bool first = head_ < 0;
  head_ = head;
  if (job_.kind == DecayKind::kHeadToken || (!first && job_.kind != DecayKind::kHead)) return;
  const double gamma =
      job_.kind == DecayKind::kHead ? static_cast<double>(job_.decay.data[head * job_.decay.head]) : 0.0;
  for (int64_t n = 0; n <= block_; ++n)
    powers_[n] = n == 0 ? 1.0f : static_cast<float>(std::exp(gamma * static_cast<double>(n)));
  for (int64_t i = 0; i < block_; ++i) {
    for (int64_t j = 0; j <= i; ++j) mask_[i * block_ + j] = job_.scale * powers_[i - j];
  }
  if (mask_t_ == nullptr) return;
  for (int64_t j = 0; j < block_; ++j) {
    for (int64_t i = j; i < block_; ++i) mask_t_[j * block_ + i] = mask_[i * block_ + j];
  }
}

template <class Element>
void RecurrenceWorker<Element>::load_scalar_decays(int64_t document, int64_t start, int64_t head) {
  if (job_.kind != DecayKind::kHeadToken) {
    for (int64_t i = 0; i < m_; ++i) {
      prefix_[i] = job_.scale * powers_[i + 1];
      suffix_[i] = powers_[m_ - 1 - i];
    }
    std::fill_n(total_, keys_, powers_[m_]);
    return;
  }
  scalar_lambdas(document, start, head);
  state_loops_.decay_mask(lambda_, m_, job_.scale, mask_, block_);
  if (mask_t_ != nullptr) products_->transpose_fp32(mask_, block_, m_, m_, mask_t_, block_);
  float before = 1, after = 1;
  for (int64_t i = 0; i < m_; ++i) {
    before *= lambda_[i];
    prefix_[i] = job_.scale * before;
    suffix_[m_ - 1 - i] = after;
    after *= lambda_[m_ - 1 - i];
  }
  std::fill_n(total_, keys_, before);
}

// λ of a decay per token and head.
template <class Element>
void RecurrenceWorker<Element>::scalar_lambdas(int64_t document, int64_t start, int64_t head) {
  if (job_.gated()) {
    load_logits(document, start, head, 1);
    return loops_.gate_rows(head_gate(head), logits_, m_, 1, m_, lambda_, nullptr);
  }
  const auto g = job_.rows(job_.decay, document, start, head);
  for (int64_t i = 0; i < m_; ++i) first_[i] = *g.at(i);
  state_loops_.exponentials(first_, m_, 1, m_, lambda_);
}

template <class Element>
void RecurrenceWorker<Element>::load_channel_decays(int64_t document, int64_t start, int64_t head) {
  if (job_.gated()) {
    load_logits(document, start, head, keys_);
    loops_.gate_rows(head_gate(head), x_.data, x_.ld, m_, keys_, lambda_, job_.tied ? tied_ : nullptr);
  } else {
    const auto g = job_.rows(job_.decay, document, start, head);
    refuse_rising_decay(state_loops_.exponentials(g.data, g.ld, m_, keys_, lambda_));
    if (job_.tied) loops_.tied_keys(g.data, g.ld, m_, keys_, tied_);
  }
  state_loops_.products(lambda_, m_, keys_, total_);
  if (!job_.promised) return;
  const float smallest = state_loops_.smallest(lambda_, m_ * keys_);
  if (!(smallest >= job_.smallest_decay * 0.999f)) {  // 0.999: the caller's bound may be rounded
    throw Error({.code = ExitCode::kUsage,
                 .what = "linear_recurrence: log_decay lies below its promised bound",
                 .expected = fmt::format("at least {}", std::log(job_.smallest_decay)),
                 .found = fmt::format("{}", std::log(smallest))});
  }
}

template <class Element>
void RecurrenceWorker<Element>::announce_block(int64_t document, int64_t start, int64_t tokens, int64_t head,
                                               unsigned rows) {
  const auto add = [&](const auto& view, int64_t of_head, int64_t channels) {
    if (view.data == nullptr) return;
    const auto from = job_.rows(view, document, start, of_head);
    const auto size = static_cast<int64_t>(sizeof *from.data);
    next_rows_.add(from.data, from.ld * size, tokens, channels * size);
  };
  if (rows & kQueries) add(job_.q, head, keys_);
  if (rows & kKeysAndValues) {
    add(job_.k, head / job_.group, keys_);
    add(job_.v, head / job_.group, values_);
  }
  if (rows & kOutputGradients) add(job_.d_o, head, values_);
  if (by_channel_) {
    add(job_.decay, head, keys_);
    add(job_.gate.logits, head, keys_);
  }
}

template <class Element>
void RecurrenceWorker<Element>::place_rows(int64_t document, int64_t start, int64_t tokens, int64_t head) {
  const bool other_length = tokens != m_;
  m_ = tokens;
  if (by_channel_ && other_length) list_pairs();
  const int64_t key_head = head / job_.group;
  q_ = job_.rows(job_.q, document, start, head);
  k_ = job_.tied ? Rows<const Element>{tied_, keys_} : job_.rows(job_.k, document, start, key_head);
  v_ = job_.rows(job_.v, document, start, key_head);
  if (job_.o.data != nullptr) o_ = job_.rows(job_.o, document, start, head);
  if (job_.d_o.data != nullptr) d_o_ = job_.rows(job_.d_o, document, start, head);
  if (job_.dq.data != nullptr) dq_ = job_.rows(job_.dq, document, start, head);
  if (job_.dk.data != nullptr) dk_ = job_.rows(job_.dk, document, start, key_head);
  if (job_.dv.data != nullptr) dv_ = job_.rows(job_.dv, document, start, key_head);
  if (job_.gate.d_logits.data != nullptr) d_logits_ = job_.rows(job_.gate.d_logits, document, start, head);
  if (job_.d_decay.data != nullptr && job_.kind != DecayKind::kHead)
    d_decay_ = job_.rows(job_.d_decay, document, start, head);
}

template <class Element>
void RecurrenceWorker<Element>::copy_rows(unsigned rows, int64_t place) {
  const auto copy = [&](Rows<const Element>& from, int64_t columns, Element* to, unsigned which) {
    if (rows & which) loops_.copy_rows(from.data, from.ld, m_, columns, to);
    from = {to, columns};
  };
  copy(q_, keys_, q_copy_, kQueries);
  if (!job_.tied) copy(k_, keys_, k_copy_ + place * block_ * keys_, kKeysAndValues);
  copy(v_, values_, v_copy_ + place * block_ * values_, kKeysAndValues);
  copy(d_o_, values_, d_o_copy_, kOutputGradients);
}

template <class Element>
void RecurrenceWorker<Element>::enter_block(int64_t document, int64_t start, int64_t tokens, int64_t head,
                                            unsigned rows, int64_t place) {
  place_rows(document, start, tokens, head);
  next_rows_.clear();
  copy_rows(rows, place);
  if (head != head_) enter_head(head);
  if (by_channel_) {
    load_channel_decays(document, start, head);
  } else {
    load_scalar_decays(document, start, head);
  }
}

// ---- forward

template <class Element>
void RecurrenceWorker<Element>::pack_values() {
  pack_tokens(v_, values_, v_tokens_);
}

template <class Element>
void RecurrenceWorker<Element>::write_block(float* out) {
  if (by_channel_) {
    loops_.scale_backward(k_.data, k_.ld, lambda_, m_, keys_, scaled_k_);
  } else {
    loops_.scale_rows(k_.data, k_.ld, suffix_, m_, keys_, scaled_k_, keys_);
  }
  products_->transpose(scaled_k_, keys_, m_, keys_, transposed_, block_);
  multiply_tokens(transposed_, block_, v_tokens_, keys_, values_, 0, m_, out);
}

template <class Element>
void RecurrenceWorker<Element>::scalar_scores() const {
  products_->pack(k_.data, k_.ld, true, keys_, m_, row_panels_);
  for (int64_t i = 0; i < m_; i += strip_) {
    const int64_t rows = std::min(strip_, m_ - i);
    multiply(q_.at(i), q_.ld, row_panels_, rows, i + rows, keys_, a_ + i * block_, block_);
  }
}

template <class Element>
void RecurrenceWorker<Element>::read_block(const PassingState& state) {
  Rows<const Element> query = q_;
  const float* factor = prefix_;
  if (by_channel_) {
    channel_scores();
    if (!state.zero()) loops_.scale_forward(q_.data, q_.ld, lambda_, m_, keys_, job_.scale, scaled_q_);
    query = {scaled_q_, keys_};
    factor = ones_;
  } else {
    scalar_scores();
  }
  if (!state.zero()) products_->pack(rounded(state), values_, false, keys_, values_, state_panels_);
  for (int64_t i = 0; i < m_; i += strip_) {
    const int64_t rows = std::min(strip_, m_ - i);
    loops_.mask_scores(a_ + i * block_, mask_ + i * block_, block_, i, rows, i + rows, scores_, block_);
    multiply_tokens(scores_, block_, v_tokens_, rows, values_, 0, i + rows, first_);
    if (!state.zero()) multiply(query.at(i), query.ld, state_panels_, rows, values_, keys_, second_, values_);
    loops_.join_rows(first_, !state.zero() ? second_ : nullptr, values_, factor + i, rows, values_,
                     job_.past_caches, o_.at(i), o_.ld);
  }
}

template <class Element>
void RecurrenceWorker<Element>::recurrent_steps(int64_t document, int64_t tokens, int64_t head,
                                                const float* initial, float* state) {
  place_rows(document, 0, tokens, head);
  if (by_channel_) load_channel_decays(document, 0, head);
  if (job_.kind == DecayKind::kHeadToken) scalar_lambdas(document, 0, head);
  const float of_head =
      job_.kind == DecayKind::kHead ? std::exp(job_.decay.data[head * job_.decay.head]) : 1.0f;
  for (int64_t i = 0; i < tokens; ++i) {
    if (!by_channel_) std::fill_n(total_, keys_, job_.kind == DecayKind::kHeadToken ? lambda_[i] : of_head);
    const float* const decay = by_channel_ ? lambda_ + i * keys_ : total_;
    loops_.step(i == 0 ? initial : state, decay, q_.at(i), k_.at(i), v_.at(i), job_.scale, keys_, values_,
                state, o_.at(i));
  }
}

template class RecurrenceWorker<uint16_t>;
template class RecurrenceWorker<float>;

}  // namespace longhaul::kernels
