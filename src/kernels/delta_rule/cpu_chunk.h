// One thread's part of the CPU delta rule: the products and loops of one chunk of one head, as in
// chunked.h, except that the system is (1 + a diag(β)) r = V − K' S. Its solution r is multiplied with β: U
// = β r, so that the gradient of β is right even for β = 0. Queries are scaled when they are read. Not
// shared between threads; all scratch memory is the thread's (kernels/scratch.h).
#pragma once

#include <span>
#include <vector>

#include "kernels/delta_rule/loops.h"
#include "kernels/gemm/block.h"
#include "kernels/linear_recurrence/cpu/cpu_worker.h"
#include "kernels/scratch.h"

namespace longhaul::kernels {

// Rows of [tokens, heads, channels] with contiguous channels, bf16 or fp32; strides in bytes.
struct DeltaRows {
  char* data = nullptr;
  int64_t token = 0, head = 0;
  bool bf16 = false;
  char* at(int64_t t, int64_t h) const { return data + t * token + h * head; }
};

// The data that all threads share.
struct DeltaJob {
  DeltaRows q, k, v, d_o, o, dq, dk, dv;
  HeadView<const float> beta, decay;  // decay: null where there is none
  HeadView<float> d_beta, d_decay;
  bool by_channel = false;
  bool past_caches = false;  // results are more than the caches hold
  int64_t heads = 0, group = 1, keys = 0, values = 0;
  float scale = 1;
  std::span<const int64_t> offsets;

  int64_t area() const { return keys * values; }
  int64_t length(int64_t document) const {
    return offsets[static_cast<size_t>(document) + 1] - offsets[static_cast<size_t>(document)];
  }
};

// The scratch of a chunk.
struct DeltaPlaces {
  DeltaPlaces(Arena& arena, const DeltaJob& job, bool backward);

  float *q = nullptr, *k = nullptr, *v = nullptr, *beta = nullptr;  // rows of the chunk, q scaled
  // λ; Λ(j → i), Λ(0 → i), Λ(j → m) of a decay per head; Λ of the chunk, [keys].
  float *lambda = nullptr, *mask = nullptr, *prefix = nullptr, *suffix = nullptr, *total = nullptr;
  float *q_from = nullptr, *k_from = nullptr, *k_to = nullptr;  // Q', K', K°
  // [chunk × chunk]
  float *a = nullptr, *p = nullptr, *raw = nullptr;
  float *panels = nullptr, *state_panels = nullptr, *u_tokens = nullptr, *transposed = nullptr;  // operands
  // halves of a decay per channel
  float *left = nullptr, *right = nullptr;
  // added [keys × values]
  float *residual = nullptr, *u = nullptr, *first = nullptr, *second = nullptr, *added = nullptr,
        *ones = nullptr;
  // Backward.
  float *states = nullptr, *residuals = nullptr;  // of a segment's chunks
  float *d_o = nullptr, *z = nullptr, *y = nullptr, *third = nullptr, *d_p = nullptr, *d_a = nullptr,
        *d_q = nullptr, *d_k = nullptr;
  float *moment = nullptr, *written = nullptr, *through = nullptr, *minus = nullptr, *scales = nullptr;
  float *d_o_tokens = nullptr, *y_tokens = nullptr, *q_tokens = nullptr, *k_tokens = nullptr,
        *state_panels_t = nullptr;
  float *group_dq = nullptr, *group_dk = nullptr;  // sums over heads that share one, of a segment
};

class DeltaChunk {
 public:
  DeltaChunk(const DeltaJob& job, bool backward);
  ~DeltaChunk();  // after it other threads see the results, which may go past the caches

  // Reads the rows of a chunk: keys, values and what decides over them; with `reads` queries too, with
  // `gradients` those of the outputs.
  void enter(int64_t document, int64_t start, int64_t tokens, int64_t head, bool reads,
             bool gradients = false);
  void write(const float* state, float* residual);  // → r and U
  void read();                                      // after write → the rows of o
  void advance(const float* state, float* next);    // after write; next may be state
  // After enter with all rows: `gradient` of the state that leaves becomes that of `state`, which entered. dq
  // and dk go to the sums of a group if there is one, at this chunk of the segment.
  void backward(const float* state, const float* residual, float* gradient, int64_t chunk_of_segment);
  void begin_group() const;  // around the heads that share one, of a segment
  void end_group(int64_t document, int64_t start, int64_t tokens, int64_t key_head) const;

  float* residual() const { return at_.residual; }
  float* state_of(int64_t chunk) const { return at_.states + chunk * job_.area(); }
  float* residual_of(int64_t chunk) const { return at_.residuals + chunk * residual_size(); }

 private:
  struct Pair {  // rows of one block of scores: all of `right` come after all of `left`, or both are the same
    int64_t left, left_rows, right, right_rows;
    bool diagonal() const { return left == right; }
  };
  int64_t residual_size() const;
  void load(const DeltaRows& rows, int64_t t, int64_t head, int64_t columns, float* out) const;
  void store(const float* x, int64_t rows, int64_t columns, const DeltaRows& out, int64_t t,
             int64_t head) const;
  void load_decays(int64_t t);
  void list_pairs();
  void make_scores(bool reads) const;
  void scores_by_channel(bool reads) const;
  void pack_tokens(const float* x, int64_t columns, float* panels) const;
  // C [rows × columns] (+)= Σ over tokens first … end − 1 of a's columns times the tokens' rows; first is a
  // multiple of a pack.
  void multiply_tokens(const float* a, const float* panels, int64_t rows, int64_t columns, int64_t first,
                       int64_t end, float* c, bool accumulate) const;
  void multiply_lower(const float* square, const float* panels, int64_t columns, float* c,
                      bool accumulate) const;
  void multiply_upper(const float* square, const float* panels, int64_t columns, float* c,
                      bool accumulate) const;
  // C = x yᵀ [tokens × tokens], of which what lies above the diagonal is left out in strips; panels: of yᵀ.
  void multiply_pairs(const float* x, const float* panels, int64_t depth, float* c) const;

  void gradient_of_writes(const float* gradient) const;
  void products_with_states(const float* state, const float* gradient) const;
  void gradients_by_head(const float* state, const float* gradient) const;
  void decay_gradient_by_head(const float* state, const float* gradient) const;
  void gradients_by_channel(const float* state, const float* gradient) const;
  void pairs_backward(const float* d_scores, const float* x, float* d_x) const;
  void pass_gradient(float* gradient) const;

  const DeltaJob& job_;
  BlockScope products_;
  FlushDenormals flush_;
  const RecurrenceLoops<float>& rows_;
  const RecurrenceLoops<uint16_t>& narrow_;
  const StateLoops& states_;
  const DeltaLoops& loops_;
  DeltaPlaces at_;
  const int64_t keys_, values_;
  int64_t m_ = 0, document_ = 0, head_ = 0, token_ = 0;
  std::vector<Pair> pairs_;
};

}  // namespace longhaul::kernels
