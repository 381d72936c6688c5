// The loops of segment_softmax: channels [first, last) of one document's tokens [begin, end); raw pointers,
// one thread. All rows except those of x are contiguous.
#pragma once

#include <cstdint>

#include "kernels/vector/storage.h"

namespace longhaul::kernels {

struct SoftmaxRange {
  Storage storage = Storage::kFp32;
  int64_t channels = 0, ld_in = 0;  // of a row; from row to row of x
  int64_t begin = 0, end = 0;       // tokens
  int64_t first = 0, last = 0;      // channels, at most kSoftmaxChannels
};
inline constexpr int64_t kSoftmaxChannels = 128;

void segment_softmax_range(const SoftmaxRange& range, const void* x, void* k);
void segment_softmax_gradient_range(const SoftmaxRange& range, const void* k, const void* dk, void* dx);

}  // namespace longhaul::kernels
