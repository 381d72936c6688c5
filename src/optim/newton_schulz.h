// Newton–Schulz iteration (specs: optimizers.md §5; Keller Jordan's Muon): a matrix G = U S Vᵀ becomes about U Vᵀ. With X = G / max(‖G‖, 1e-7), its
// shorter side first, each iteration is
//   A = X Xᵀ;  B = b A + c A²;  X ← a X + B X        (a, b, c) = (3.4445, −4.7750, 2.0315)
// Products are our packed ones where they take the dtype and sizes (fp32), LibTorch's elsewhere (fp64, other devices).
#pragma once

#include "tensor/tensor.h"

namespace longhaul::optim {

Tensor newton_schulz(const Tensor& matrix, int64_t iterations);  // [n, m], fp32 or fp64; a new tensor

}  // namespace longhaul::optim
