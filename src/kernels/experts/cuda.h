// Mixture of experts on a GPU, all of it without the host knowing how many rows an expert gets (contract:
// op.h).
//
//   route     the k largest logits of each token, ties to the lower index; weights = softmax over those k
//   assign    rows sorted by expert, stable: source [T·k], place [T, k], offsets [E + 1]
//   permute   x[source];   combine  Σ_k weight · y[place], in the order of k;   and the gradients of all
// Products of the experts are matmul/cuda.h with Grouping::kRows and kDepth over `offsets`. Everything is
// deterministic.
#pragma once

#include "kernels/cuda/numbers.h"

namespace longhaul::kernels::cuda {

constexpr int kMostExperts = 1024, kMostChoices = 32;

// logits fp32 [T, E]; choice int32 [T, k]; weight fp32 [T, k].
void route_forward(const float* logits, int32_t* choice, float* weight, int64_t tokens, int experts,
                   int choices, Stream stream);
// d_logits [T, E], written whole.
void route_backward(const int32_t* choice, const float* weight, const float* d_weight, float* d_logits,
                    int64_t tokens, int experts, int choices, Stream stream);

void assign_experts(const int32_t* choice, int64_t* offsets, int32_t* source, int32_t* place, int64_t tokens,
                    int experts, int choices, Stream stream);

void permute_forward(const Bf16* x, const int32_t* source, Bf16* rows, int64_t count, int64_t hidden,
                     Stream stream);
// Σ_k weight · y[place]; weight null: 1 (the gradient of permute).
void combine_forward(const Bf16* y, const float* weight, const int32_t* place, Bf16* out, int64_t tokens,
                     int choices, int64_t hidden, Stream stream);
void combine_backward(const Bf16* y, const float* weight, const int32_t* place, const Bf16* d_out, Bf16* d_y,
                      float* d_weight, int64_t tokens, int choices, int64_t hidden, Stream stream);

}  // namespace longhaul::kernels::cuda
