// short_convolution: a causal convolution along the tokens, independent for each channel, before the
// recurrence of Mamba-2 (arXiv 2405.21060), MetaLA (2411.10741) and the delta rules; optionally with silu:
//
//   z_t = bias + Σ_{j=0..W−1} weight[:, j] ⊙ x_{t−(W−1)+j}          y = z, or silu(z)
//
// The last column of the weight applies to the token itself. No other document contributes: a document's
// first token is preceded by the W−1 rows of its initial state, or by zeros. The final state is the last
// W−1 rows, which include rows of the initial state if the document is shorter. Differentiable in x,
// weight, bias and initial state. Computed in fp32 (fp64 for fp64 inputs) and rounded once; sums over
// tokens are over fixed blocks of rows, so results do not depend on the number of threads. The backward
// pass recomputes z: only the inputs are kept.
//
// Implementations: cuda (our kernels, bf16), cpu (vector loops), meta, aten (LibTorch's operators, any
// device).
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

// x_tc [T, C]; weight_cw [C, W], W from 1 to 16, and bias_c [C] or undefined, each in the dtype of x or in
// fp32 (fp64 for fp64 inputs); offsets: int64 [N+1] on the CPU, document boundaries, or undefined (one
// document); initial_state_nwc [N, W−1, C] in the dtype of x, oldest row first, or undefined.
ShortConvolutionResult short_convolution(const Tensor& x_tc, const Tensor& weight_cw, const Tensor& bias_c,
                                         const Tensor& offsets, const Tensor& initial_state_nwc,
                                         const ShortConvolutionOptions& options = {});

// The states of many sequences. A call continues some of them: its document n continues sequence rows[n].
struct ConvolutionStates {
  Tensor state_swc;               // [S, W−1, C] in the dtype of x
  std::span<const int64_t> rows;  // [N], all different
};

// Decoding: continues from these states, which the final states replace. No gradient.
Tensor short_convolution_continued(const Tensor& x_tc, const Tensor& weight_cw, const Tensor& bias_c,
                                   const ConvolutionStates& states, const Tensor& offsets,
                                   const ShortConvolutionOptions& options = {});

// The same with ATen operators under autograd; it runs where the loops do not.
ShortConvolutionResult short_convolution_aten(const Tensor& x_tc, const Tensor& weight_cw,
                                              const Tensor& bias_c, const Tensor& offsets,
                                              const Tensor& initial_state_nwc,
                                              const ShortConvolutionOptions& options = {});

}  // namespace longhaul::kernels
