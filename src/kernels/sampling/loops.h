// The loops for drawing a token from a row of logits (generate/sampler.h): the largest logit, and the
// weights of the softmax with their sums. Raw pointers, one thread, no tensors; compiled for several
// instruction sets.
#pragma once

#include <cstdint>

namespace longhaul::kernels {

inline constexpr int64_t kDrawBlock = 256;    // tokens whose weights are added up together
inline constexpr int32_t kDrawPlaces = 1024;  // of draw_places

// The largest of the logits; NaN if one of them is NaN, −∞ if there are none.
float largest_logit(const float* logits, int64_t count);

// weights[i] = e^((logits[i] − largest) / temperature), which is 0 for −∞ and 1 for the largest; sums[b]: of
// the weights of block b, in fp64. The largest logit is finite, the temperature positive (1e-30 to 1e30: what
// lies outside counts as these).
void draw_weights(const float* logits, int64_t count, float largest, double temperature, float* weights,
                  double* sums);

// places[i] ∈ [0, kDrawPlaces): where the logit stands between the largest (0) and the smallest finite one,
// which and below which is the last place. Never falls where logits do: it puts tokens in order roughly, and
// what is in one place remains to be sorted.
void draw_places(const float* logits, int64_t count, float largest, int32_t* places);

}  // namespace longhaul::kernels
