// The row loops of features and gated: raw pointers and sizes, one thread, tokens [begin, end).
#pragma once

#include <cstdint>

#include "kernels/feature_maps/kinds.h"
#include "kernels/vector/storage.h"

namespace longhaul::kernels {

struct FeatureLoops {
  Storage storage = Storage::kFp32;
  int64_t heads = 0, head_dim = 0;  // of x
  FeatureMap map = FeatureMap::kNone;
  Turn turn = Turn::kNone;
  const void* x = nullptr;
  int64_t ld_x = 0;                                 // from row to row
  const void *cos_tr = nullptr, *sin_tr = nullptr;  // fp32 (fp64), `angles` a row
  // of a head as many; alike for all heads where that is all
  int64_t angles = 0, of_head = 0;
  void* y = nullptr;  // contiguous, as its gradient and that of x
  const void* dy = nullptr;
  void* dx = nullptr;
  void *d_cos_tr = nullptr, *d_sin_tr = nullptr;  // null: not wanted
};
void feature_rows(const FeatureLoops& problem, int64_t begin, int64_t end);
void feature_gradient_rows(const FeatureLoops& problem, int64_t begin, int64_t end);

struct GatedLoops {
  Storage storage = Storage::kFp32;
  int64_t channels = 0;
  FeatureMap map = FeatureMap::kNone;
  const void *n = nullptr, *u = nullptr;
  int64_t ld_n = 0, ld_u = 0;
  void* y = nullptr;
  const void* dy = nullptr;
  void *dn = nullptr, *du = nullptr;
};
void gated_rows(const GatedLoops& problem, int64_t begin, int64_t end);
void gated_gradient_rows(const GatedLoops& problem, int64_t begin, int64_t end);

}  // namespace longhaul::kernels
