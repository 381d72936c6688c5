// One thread's part of the CPU recurrence: the products and loops of one block of tokens of one head
// (docs/sources/linear-attention.md §2). With local rows i, S the state that enters the block, D the gradient
// of the state that leaves it, and Λ(j → i) the decay from after token j to token i:
//
//   write_block     X = Σ_j (k_j ⊙ Λ(j → m))ᵀ v_j                            S' = Λ ∘ S + X
//   read_block      o_i = scale [ (q_i ⊙ Λ(0 → i)) S + Σ_{j ≤ i} A_ij v_j ],  A_ij = Σ_c q_ic k_jc Λ_c(j → i)
//   gradient_write  Y = scale Σ_i (q_i ⊙ Λ(0 → i))ᵀ do_i                      D' = Λ ∘ D + Y
//   gradient_block  dq, dk, dv and the decay's gradient, from S and D
//
// Element: bf16 bits or fp32, the dtype of q, k, v. Everything is walked in the document's order, or
// backwards with negative strides. Not shared between threads; all scratch is allocated by the constructor.
#pragma once

#include <span>
#include <vector>

#include "kernels/gemm/block.h"
#include "kernels/linear_recurrence/cpu/cpu_loops.h"
#include "kernels/linear_recurrence/cpu/far_rows.h"
#include "kernels/linear_recurrence/cpu/plan.h"
#include "kernels/linear_recurrence/problem.h"

namespace longhaul::kernels {

template <class T>
struct Rows {
  T* data = nullptr;
  int64_t ld = 0;
  T* at(int64_t i) const { return data + i * ld; }
};

// [tokens, heads, channels] with contiguous channels.
template <class T>
struct HeadView {
  T* data = nullptr;
  int64_t token = 0, head = 0;  // strides
};

// Tokens that are packed together where a product runs over tokens: without padding for bf16, whose panels
// are rounded up to 32.
template <class Element>
constexpr int64_t kPack = sizeof(Element) == 2 ? 32 : 16;

// A gate's part of a job. Logits of fp32 stand in RecurrenceJob::decay, and their gradient in d_decay.
struct RecurrenceJobGate {
  RecurrenceGate::Kind kind = RecurrenceGate::Kind::kNone;
  float inverse_divisor = 1;
  const float* lower_bound = nullptr;  // γ [heads, keys]
  bool small_decays = false;           // some γ is below kSmallDecay
  HeadView<const uint16_t> logits;     // of bf16
  HeadView<uint16_t> d_logits;
};

// The data that all threads share.
template <class Element>
struct RecurrenceJob {
  HeadView<const Element> q, k, v, d_o;  // k unused when tied
  HeadView<Element> o, dq, dk, dv;       // dk null when tied
  HeadView<const float> decay;           // token stride 0 for a decay per head
  HeadView<float> d_decay;               // null where not asked for; per head: [segments, heads] sums
  DecayKind kind = DecayKind::kNone;
  bool tied = false, reverse = false;
  int64_t heads = 0, group = 1, keys = 0, values = 0;
  float scale = 1;
  int64_t channel_block = 16;  // decay per channel: tokens of a diagonal block
  // e^bound of the gate's known bound; 0: none, diagonal blocks take the exact path
  float smallest_decay = 0;
  bool promised = false;     // the bound is the caller's word, which is checked
  bool past_caches = false;  // results are more than the caches hold
  RecurrenceJobGate gate;
  std::span<const int64_t> offsets;
  // where the states of documents lie among those of other sequences; empty: by themselves, in order
  std::span<const int64_t> state_rows;
  RecurrencePlan plan;

