// The row loops of the activations: raw pointers and sizes, one thread, rows [begin, end). Elements are
// stored as `storage` says.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/vector/storage.h"

namespace longhaul::kernels {

// A matrix whose rows are contiguous.
template <class Pointer>
struct Rows {
  Pointer data = nullptr;
  int64_t columns = 0, stride = 0;  // elements
};

struct SiluBackward {  // dx = dy · silu'(x); the columns of dy come from up to three matrices side by side
  Storage storage;
  int64_t columns;
  const void* x_tc;
  std::array<Rows<const void*>, 3> dy;
  void* dx_tc;
};
struct Swiglu {  // `width` columns of each matrix
  Storage storage;
  int64_t width;
  const void *gate, *up;
  int64_t ld_x;  // from row to row of gate, up and their gradients
  const void* dy;
  void* y;
  int64_t ld_y;  // of y and dy
  void *d_gate, *d_up;
};
struct BiasGelu {  // bias is null where there is none
  Storage storage;
  int64_t columns;
  const void *x, *bias_c;
  int64_t ld_x;  // from row to row of x and dx
  const void* dy;
  void* y;
  int64_t ld_y;  // of y and dy
  void* dx;
};

void silu_forward(Storage storage, const void* x, void* y, int64_t begin, int64_t end);  // elements
void silu_backward_rows(const SiluBackward& problem, int64_t begin, int64_t end);
void swiglu_forward_rows(const Swiglu& problem, int64_t begin, int64_t end);
void swiglu_backward_rows(const Swiglu& problem, int64_t begin, int64_t end);
void bias_gelu_forward_rows(const BiasGelu& problem, int64_t begin, int64_t end);
// The rows' sum of dx is written to d_bias (fp32, fp64 for fp64), unless it is null.
void bias_gelu_backward_rows(const BiasGelu& problem, int64_t begin, int64_t end, void* d_bias_c);

}  // namespace longhaul::kernels
