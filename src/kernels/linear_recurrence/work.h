// The cost of one token of one head in the chunked form (docs/sources/linear-attention.md §2.1): FLOPs of
// its products (a multiply-add is 2) and bytes that must cross memory once, for blocks of `block` tokens.
// The choice of an execution and every benchmark use these numbers.
//
//   forward   2 C (d_k + d_v) + 4 d_k d_v           Q Kᵀ, A V; Q S, Kᵀ V            q, k, v → o
//   backward  2 C (3 d_k + 2 d_v) + 10 d_k d_v      five of each; S is recomputed   one sweep: q, k, v, do
//                                                   → dq, dk, dv
//             two sweeps: k, v, do → dq; q, k, v, do → dk, dv
#pragma once

#include <cstdint>

namespace longhaul::kernels {

struct RecurrenceShape {
  int64_t block = 64, keys = 64, values = 64;
  double computed =
      // share of the block × block products that is computed: 1/2 + c/2C when squares of c above the diagonal
      // are left out
      1;
  int64_t element_bytes = 2;
  int64_t decay_bytes = 0;  // of log_decay per token and head: 4 d_k for a decay per channel
};

struct RecurrenceWork {
  double flops = 0, bytes = 0;
};

constexpr RecurrenceWork forward_work(const RecurrenceShape& s) {
  return {static_cast<double>(2 * s.block * (s.keys + s.values)) * s.computed +
              static_cast<double>(4 * s.keys * s.values),
          static_cast<double>(s.element_bytes * 2 * (s.keys + s.values) + s.decay_bytes)};
}

// The decay is read once and its gradient written once, whatever the sweeps.
constexpr RecurrenceWork backward_work(const RecurrenceShape& s, int sweeps = 1) {
  const int64_t rows = sweeps == 1 ? 4 * s.keys + 3 * s.values : 5 * (s.keys + s.values);
  return {static_cast<double>(2 * s.block * (3 * s.keys + 2 * s.values)) * s.computed +
              static_cast<double>(10 * s.keys * s.values),
          static_cast<double>(s.element_bytes * rows + 2 * s.decay_bytes)};
}

}  // namespace longhaul::kernels
