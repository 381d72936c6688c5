// The loops of toeplitz: channels [first, last) of all documents, one thread; raw pointers. In matrices of
// coefficients and states the channels are innermost.
#pragma once

#include <cstdint>

#include "kernels/vector/storage.h"

namespace longhaul::kernels {

struct ToeplitzRange {
  Storage storage = Storage::kFp32;  // of x, y and their gradients; all else is fp32 (fp64)
  int64_t channels = 0, ld_in = 0;   // of a row; from row to row of x
  int64_t exponentials = 0;          // e
  const int64_t* offsets = nullptr;  // [documents + 1]
  int64_t documents = 0;
  int64_t first = 0, last = 0;        // channels
  const void* decay = nullptr;        // λ [e]
  const void* coefficient = nullptr;  // Bᵀ [e, channels]
};

struct ToeplitzLoops {
  const void *x = nullptr, *initial = nullptr;  // initial [documents, e, channels], or null
  void *y = nullptr, *final = nullptr;          // final likewise
};
void toeplitz_range(const ToeplitzRange& range, const ToeplitzLoops& loops);

struct ToeplitzGradientLoops {
  const void *x = nullptr, *initial = nullptr;
  const void *dy = nullptr, *d_final = nullptr;  // dy contiguous; d_final may be null
  void *dx = nullptr, *d_initial = nullptr;      // dx contiguous; d_initial may be null
  void* d_coefficient = nullptr;                 // [e, channels]; null: neither this nor the next is wanted
  void* d_log_decay = nullptr;                   // [e], of these channels
};
void toeplitz_gradient_range(const ToeplitzRange& range, const ToeplitzGradientLoops& loops);

}  // namespace longhaul::kernels