  int64_t area() const { return keys * values; }
  bool gated() const { return gate.kind != RecurrenceGate::Kind::kNone; }
  bool wants_decay() const { return d_decay.data != nullptr || gate.d_logits.data != nullptr; }
  template <class T>
  Rows<T> rows(const HeadView<T>& view, int64_t document, int64_t start, int64_t head) const {
    const int64_t token = reverse ? offsets[static_cast<size_t>(document) + 1] - 1 - start
                                  : offsets[static_cast<size_t>(document)] + start;
    return {view.data + token * view.token + head * view.head, reverse ? -view.token : view.token};
  }
};

// Which rows of a block a step reads. kKeptKeysAndValues: those that an earlier step copied to the same
// place.
enum BlockRows : unsigned { kQueries = 1, kKeysAndValues = 2, kOutputGradients = 4, kKeptKeysAndValues = 8 };

// Flushes denormals to zero while it lives: decayed states reach them, and they are slow on some processors.
class FlushDenormals {
 public:
  FlushDenormals();
  ~FlushDenormals();
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  uint64_t before_;
};

template <class Element>
class RecurrenceWorker {
 public:
  RecurrenceWorker(const RecurrenceJob<Element>& job, bool backward);
  ~RecurrenceWorker();  // after it other threads see the results, which may go past the caches

  // Backward has places for the keys and values of a segment's blocks, so that its two walks over them read
  // memory once.
  void enter_block(int64_t document, int64_t start, int64_t tokens, int64_t head, unsigned rows,
                   int64_t place = 0);
  void announce_block(int64_t document, int64_t start, int64_t tokens, int64_t head,
                      unsigned rows);            // what is entered next: fetched meanwhile
  const float* total() const { return total_; }  // decay of the whole block, one per state row

  void pack_values();  // before write_block and read_block
  void write_block(float* x);
  void read_block(const PassingState& state);
  // Forward of a short document, token by token, without entering a block.
  void recurrent_steps(int64_t document, int64_t tokens, int64_t head, const float* initial, float* state);

  void pack_output_gradients();  // before gradient_write and gradient_block
  void gradient_write(float* y);
  // Rows of dk and dv go to `group_dk`, `group_dv` (sums in fp32) when they are given. Returns Σ_i dg_i for a
  // decay per head.
  double gradient_block(const float* state, const PassingState& d_state, float* group_dk, float* group_dv);

  // For the walks over blocks: place for what a block adds, for sums and decays of segments, and for states.
  float *x = nullptr, *passage_sum = nullptr, *passage_decay = nullptr;
  float *states = nullptr, *group_dk = nullptr, *group_dv = nullptr;
  // [keys] of the head in work: gradient_block adds the gradient of γ; null: not wanted
  double* lower_bound_sums = nullptr;

 private:
  struct Pair {  // rows of one block of scores and their place in the factors of a level
    int64_t left, left_rows, right, right_rows, level;
    bool diagonal;
  };

  void reserve_scratch(bool backward);
  void reserve(void** pointer, int64_t bytes);
  template <class T>
  void reserve(T*& pointer, int64_t count) {
    reserve(reinterpret_cast<void**>(&pointer), count * static_cast<int64_t>(sizeof(T)));
  }

  const Element* rounded(const PassingState& state) const;  // in the products' dtype, [keys × values]
  // B that runs over tokens: packs of kPack tokens each, so that a product may take some of them.
  void pack_tokens(const Rows<const Element>& x_rows, int64_t columns, Element* panels) const;
  void multiply_tokens(const Element* a, int64_t lda, const Element* panels, int64_t m, int64_t n,
                       int64_t first, int64_t end, float* c) const;

  void multiply(const Element* a, int64_t lda, const Element* panels, int64_t m, int64_t n, int64_t k,
                float* c, int64_t ldc, bool accumulate = false) const;
  void place_rows(int64_t document, int64_t start, int64_t tokens, int64_t head);
  void copy_rows(unsigned rows, int64_t place);
  void enter_head(int64_t head);
  void load_scalar_decays(int64_t document, int64_t start, int64_t head);
  void scalar_lambdas(int64_t document, int64_t start, int64_t head);
  void load_channel_decays(int64_t document, int64_t start, int64_t head);
  // cpu_gate.cpp
  HeadGate head_gate(int64_t head) const;
  void load_logits(int64_t document, int64_t start, int64_t head, int64_t columns);
  void logit_gradients(int64_t rows, int64_t columns, const float* gradients);
  void channel_gate_gradients(const float* state, const PassingState& d_state);
  void small_decay_slopes(const float* state, const PassingState& d_state);
  void list_pairs();
  Element* left_factors(const Pair& pair) const {
    return level_k_ + (pair.level * block_ + pair.left) * keys_;
  }
  Element* right_factors(const Pair& pair) const {
    return level_q_ + (pair.level * block_ + pair.right) * keys_;
  }

