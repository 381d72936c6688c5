// The loops over elements behind AdamW and the gradient norm: raw pointers, one thread, no tensors. Each is
// compiled for several instruction sets (vector/targets.h), and all give the same bits, because they use
// only exact IEEE operations, no contracted multiply-adds, and a fixed order of sums. Pointers of one call
// must not overlap; any alignment is allowed.
#pragma once

#include <cstdint>

namespace longhaul::kernels {

// The scalars of one step of AdamW, in addition to its arrays; computed once per step in fp64.
struct AdamwScalars {
  double gradient_scale = 1;
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double kept_weight = 1;              // 1 − lr · weight decay
  double step_size = 0;                // lr / (1 − beta1^t)
  double inverse_root_correction = 1;  // 1 / sqrt(1 − beta2^t)
  bool zero_gradient = true;
};

// Updates n elements of m, v and master from grad. `value`, where there is one, is the working copy in bf16
// (its bits) of an fp32 master.
template <class Real>
using AdamwLoop = void (*)(Real* master, Real* m, Real* v, Real* grad, uint16_t* value, int64_t n,
                           const AdamwScalars& scalars);
// Sum of squares, added up in fp64 in sixteen interleaved sums.
template <class Real>
using SquaresLoop = double (*)(const Real* x, int64_t n);

struct ElementLoops {
  const char* instruction_set;  // Highway's name
  AdamwLoop<float> adamw_fp32 = nullptr;
  AdamwLoop<double> adamw_fp64 = nullptr;
  SquaresLoop<float> squares_fp32 = nullptr;
  SquaresLoop<double> squares_fp64 = nullptr;
};

const ElementLoops& element_loops();  // of the set that block_kernels() names

}  // namespace longhaul::kernels
