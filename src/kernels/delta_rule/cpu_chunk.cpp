#include "kernels/delta_rule/cpu_chunk.h"

#include <algorithm>

#include "kernels/delta_rule/cpu.h"

namespace longhaul::kernels {
namespace {

constexpr int64_t kB = kDeltaTokens;
// tokens that are packed together, and rows whose part above the diagonal is left out
constexpr int64_t kStrip = 32;
constexpr int64_t kDiagonal = 16;  // tokens whose scores with a decay per channel are made pair by pair

int64_t packs_of(int64_t columns) { return kB / kStrip * packed_size<float>(kStrip, columns); }

}  // namespace

DeltaPlaces::DeltaPlaces(Arena& arena, const DeltaJob& job, bool backward) {
  const int64_t keys = job.keys, values = job.values, area = job.area(), wide = std::max(keys, values),
                segment = kDeltaSegmentChunks;
  const auto take = [&](int64_t count, auto&... places) { ((places = arena.take<float>(count)), ...); };
  take(kB * keys, q, k, q_from, k_from, k_to, transposed);
  take(kB * values, v, u, residual);
  take(kB, beta, prefix, suffix, ones);
  take(kB * (job.by_channel ? keys : 1), lambda);
  take(kB * kB, mask, a, p, raw);
  take(keys, total);
  take(std::max(packed_size<float>(wide, kB), packed_size<float>(kB, wide)), panels);
  take(packed_size<float>(keys, values), state_panels);
  take(packs_of(values), u_tokens);
  take(kB * wide, first, second);
  take(area, added);
  if (job.by_channel) take(kB * keys, left, right);
  if (!backward) return;
  take(segment * area, states);
  take(segment * kB * values, residuals);
  take(kB * values, d_o, z, y);
  take(kB * keys, third, d_q, d_k);
  take(kB * kB, d_p, d_a);
  take(std::max(kB, keys), through);
  take(kB * (job.by_channel ? keys : 1), moment, written);
  take(kB, minus, scales);
  take(packs_of(values), d_o_tokens, y_tokens);
  take(packs_of(keys), q_tokens, k_tokens);
  take(packed_size<float>(values, keys), state_panels_t);
  if (job.group > 1) take(segment * kB * keys, group_dq, group_dk);
}

DeltaChunk::DeltaChunk(const DeltaJob& job, bool backward)
    : job_(job),
      rows_(recurrence_loops<float>()),
      narrow_(recurrence_loops<uint16_t>()),
      states_(state_loops()),
      loops_(delta_loops()),
      at_(scratch_of_thread([&](Arena& arena) { return DeltaPlaces(arena, job, backward); })),
      keys_(job.keys),
      values_(job.values) {
  std::fill_n(at_.ones, kB, 1.0f);
  if (backward) {
    std::fill_n(at_.minus, kB, -1.0f);
    std::fill_n(at_.scales, kB, job.scale);
  }
  if (job.decay.data != nullptr) return;
  std::fill_n(at_.prefix, kB, 1.0f);
  std::fill_n(at_.suffix, kB, 1.0f);
  std::fill_n(at_.total, keys_, 1.0f);
  states_.decay_mask(at_.ones, kB, 1, at_.mask, kB);
}

DeltaChunk::~DeltaChunk() {
#ifdef __x86_64__
  __builtin_ia32_sfence();
#endif
}

int64_t DeltaChunk::residual_size() const { return kB * values_; }

// ---- rows

void DeltaChunk::load(const DeltaRows& rows, int64_t t, int64_t head, int64_t columns, float* out) const {
  const char* const from = rows.at(t, head);
  if (rows.bf16)
    states_.widen_rows(reinterpret_cast<const uint16_t*>(from), rows.token / 2, m_, columns, out);
  else
    rows_.copy_rows(reinterpret_cast<const float*>(from), rows.token / 4, m_, columns, out);
}

// In pieces: join_rows takes so many columns.
void DeltaChunk::store(const float* x, int64_t rows, int64_t columns, const DeltaRows& out, int64_t t,
                       int64_t head) const {
  constexpr int64_t kPiece = 256;
  char* const to = out.at(t, head);
  for (int64_t c = 0; c < columns; c += kPiece) {
    const int64_t width = std::min(kPiece, columns - c);
    if (out.bf16)
      narrow_.join_rows(x + c, nullptr, columns, nullptr, rows, width, job_.past_caches,
                        reinterpret_cast<uint16_t*>(to) + c, out.token / 2);
    else
      rows_.join_rows(x + c, nullptr, columns, nullptr, rows, width, job_.past_caches,
                      reinterpret_cast<float*>(to) + c, out.token / 4);
  }
}

void DeltaChunk::enter(int64_t document, int64_t start, int64_t tokens, int64_t head, bool reads,
                       bool gradients) {
  const bool other_length = tokens != m_;
  m_ = tokens;
  document_ = document;
  head_ = head;
  token_ = job_.offsets[static_cast<size_t>(document)] + start;
  if (job_.by_channel && other_length) list_pairs();
  const int64_t key_head = head / job_.group;
  load(job_.k, token_, key_head, keys_, at_.k);
  load(job_.v, token_, head, values_, at_.v);
  if (gradients) load(job_.d_o, token_, head, values_, at_.d_o);
  if (reads) {
    load(job_.q, token_, key_head, keys_, at_.q);
    for (int64_t i = 0; i < m_ * keys_; ++i) at_.q[i] *= job_.scale;
  }
  for (int64_t i = 0; i < m_; ++i)
    at_.beta[i] = job_.beta.data[(token_ + i) * job_.beta.token + head * job_.beta.head];
  load_decays(token_);
  if (job_.by_channel) {
    rows_.scale_forward(at_.k, keys_, at_.lambda, m_, keys_, 1, at_.k_from);
    rows_.scale_backward(at_.k, keys_, at_.lambda, m_, keys_, at_.k_to);
    if (reads) rows_.scale_forward(at_.q, keys_, at_.lambda, m_, keys_, 1, at_.q_from);
  } else {
    rows_.scale_rows(at_.k, keys_, at_.prefix, m_, keys_, at_.k_from, keys_);
    rows_.scale_rows(at_.k, keys_, at_.suffix, m_, keys_, at_.k_to, keys_);
    if (reads) rows_.scale_rows(at_.q, keys_, at_.prefix, m_, keys_, at_.q_from, keys_);
  }
  make_scores(reads);
}

// ---- decays

void DeltaChunk::load_decays(int64_t t) {
  if (job_.decay.data == nullptr) return;
  const float* const g = job_.decay.data + t * job_.decay.token + head_ * job_.decay.head;
  if (job_.by_channel) {
    states_.exponentials(g, job_.decay.token, m_, keys_, at_.lambda);
    return states_.products(at_.lambda, m_, keys_, at_.total);
  }
  for (int64_t i = 0; i < m_; ++i) at_.first[i] = g[i * job_.decay.token];
  states_.exponentials(at_.first, m_, 1, m_, at_.lambda);
  states_.decay_mask(at_.lambda, m_, 1, at_.mask, kB);
  float before = 1, after = 1;
  for (int64_t i = 0; i < m_; ++i) {
    before *= at_.lambda[i];
    at_.prefix[i] = before;
    at_.suffix[m_ - 1 - i] = after;
    after *= at_.lambda[m_ - 1 - i];
  }
  std::fill_n(at_.total, keys_, before);
}

// Of a decay per channel: halves, whose decays all pass the boundary between them, cut again down to the
// blocks on the diagonal.
void DeltaChunk::list_pairs() {
  pairs_.clear();
  for (int64_t half = kB / 2; half >= kDiagonal; half /= 2) {
    for (int64_t start = 0; start + half < m_; start += 2 * half)
      pairs_.push_back({start, half, start + half, std::min(half, m_ - start - half)});
  }
  for (int64_t start = 0; start < m_; start += kDiagonal) {
    const int64_t rows = std::min(kDiagonal, m_ - start);
    pairs_.push_back({start, rows, start, rows});
  }
}

// ---- products

void DeltaChunk::pack_tokens(const float* x, int64_t columns, float* panels) const {
  for (int64_t t = 0; t < m_; t += kStrip) {
    products_->pack(x + t * columns, columns, false, std::min(kStrip, m_ - t), columns,
                    panels + t / kStrip * packed_size<float>(kStrip, columns));
  }
}

void DeltaChunk::multiply_tokens(const float* a, const float* panels, int64_t rows, int64_t columns,
                                 int64_t first, int64_t end, float* c, bool accumulate) const {
  for (int64_t t = first; t < end; t += kStrip) {
    products_->multiply(a + t, kB, panels + t / kStrip * packed_size<float>(kStrip, columns), rows, columns,
                        std::min(std::min(kStrip, m_ - t), end - t), c, columns, accumulate || t > first);
  }
}

void DeltaChunk::multiply_lower(const float* square, const float* panels, int64_t columns, float* c,
                                bool accumulate) const {
  for (int64_t i = 0; i < m_; i += kStrip) {
    const int64_t rows = std::min(kStrip, m_ - i);
    multiply_tokens(square + i * kB, panels, rows, columns, 0, i + rows, c + i * columns, accumulate);
  }
}

void DeltaChunk::multiply_upper(const float* square, const float* panels, int64_t columns, float* c,
                                bool accumulate) const {
  for (int64_t i = 0; i < m_; i += kStrip)
    multiply_tokens(square + i * kB, panels, std::min(kStrip, m_ - i), columns, i, m_, c + i * columns,
                    accumulate);
}

void DeltaChunk::multiply_pairs(const float* x, const float* panels, int64_t depth, float* c) const {
  constexpr int64_t kRows = 16;
  for (int64_t i = 0; i < m_; i += kRows) {
    const int64_t rows = std::min(kRows, m_ - i);
    products_->multiply(x + i * depth, depth, panels, rows, i + rows, depth, c + i * kB, kB);
  }
}

void DeltaChunk::make_scores(bool reads) const {
  if (job_.by_channel) return scores_by_channel(reads);
  products_->pack(at_.k, keys_, true, keys_, m_, at_.panels);
  multiply_pairs(at_.k, at_.panels, keys_, at_.raw);
  loops_.mask_lower(at_.raw, at_.mask, kB, m_, 0, at_.a);
  if (!reads) return;
  multiply_pairs(at_.q, at_.panels, keys_, at_.raw);
  loops_.mask_lower(at_.raw, at_.mask, kB, m_, 1, at_.p);
}

void DeltaChunk::scores_by_channel(bool reads) const {
  for (const Pair& pair : pairs_) {
    const int64_t place = pair.right * kB + pair.left, left = pair.left * keys_, right = pair.right * keys_;
    if (pair.diagonal()) {
      rows_.diagonal_scores(at_.k + right, keys_, at_.k + left, keys_, at_.lambda + left, pair.left_rows,
                            keys_, at_.a + place, kB);
      if (reads)
        rows_.diagonal_scores(at_.q + right, keys_, at_.k + left, keys_, at_.lambda + left, pair.left_rows,
                              keys_, at_.p + place, kB);
      continue;
    }
    rows_.scale_backward(at_.k + left, keys_, at_.lambda + left, pair.left_rows, keys_, at_.left);
    products_->pack(at_.left, keys_, true, keys_, pair.left_rows, at_.panels);
    const auto scores_of = [&](const float* x, float* scores) {
      rows_.scale_forward(x + right, keys_, at_.lambda + right, pair.right_rows, keys_, 1, at_.right);
      products_->multiply(at_.right, keys_, at_.panels, pair.right_rows, pair.left_rows, keys_,
                          scores + place, kB);
    };
    scores_of(at_.k, at_.a);
    if (reads) scores_of(at_.q, at_.p);
  }
  loops_.mask_lower(at_.a, nullptr, kB, m_, 0, at_.a);
  if (reads) loops_.mask_lower(at_.p, nullptr, kB, m_, 1, at_.p);
}

// ---- forward

void DeltaChunk::write(const float* state, float* residual) {
  products_->pack(state, values_, false, keys_, values_, at_.state_panels);
  products_->multiply(at_.k_from, keys_, at_.state_panels, m_, values_, keys_, at_.first, values_);
  loops_.subtract(at_.v, at_.first, m_ * values_, residual);
  loops_.solve_lower(at_.a, kB, at_.beta, m_, values_, residual, at_.u);
  pack_tokens(at_.u, values_, at_.u_tokens);
}

void DeltaChunk::read() {
  products_->multiply(at_.q_from, keys_, at_.state_panels, m_, values_, keys_, at_.first, values_);
  multiply_lower(at_.p, at_.u_tokens, values_, at_.first, true);
  store(at_.first, m_, values_, job_.o, token_, head_);
}

void DeltaChunk::advance(const float* state, float* next) {
  products_->transpose(at_.k_to, keys_, m_, keys_, at_.transposed, kB);
  multiply_tokens(at_.transposed, at_.u_tokens, keys_, values_, 0, m_, at_.added, false);
  states_.advance(next, at_.total, state, at_.added, keys_, values_);
}

}  // namespace longhaul::kernels
