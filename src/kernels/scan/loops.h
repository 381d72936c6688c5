// The loops of the scans: one document's channels [first, last), all of its tokens [begin, end); raw
// pointers, one thread.
#pragma once

#include <cstdint>

#include "kernels/vector/storage.h"

namespace longhaul::kernels {

struct ScanRange {
  Storage storage = Storage::kFp32;  // of u, h, x, k and their gradients; all else is fp32 (fp64)
  int64_t channels = 0, ld_in = 0;   // of a row; from row to row of u (x), whose gradient is contiguous
  int64_t begin = 0, end = 0;        // tokens
  int64_t first = 0, last = 0;       // channels
};

struct DecayedSumLoops {
  const void *a = nullptr, *u = nullptr, *initial = nullptr;  // initial: this document's, or null
  void *h = nullptr, *final = nullptr;
  const void *dh = nullptr, *d_final = nullptr;  // d_final may be null
  void *da = nullptr, *du = nullptr, *d_initial = nullptr;
};
void decayed_sum_range(const ScanRange& range, const DecayedSumLoops& loops);
// d_initial: also the running sum
void decayed_sum_gradient_range(const ScanRange& range, const DecayedSumLoops& loops);

struct CumulativeSoftmaxLoops {
  const void *x = nullptr, *initial = nullptr;
  void *k = nullptr, *g = nullptr, *final = nullptr;  // final: also the running z
  const void *dk = nullptr, *dg = nullptr, *d_final = nullptr;
  void *dx = nullptr, *d_initial = nullptr;  // d_initial: also the running r
};
void cumulative_softmax_range(const ScanRange& range, const CumulativeSoftmaxLoops& loops);
void cumulative_softmax_gradient_range(const ScanRange& range, const CumulativeSoftmaxLoops& loops);

}  // namespace longhaul::kernels
