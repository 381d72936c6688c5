// Rotary position encoding on a GPU, of the first 2 · pairs of `width` channels of each head. Channel j turns
// with channel j + pairs: (a, b) → (a cos − b sin, b cos + a sin). One launch takes all heads of a token:
// part after part (queries, keys, values), each from a tensor of its own, into rows of `y`; heads of a part
// that does not turn, and channels that do not, are copied. `inverse` turns back: the gradient.
#pragma once

#include "kernels/cuda/numbers.h"

namespace longhaul::kernels::cuda {

struct RotaryPart {
  const Bf16* x = nullptr;  // [tokens, heads, width], bf16, whose tokens lie `stride` elements apart
  int64_t stride = 0;
  int heads = 0;
  bool turns = true;
};
constexpr int kRotaryParts = 3;

struct Rotary {
  int64_t tokens = 0;
  int width = 0, pairs = 0;
  bool inverse = false;
  const float *cos = nullptr, *sin = nullptr;  // [tokens, pairs]
  RotaryPart parts[kRotaryParts];
  Bf16* y = nullptr;  // [tokens, the heads of all parts, width], tokens y_stride elements apart
  int64_t y_stride = 0;
};

// Where a part is `y` itself (in place), channels that do not turn are left alone.
void rotary(const Rotary& problem, Stream stream);

}  // namespace longhaul::kernels::cuda
