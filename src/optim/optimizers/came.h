// CAME (arXiv 2307.02047; docs/sources/optimizers.md §1): a momentum of normalised updates, whose second moment is kept as row and column means only,
// and whose step is divided by how far updates disagree with that momentum, kept in the same way. For a matrix w [n, m]:
//   A = g² + ε1;  r ← β2 r + (1 − β2) rowmean(A);  c ← β2 c + (1 − β2) colmean(A);  u = g / sqrt(r/mean(r) · c)
//   û = u / max(1, RMS(u)/d);  m ← β1 m + (1 − β1) û
//   U = (û − m)² + ε2;  R ← β3 R + (1 − β3) rowmean(U);  C ← β3 C + (1 − β3) colmean(U)
//   w ← w (1 − lr λ) − lr · m / sqrt(R/mean(R) · C)
// With optim.correct_residuals C is divided by 1 − β3^t (R's cancels): R and C begin at 0, and without it early steps are 1/sqrt(1 − β3^t) times as long.
// Vectors keep the whole second moment and have no confidence term. One element takes 4 bytes of state beside its row and column.
//
// Means are of the logical matrix however it is cut: three reductions for each set of axes a step, whatever the number of matrices.
// On a CPU four passes, one for each sum and one for the weights (kernels/updates/factored.h), over memory where a matrix is cut or larger than a cache, else
// over a cache; LibTorch's operations elsewhere. State in the precision of the master (fp32, or fp64), the momentum also narrow (optim.state_dtype).
#pragma once

#include <vector>

#include "optim/optimizer.h"
#include "optim/optimizers/factors.h"
#include "optim/optimizers/matrix_tiles.h"

namespace longhaul::optim {

class Came final : public Optimizer {
 public:
  Came(const recipe::OptimOptions& options, Members members, MatrixImplementation implementation = MatrixImplementation::kAutomatic);
  std::vector<StateTensor> state() override;
  std::vector<OfTensor> measured() const override;  // the mean of R

 private:
  struct Matrix {  // or vector
    Shard shard;
    ShardState momentum;
    Tensor second;  // of a vector
    Factors moment, residual;
    Partials::Place squares;      // Σ u²
    Divisors moments, residuals;  // of a fused step
  };
  Tensor normalised(const Matrix& matrix, double gradient_scale) const;  // u
  double shrink(const Matrix& matrix) const;                             // of û
  double correction(const Matrix& matrix) const;                         // of the step
  double decay(const Matrix& matrix, const StepSettings& settings) const {
    return matrix.shard.spec().decay ? options_.weight_decay * settings.decay_factor : 0;
  }

  void sum_squares(const StepSettings& settings);
  void size_updates(const StepSettings& settings);
  void sum_residuals(const StepSettings& settings);
  void update(const StepSettings& settings);
  // The same on a CPU's threads, of the matrices of these tiles, working copies and gradients too.
  void fused_squares(const MatrixTiles& tiles, const StepSettings& settings);
  void fused_sizes(const MatrixTiles& tiles, const StepSettings& settings);
  void fused_residuals(const MatrixTiles& tiles, const StepSettings& settings);
  void fused_update(const MatrixTiles& tiles, const StepSettings& settings);

  recipe::OptimOptions options_;
  std::vector<Matrix> matrices_;
  MatrixWalks walks_;  // over them
  Partials squares_, sizes_, residuals_;
};

}  // namespace longhaul::optim
