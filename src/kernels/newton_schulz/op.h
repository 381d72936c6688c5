// Newton–Schulz iteration (docs/sources/optimizers.md §5; Keller Jordan's Muon): maps a matrix G = U S Vᵀ
// approximately to U Vᵀ. With X = G / max(‖G‖, 1e-7), transposed so that its shorter side is first, each
// iteration is
//   A = X Xᵀ;  B = b A + c A²;  X ← a X + B X        (a, b, c) = (3.4445, −4.7750, 2.0315)
// fp32 matrices on a CPU use our packed products, or products in bf16 by newton_schulz.h, all matrices at
// once; other cases (fp64, other devices) use LibTorch's.
#pragma once

#include <vector>

#include "tensor/tensor.h"

namespace longhaul::kernels {

Tensor newton_schulz(const Tensor& matrix, int64_t iterations);  // [n, m], fp32 or fp64; a new tensor
// Iterates all matrices. `products`: the dtype of the products; bf16 is possible for fp32 matrices on a
// CPU, other cases use the dtype of the matrices.
std::vector<Tensor> newton_schulz(const std::vector<Tensor>& matrices, int64_t iterations,
                                  ScalarType products);

}  // namespace longhaul::kernels
