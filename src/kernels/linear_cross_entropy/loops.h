// The row loops of the fused linear_cross_entropy: raw pointers and sizes, one thread. Logits and sums are
// fp32; probabilities and gradients are stored as `storage` says (bf16 or fp32).
#pragma once

#include <cstdint>

#include "kernels/vector/storage.h"

namespace longhaul::kernels {

// A block of logits z [rows × columns] joins what is known of its rows: base becomes the largest logit so
// far, sum the sum of e^{z − base} so far, and `rescale` what sums relative to the former base must be
// multiplied by (0 at first, when base is −∞). The terms e^{z − base} are stored to p; null: only summed.
struct LogitBlock {
  Storage storage;
  int64_t rows, columns;
  const float* z;
  int64_t ld_z;
  void* p;
  int64_t ld_p;
  float* base;
  double* sum;
  float* rescale;
};
void absorb_logits(const LogitBlock& block);
// The same, nothing is stored, and `weighted` becomes the sum of e^{z − base} (z − base), from which the
// entropy follows.
void absorb_logits_for_entropy(const LogitBlock& block, double* weighted);
// p = e^{z − base} (level + slope · (z − base)), of rows whose base is the log-sum-exp: the gradient of
// logits where the entropy has one.
void entropy_gradients(const LogitBlock& block, const float* level, const float* slope);

void scale_row(float* row, int64_t count, float factor);
// to = factor · from; may be the same place.
void scale_stored_row(Storage storage, const void* from, int64_t count, float factor, void* to);
// to = a·x + b·w
void combine_rows(Storage storage, const float* x, float a, const void* w, float b, int64_t count, void* to);

}  // namespace longhaul::kernels
