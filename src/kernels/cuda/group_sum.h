// The gradient of a head that several heads share: theirs, added up in fp32.
#pragma once

#include "kernels/cuda/mma.h"

namespace longhaul::kernels::cuda {

// out[t, head, c] = Σ over the group's heads of x[t, head · group + g, c], in order.
LONGHAUL_KERNEL(256) group_sum_kernel(const float* x, Bf16* out, int64_t count, int group, int width) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (i >= count) return;
  const float* from = x + i / width * group * width + i % width;
  float sum = 0;
  for (int g = 0; g < group; ++g) sum += from[static_cast<int64_t>(g) * width];
  out[i] = from_float<Bf16>(sum);
}
inline void sum_group(const char* name, const float* x, Bf16* out, int64_t tokens, int heads_out, int group,
                      int width, Stream stream) {
  const int64_t count = tokens * heads_out * width;
  launch(name, group_sum_kernel, divide_up(count, 256), 256, 0, stream, x, out, count, group, width);
}

}  // namespace longhaul::kernels::cuda
