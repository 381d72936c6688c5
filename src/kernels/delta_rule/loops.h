// The loops around the matrix products of the CPU delta rule that the linear recurrence does not have
// (linear_recurrence/cpu_loops.h): triangles and triangular systems of one chunk. fp32, one thread, raw
// pointers; squares are [rows × rows] with stride ld. Compiled for several instruction sets; delta_loops()
// returns the one that matches the products' set.
#pragma once

#include <cstdint>

namespace longhaul::kernels {

struct DeltaLoops {
  // out_ij = scores_ij mask_ij for j < i + diagonal (0: strictly below, 1: with the diagonal), else 0, for
  // all j < rows. mask null: ones. out may be scores. What lies above is not used, whatever it is.
  void (*mask_lower)(const float* scores, const float* mask, int64_t ld, int64_t rows, int64_t diagonal,
                     float* out);
  // d is the gradient of masked scores s: moment_i += Σ_{j < i} d_ij s_ij, moment_j −= Σ_{i > j} d_ij s_ij;
  // then d = mask_lower(d).
  void (*mask_gradient)(float* d, const float* s, const float* mask, int64_t ld, int64_t rows,
                        int64_t diagonal, float* moment);
  // Solves (1 + a diag(β)) x = b, a strictly lower, for each of the columns: x replaces b, and out = β x.
  // Rows are `columns` apart.
  void (*solve_lower)(const float* a, int64_t ld, const float* beta, int64_t rows, int64_t columns, float* x,
                      float* out);
  // (1 + aᵀ diag(β)) x = b, likewise.
  void (*solve_upper)(const float* a, int64_t ld, const float* beta, int64_t rows, int64_t columns, float* x,
                      float* out);
  // x − y; out may be one of them
  void (*subtract)(const float* x, const float* y, int64_t count, float* out);
  void (*add_square)(const float* x, int64_t ld, int64_t rows, float* out);  // out += x, [rows × rows]
};

const DeltaLoops& delta_loops();

}  // namespace longhaul::kernels
