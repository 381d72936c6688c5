// Newton–Schulz iteration (docs/sources/optimizers.md §5; Keller Jordan's Muon): a matrix G = U S Vᵀ becomes about U Vᵀ. With X = G / max(‖G‖, 1e-7), its
// shorter side first, each iteration is
//   A = X Xᵀ;  B = b A + c A²;  X ← a X + B X        (a, b, c) = (3.4445, −4.7750, 2.0315)
// In fp32 on a CPU by our packed products, or with products in bf16 by newton_schulz.h, all matrices at once; by LibTorch's elsewhere (fp64, other
// devices).
#pragma once

#include <vector>

#include "tensor/tensor.h"

namespace longhaul::kernels {

Tensor newton_schulz(const Tensor& matrix, int64_t iterations);  // [n, m], fp32 or fp64; a new tensor
// Of all of them. `products`: bf16 where fp32 matrices on a CPU may have them so; the matrices' own dtype elsewhere.
std::vector<Tensor> newton_schulz(const std::vector<Tensor>& matrices, int64_t iterations, ScalarType products);

}  // namespace longhaul::kernels
