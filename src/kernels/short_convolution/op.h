// short_convolution: a causal convolution along the tokens, each channel by itself, before the recurrence of Mamba-2 (arXiv 2405.21060), MetaLA
// (2411.10741) and the delta rules; with silu where asked for:
//
//   z_t = bias + Σ_{j=0..W−1} weight[:, j] ⊙ x_{t−(W−1)+j}          y = z, or silu(z)
//
// The last column of the weight meets the token itself. Nothing comes from another document: before a document's first token stand the W−1 rows
// of its initial state, or zeros. What it leaves is a state too: its last W−1 rows, those of the initial state among them where it is shorter.
// Differentiable in x, weight, bias and initial state. Computed in fp32 (fp64 for fp64 inputs) and rounded once; sums over tokens are over fixed
// blocks of rows, so results do not depend on the number of threads. Backward makes z again: only the inputs are kept.
//
// Implementations: cpu (vector loops), meta, aten (LibTorch's operators, any device).
#pragma once

#include <span>

#include "tensor/tensor.h"

namespace longhaul::kernels {

inline constexpr int64_t kMostConvolutionTaps = 16;

struct ShortConvolutionOptions {
  bool silu = false;
};

struct ShortConvolutionResult {
  Tensor y_tc;             // [T, C], dtype of x
  Tensor final_state_nwc;  // [N, W−1, C], dtype of x
};

// x_tc [T, C]; weight_cw [C, W], W from 1 to 16, and bias_c [C] or undefined, each in the dtype of x or in fp32 (fp64 for fp64 inputs); offsets:
// int64 [N+1] on the CPU, document boundaries, or undefined (one document); initial_state_nwc [N, W−1, C] in the dtype of x, oldest row first,
// or undefined.
ShortConvolutionResult short_convolution(const Tensor& x_tc, const Tensor& weight_cw, const Tensor& bias_c, const Tensor& offsets,
                                         const Tensor& initial_state_nwc, const ShortConvolutionOptions& options = {});

// States of many sequences, of which a call continues some: its document n the sequence rows[n].
struct ConvolutionStates {
  Tensor state_swc;               // [S, W−1, C] in the dtype of x
  std::span<const int64_t> rows;  // [N], all different
};

// Decoding: from these states on; the final ones take their places. No gradient.
Tensor short_convolution_continued(const Tensor& x_tc, const Tensor& weight_cw, const Tensor& bias_c, const ConvolutionStates& states,
                                   const Tensor& offsets, const ShortConvolutionOptions& options = {});

// The same by ATen operators under autograd, which is what runs where the loops do not.
ShortConvolutionResult short_convolution_aten(const Tensor& x_tc, const Tensor& weight_cw, const Tensor& bias_c, const Tensor& offsets,
                                              const Tensor& initial_state_nwc, const ShortConvolutionOptions& options = {});

}  // namespace longhaul::kernels
