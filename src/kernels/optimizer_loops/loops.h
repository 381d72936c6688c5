// The loops over elements of Lion, SGD and LAMB (docs/sources/optimizers.md §3, §4): one pass over memory
// each, two for LAMB. Raw pointers, one thread, no tensors; the rules of kernels/adamw/loops.h hold:
// compiled for several instruction sets, which all give the same bits.
//
// A run is `count` elements of one tensor: master, gradient and up to two states, in fp32 or fp64, and the
// working copy in bf16 if there is one. Gradients are multiplied by gradient_scale, and set to zero if
// zero_gradient says so.
#pragma once

#include <cstdint>

namespace longhaul::kernels {

// The number of elements that one thread updates at a time, and whose squares form one sum of LAMB's:
// weights are packed again from the second-level cache.
inline constexpr int64_t kUpdateStretch = 32768;
// Elements a thread takes at least: half a megabyte of traffic, far above the cost of starting a team.
inline constexpr int64_t kUpdateGrain = 16384;

template <class Real>
struct UpdateRun {
  // states: momentum; second moment
  Real *master = nullptr, *gradient = nullptr, *first = nullptr, *second = nullptr;
  uint16_t* value = nullptr;  // bf16, or null
  int64_t count = 0;

  UpdateRun from(int64_t begin, int64_t length) const {
    const auto at = [begin](auto* p) { return p != nullptr ? p + begin : nullptr; };
    return {at(master), at(gradient), at(first), at(second), at(value), length};
  }
};

// Lion: c = β1 m + (1 − β1) g;  w ← w·kept − lr·sign(c);
// m ← β2 m + (1 − β2) g. Where |c| is below `fade`, the sign is c/fade.
struct LionScalars {
  double gradient_scale = 1, beta1 = 0.9, beta2 = 0.99, kept_weight = 1, lr = 0, fade = 0;
  bool zero_gradient = true;
};
// SGD: m ← μ m + g;  w ← w·kept − lr·(nesterov ? g + μ m : m). Without a state (null): w ← w·kept − lr·g.
struct SgdScalars {
  double gradient_scale = 1, momentum = 0.9, kept_weight = 1, lr = 0;
  bool nesterov = false, zero_gradient = true;
};
// LAMB: g' = g + l2·w;  m ← β1 m + β3 g';  v ← β2 v + (1 − β2) g'²;
// u = m·correction / (√v·root_correction + ε) + decay·w.
// The first pass brings m and v up to date and adds up w² and u²; the second makes u again and takes step·u
// off w.
struct LambScalars {
  double gradient_scale = 1, beta1 = 0.9, beta2 = 0.999, eps = 1e-6, l2 = 0, decay = 0;
  double beta3 = 1 - 0.9;                      // 1 − β1, or 1 where gradients are not averaged
  double correction = 1, root_correction = 1;  // 1 / (1 − β1^t), 1 / sqrt(1 − β2^t)
  double step = 0;                             // of the second pass: lr · trust ratio
  bool zero_gradient = true;
};
struct LambSums {
  double weights = 0, updates = 0;  // squared, in fp64, added up in sixteen interleaved sums
};

template <class Real>
struct UpdateLoops {
  void (*lion)(const UpdateRun<Real>& run, const LionScalars& scalars) = nullptr;
  void (*sgd)(const UpdateRun<Real>& run, const SgdScalars& scalars) = nullptr;
  LambSums (*lamb_moments)(const UpdateRun<Real>& run, const LambScalars& scalars) = nullptr;
  void (*lamb_update)(const UpdateRun<Real>& run, const LambScalars& scalars) = nullptr;
};

template <class Real>
const UpdateLoops<Real>& update_loops();  // of the set that block_kernels() names

}  // namespace longhaul::kernels