  void scale_pair(const Pair& pair) const;
  void add_pair(const Pair& pair, bool queries) const;
  void scalar_scores() const;
  void channel_scores() const;
  void channel_scores_transposed() const;
  void scalar_pair_products() const;
  void mask_pairs(bool sums) const;
  void d_values(float* group) const;
  double scalar_gradients(const float* state, const PassingState& d_state, float* group);
  double scalar_decay_gradient(const float* state, const PassingState& d_state);
  void channel_gradients(const float* state, const PassingState& d_state, float* group);
  // Λ ∘ rowsum(S ⊙ D); false: nothing passed
  bool passed_through(const float* state, const PassingState& d_state, float* sums) const;
  void store(const float* first, const float* second, const float* factor, int64_t columns, int64_t row,
             int64_t rows, const Rows<Element>& out, float* group) const;

  const RecurrenceJob<Element>& job_;
  BlockScope products_;
  FlushDenormals flush_;
  const RecurrenceLoops<Element>& loops_;
  const StateLoops& state_loops_;
  const int64_t block_;
  // rows that go through one product of tokens with tokens: what lies beyond the diagonal of their part is
  // left out
  const int64_t strip_;
  const int64_t keys_, values_;
  std::vector<std::pair<void**, int64_t>> reservations_;
  Tensor memory_;

  // The block.
  int64_t m_ = 0, head_ = -1;
  bool by_channel_ = false;
  Rows<const Element> q_, k_, v_, d_o_;
  Rows<Element> o_, dq_, dk_, dv_;
  Rows<float> d_decay_;
  Rows<uint16_t> d_logits_;
  Rows<const float> x_;  // a gate's logits
  std::vector<Pair> pairs_;
  mutable FarRows next_rows_;

  // Its decays: of the rows before and including i, of the rows after j, e^{g} per channel, scale Λ(j → i)
  // and its transpose.
  float *prefix_ = nullptr, *suffix_ = nullptr, *total_ = nullptr, *lambda_ = nullptr, *mask_ = nullptr,
        *mask_t_ = nullptr, *powers_ = nullptr;
  // The rows of the block: those of one head lie far apart in memory, often on the same few lines of every
  // cache.
  Element *q_copy_ = nullptr, *k_copy_ = nullptr, *v_copy_ = nullptr, *d_o_copy_ = nullptr;
  // Operands: panels over channels, panels over tokens, rows scaled by decays, scores in the products' dtype.
  Element *row_panels_ = nullptr, *state_panels_ = nullptr, *state_panels_t_ = nullptr, *v_tokens_ = nullptr,
          *do_tokens_ = nullptr, *q_tokens_ = nullptr, *k_tokens_ = nullptr;
  Element *scaled_q_ = nullptr, *scaled_k_ = nullptr, *transposed_ = nullptr, *level_q_ = nullptr,
          *level_k_ = nullptr, *tied_ = nullptr;
  Element *scores_ = nullptr, *pairs_q_ = nullptr, *pairs_k_ = nullptr, *state_ = nullptr;
  // Results of products and sums over them.
  float *a_ = nullptr, *p_ = nullptr, *first_ = nullptr, *second_ = nullptr, *dots_ = nullptr,
        *key_sum_ = nullptr, *query_sum_ = nullptr;
  float *dq_sum_ = nullptr, *dk_sum_ = nullptr, *moment_ = nullptr, *written_ = nullptr, *ones_ = nullptr;
  float *logits_ = nullptr, *bound_sum_ = nullptr;  // of a gate
};

extern template class RecurrenceWorker<uint16_t>;
extern template class RecurrenceWorker<float>;

}  // namespace longhaul::kernels
