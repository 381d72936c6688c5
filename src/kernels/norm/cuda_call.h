// The norms' CUDA kernels on tensors: what op.cpp hands over, and what cuda_call.cpp registers. Tensors are
// contiguous and of x's device; those that a call does without are undefined.
#pragma once

#include "kernels/cuda/calls.h"
#include "kernels/norm/op.h"

namespace longhaul::kernels {

struct NormCall {
  NormKind kind = NormKind::kRms;
  double eps = 0, alpha = 1, beta = 1;
  Tensor x_tc, branch_tc, gate_tc, weight_c, bias_c;
  Tensor joined_tc, y_tc, mean_t, scale_t;  // written; joined beside a branch, mean for kLayer
};

struct NormGradientCall {
  NormKind kind = NormKind::kRms;
  double alpha = 1, beta = 1;
  Tensor z_tc, gate_tc, weight_c, mean_t, scale_t, dy_tc, d_joined_tc;
  Tensor dx_tc, d_branch_tc, d_gate_tc;  // written
  Tensor dw_c, db_c;                     // added to
};

struct NormCuda {
  Refusal (*refuse)(const Tensor& x_tc);
  void (*forward)(const NormCall& call);
  void (*backward)(const NormGradientCall& call);
};

}  // namespace longhaul::kernels
