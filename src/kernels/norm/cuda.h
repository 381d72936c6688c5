// rms_norm and layer_norm on a GPU, with the residual joined before and, of rms_norm alone, a gate applied
// after where they are given. The bias is layer_norm's alone. Sums are fp32.
//
//   h = α x + β residual,  n = (h − mean) · r,  y = (n ⊙ w + b) ⊙ act(gate)
//   mean = 0 for rms_norm; act: none, sigmoid or silu
//   dn = dy ⊙ act(gate) ⊙ w,  dh = r (dn − mean(dn) − n mean(dn ⊙ n)) + d_residual,  dx = α dh,
//   d(residual) = β dh,  dgate = dy ⊙ (n ⊙ w + b) ⊙ act′(gate)
//
// Weights are fp32; their gradients are added to what is there, in an order that does not vary. h is rounded
// to bf16 before it is normalised, so that backward, which reads it, sees the same.
#pragma once

#include "kernels/cuda/numbers.h"
#include "kernels/cuda/rows.h"

namespace longhaul::kernels::cuda {

constexpr int kMostNormChannels = 16384;  // a row is kept in the registers of a block

enum class GateKind : int { kNone, kSigmoid, kSilu };

struct Norm {
  int64_t rows = 0;
  int channels = 0;
  float eps = 1e-6f;
  float alpha = 1, beta = 1;                       // used where residual is given, and in the backward pass
  const Bf16* x = nullptr;                         // [rows, channels]; backward: h
  const Bf16* residual = nullptr;                  // or null
  Bf16* h = nullptr;                               // where residual is given
  const float *weight = nullptr, *bias = nullptr;  // [channels]; bias or null
  GateKind gate_kind = GateKind::kNone;
  const Bf16* gate = nullptr;
  Bf16* y = nullptr;
  float *mean = nullptr, *inverse = nullptr;  // [rows]; mean only where centred
};

struct NormGradient {
  const Bf16* d_y = nullptr;
  const Bf16* d_residual = nullptr;          // what else flows into h, or null
  Bf16 *d_x = nullptr, *d_branch = nullptr;  // α dh; β dh, or null
  Bf16* d_gate = nullptr;
  float *d_weight = nullptr, *d_bias = nullptr;  // [channels], added to
  float* partial = nullptr;                      // norm_workspace_bytes
};

LONGHAUL_HD int64_t norm_workspace_bytes(int64_t rows, int channels) {
  return row_runs(rows) * channels * 2 * 4;
}

// norm.x is h in the backward pass.
void rms_norm_forward(const Norm& norm, Stream stream);
void rms_norm_backward(const Norm& norm, const NormGradient& gradient, Stream stream);
void layer_norm_forward(const Norm& norm, Stream stream);
void layer_norm_backward(const Norm& norm, const NormGradient& gradient, Stream stream);

}  // namespace longhaul::kernels::cuda
