// Newton–Schulz iteration on a CPU (docs/sources/optimizers.md §5; Keller Jordan's Muon) with products in
// bf16, or in fp32 where the CPU would widen bf16 before it multiplies, and sums in fp32: X = G / max(‖G‖,
// 1e-7), its shorter side first, and then, so many times,
//   A = X Xᵀ;  B = b A + c A²;  X ← a X + B X        (a, b, c) = (3.4445, −4.7750, 2.0315)
// X stays in fp32 and is rounded where it enters a product in bf16. A and A² are symmetric: of both only the
// blocks on and below the diagonal are computed, so an iteration on [n, m] takes 2 n² (n + m) + … half of
// what plain products of A and A² would. Matrices of a few hundred rows are a thread's each, all in its
// cache; larger ones are shared by all threads, one after the other. Bits do not depend on the number of
// threads.
#pragma once

#include <cstdint>
#include <span>

namespace longhaul::kernels {

struct NewtonSchulzConstants {
  static constexpr double a = 3.4445, b = -4.7750, c = 2.0315, least_norm = 1e-7;
};

struct NewtonSchulzMatrix {
  const float* from = nullptr;  // [rows, columns], side by side
  float* to = nullptr;          // likewise; another place
  int64_t rows = 0, columns = 0;
};
enum class NewtonSchulzProducts { kFaster, kBf16, kFp32 };
void newton_schulz_bf16(std::span<const NewtonSchulzMatrix> matrices, int64_t iterations,
                        NewtonSchulzProducts products = NewtonSchulzProducts::kFaster);

}  // namespace longhaul::kernels
