// One optimizer step on a GPU over many tensors: gradient norm, clip factor and AdamW with the refresh of
// bf16 working copies; the host does not wait.
//
//   w ← w (1 − lr λ);  m ← β1 m + (1 − β1) g;  v ← β2 v + (1 − β2) g²
//   w ← w − step_size · m / (√v · correction + ε)
//
// as in kernels/adamw/loops.h; g is the gradient times scale times the clip factor. The step reads the
// gradient and zeroes it if wanted, updates m, v and master, and writes the working copy. Tensors are cut
// into pieces of kAdamwPiece elements, one block each. The norm adds the pieces in fp64 in their order, so
// its bits do not depend on scheduling.
#pragma once

#include <vector>

#include "kernels/cuda/numbers.h"

namespace longhaul::kernels::cuda {

constexpr int64_t kAdamwPiece = 4096;

struct AdamwTensor {
  float *master = nullptr, *m = nullptr, *v = nullptr, *gradient = nullptr;
  Bf16* value = nullptr;  // the working copy, or null
  int64_t count = 0;
  float kept_weight = 1;  // 1 − lr · weight decay
};
struct AdamwPiece {
  int32_t tensor;
  int64_t begin;
};
inline std::vector<AdamwPiece> adamw_pieces(const std::vector<AdamwTensor>& tensors) {
  std::vector<AdamwPiece> pieces;
  for (size_t i = 0; i < tensors.size(); ++i) {
    for (int64_t begin = 0; begin < tensors[i].count; begin += kAdamwPiece)
      pieces.push_back({static_cast<int32_t>(i), begin});
  }
  return pieces;
}

struct AdamwStep {
  const AdamwTensor* tensors = nullptr;  // on the device
  const AdamwPiece* pieces = nullptr;    // likewise
  int64_t piece_count = 0;
  float scale = 1;      // 1 / tokens
  float clip_norm = 0;  // 0: none
  float beta1 = 0.9f, beta2 = 0.95f, eps = 1e-8f, step_size = 0, inverse_root_correction = 1;
  bool zero_gradient = true;
};

// norm[0] = the gradients' norm times scale; norm[1] = scale · min(1, clip_norm / (norm + 1e-6)), what adamw
// multiplies gradients by.
int64_t gradient_norm_workspace_bytes(int64_t piece_count);
void gradient_norm(const AdamwStep& step, float* norm, void* workspace, Stream stream);
void adamw(const AdamwStep& step, const float* norm, Stream stream);

}  // namespace longhaul::kernels::cuda
