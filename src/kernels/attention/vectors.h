// The parts of attention that are not matrix products, as vector code: online softmax of a tile of scores,
// its gradient, and the conversion from fp32. There is one set of functions for each instruction set;
// attention_vectors() returns the set that matches block_kernels().
//
// A tile holds scores with keys as rows and queries as columns (lanes): a column's maximum and sum stay in
// registers, nothing is added across lanes, and rows 2i and 2i + 1 interleave into the panels that block.h
// multiplies. Key row r is visible to the query of column c if first + r ≤ c < last + r. Results of a
// column do not depend on how many columns a tile has. Sources: FlashAttention-2, arXiv 2307.08691,
// algorithms 1 and 2; docs/sources/megascale.md §12.
#pragma once

#include <cstdint>

namespace longhaul::kernels {

constexpr int64_t kNoLimit = int64_t{1} << 60;

struct Tile {
  int64_t rows, columns;  // columns: a multiple of 16; what lies beyond the queries is computed and ignored
  int64_t stride;         // of the scores, in elements
  int64_t first, last;    // visibility, see above; last = kNoLimit: no window
};

struct SoftmaxTile : Tile {
  float* scores;         // [rows, columns] of q·k; the invisible ones are overwritten
  float factor;          // scale · log2 e > 0: probabilities are 2^(factor · score − largest)
  float *largest, *sum;  // [columns] so far; −∞ and 0 before the first tile
  float* outputs;        // [values, columns] so far, rescaled here when the largest score grows much
  int64_t values, outputs_stride;
};

struct GradientTile : Tile {
  const float *scores, *d_probabilities;  // [rows, columns] of q·k and of do·v
  float factor;
  // [columns]: log-sum-exp in units of log 2 (+∞: probabilities are 0); Σ do·o − d logsumexp
  const float *logsumexp2, *common;
  int64_t out_stride;  // of the two row-major results
};

// One query of one head against `rows` keys and values, all visible: continues largest, sum and outputs as
// softmax does.
template <class Element>
struct DecodeRow {
  const float* q;  // [channels]
  const Element *k, *v;
  int64_t k_stride, v_stride, rows, channels, values;
  float factor;
  float* scores;         // [rows], scratch
  float *largest, *sum;  // one each
  float* outputs;        // [values]
};

struct AttentionVectors {
  const char* name;

  // Probabilities as panels with the keys as k, rounded to nearest with ties away from zero for bf16; zero
  // where invisible and beyond rows.
  void (*softmax_bf16)(const SoftmaxTile& tile, uint16_t* panels);
  void (*softmax_fp32)(const SoftmaxTile& tile, float* panels);

  // probabilities and d_scores = p (dp − common), both [rows, columns] row-major; d_scores as panels with the
  // keys as k as well.
  void (*gradient_bf16)(const GradientTile& tile, uint16_t* probabilities, uint16_t* d_scores,
                        uint16_t* panels);
  void (*gradient_fp32)(const GradientTile& tile, float* probabilities, float* d_scores, float* panels);

  // out[c][r] = in[r][c] · factors[c] for in [rows, columns]: outputs of columns to row-major, to nearest
  // even for bf16.
  void (*leave_bf16)(const float* in, int64_t stride, int64_t rows, int64_t columns, const float* factors,
                     uint16_t* out, int64_t out_stride);
  void (*leave_fp32)(const float* in, int64_t stride, int64_t rows, int64_t columns, const float* factors,
                     float* out, int64_t out_stride);

  // out[r] = Σ_c a[r][c] b[r][c]
  void (*row_dots_bf16)(const uint16_t* a, int64_t a_stride, const uint16_t* b, int64_t b_stride,
                        int64_t rows, int64_t columns, float* out);
  void (*row_dots_fp32)(const float* a, int64_t a_stride, const float* b, int64_t b_stride, int64_t rows,
                        int64_t columns, float* out);

  // out[r][c] = in[r][c] · factor for contiguous rows; to nearest even for bf16.
  void (*scale_rows_bf16)(const float* in, int64_t rows, int64_t columns, float factor, uint16_t* out,
                          int64_t out_stride);
  void (*scale_rows_fp32)(const float* in, int64_t rows, int64_t columns, float factor, float* out,
                          int64_t out_stride);

  void (*widen_bf16)(const uint16_t* from, int64_t count, float* to);
  void (*decode_bf16)(const DecodeRow<uint16_t>& row);
  void (*decode_fp32)(const DecodeRow<float>& row);

  // 2^x, relative error ≤ 2.5e-7 for −126 ≤ x ≤ 127; 0 below, NaN for NaN. For tests: the functions above
  // have it inside.
  void (*exp2)(const float* x, int64_t count, float* out);
};

const AttentionVectors& attention_vectors();

}  // namespace longhaul::kernels
