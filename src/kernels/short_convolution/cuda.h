// short_convolution on a GPU (equations: op.h), forward and backward. bf16 in and out, fp32 inside, weights
// and bias fp32 and the taps' rows in order [W, C]. Each input is read once, but for the few rows around the
// tokens that a block walks over. Deterministic: sums over tokens are over fixed runs of rows.
#pragma once

#include "kernels/cuda/numbers.h"
#include "kernels/cuda/rows.h"

namespace longhaul::kernels::cuda {

constexpr int kMostConvolutionTaps = 16;

struct Convolution {
  int64_t tokens = 0, channels = 0, documents = 0;
  int taps = 1;  // W
  bool silu = false;
  const Bf16* x = nullptr;  // [tokens, channels], rows x_stride elements apart
  int64_t x_stride = 0;
  const float *weight = nullptr, *bias = nullptr;  // [W, C]; [C] or null
  const Bf16* initial = nullptr;                   // [documents, W − 1, C] or null: zeros
  const int64_t* offsets = nullptr;                // [documents + 1]
};

struct ConvolutionGradient {
  const Bf16* d_y = nullptr;      // [tokens, channels]
  const Bf16* d_final = nullptr;  // [documents, W − 1, C] or null: zeros
  Bf16* d_x = nullptr;
  Bf16* d_initial = nullptr;  // or null; that of a document without tokens is left alone
  float* sums = nullptr;      // [W or W + 1, C], added to: the weight's gradient and, with a bias, the bias's
  float* partial = nullptr;   // convolution_workspace_bytes
};

LONGHAUL_HD int64_t convolution_workspace_bytes(const Convolution& problem) {
  return row_runs(problem.tokens) * (problem.taps + 1) * problem.channels * 4;
}

// y [tokens, channels]; final_state [documents, W − 1, C]: the last inputs of each document.
void convolution_forward(const Convolution& problem, Bf16* y, Bf16* final_state, Stream stream);
void convolution_backward(const Convolution& problem, const ConvolutionGradient& gradient, Stream stream);

}  // namespace longhaul::kernels::cuda
