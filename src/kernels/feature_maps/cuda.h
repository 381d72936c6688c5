// features and gated on a GPU (equations: op.h), forward and backward: bf16 in and out, tables of angles and
// everything inside fp32. x, n and u may be columns of wider rows; the other tensors are contiguous.
#pragma once

#include "kernels/cuda/numbers.h"
#include "kernels/feature_maps/kinds.h"

namespace longhaul::kernels::cuda {

struct Features {
  int64_t tokens = 0;
  int heads = 0, head_dim = 0;
  FeatureMap map = FeatureMap::kNone;
  Turn turn = Turn::kNone;
  const Bf16* x = nullptr;  // [tokens, heads, head_dim], tokens x_stride elements apart
  int64_t x_stride = 0;
  const float *cos = nullptr, *sin = nullptr;  // [tokens, angles]; null without a turn
  int angles = 0;                              // of all heads together, or of one, which all share
};
struct FeaturesGradient {
  const Bf16* d_y = nullptr;                 // [tokens, heads, head_dim, twice with a cosine turn]
  Bf16* d_x = nullptr;                       // [tokens, heads, head_dim]
  float *d_cos = nullptr, *d_sin = nullptr;  // [tokens, angles], or null
};

void features_forward(const Features& problem, Bf16* y, Stream stream);
void features_backward(const Features& problem, const FeaturesGradient& gradient, Stream stream);

struct Gated {
  int64_t rows = 0, channels = 0;
  FeatureMap map = FeatureMap::kNone;
  const Bf16 *n = nullptr, *u = nullptr;  // rows n_stride and u_stride elements apart
  int64_t n_stride = 0, u_stride = 0;
};

void gated_forward(const Gated& problem, Bf16* y, Stream stream);
void gated_backward(const Gated& problem, const Bf16* d_y, Bf16* d_n, Bf16* d_u, Stream stream);

}  // namespace longhaul::kernels::cuda
