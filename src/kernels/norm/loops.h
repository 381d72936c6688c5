// The row loops of the norms: raw pointers and sizes, one thread. Elements are stored as `storage` says;
// weights, statistics and sums are fp32 (fp64 for fp64 elements). A null pointer leaves its part out.
#pragma once

#include <cstdint>

#include "kernels/vector/storage.h"

namespace longhaul::kernels {

struct NormForward {
  Storage storage;
  int64_t channels;
  bool centred;  // LayerNorm: subtract the mean
  double eps, alpha, beta;
  const void *x_tc, *branch_tc;  // with a branch, z = α x + β branch goes to joined; without, z = x
  const void* gate_tc;           // y is multiplied by sigmoid(gate)
  const void *weight_c, *bias_c;
  void *joined_tc, *y_tc;
  void *mean_t, *scale_t;  // mean_t only when centred; scale = 1 / sqrt(variance + eps)
};
void norm_forward_rows(const NormForward& problem, int64_t begin, int64_t end);

struct NormBackward {
  Storage storage;
  int64_t channels;
  bool centred;
  double alpha, beta;
  const void *z_tc, *gate_tc;
  const void *weight_c, *mean_t, *scale_t;
  const void *dy_tc, *d_joined_tc;
  void *dx_tc, *d_branch_tc;  // α dz and β dz
  void* d_gate_tc;
};
// Rows [begin, end), whose sums of dw and db are written to these rows of sums.
void norm_backward_rows(const NormBackward& problem, int64_t begin, int64_t end, void* dw_c, void* db_c);

}  // namespace longhaul::kernels
