// CAME (arXiv 2307.02047; docs/sources/optimizers.md §1): a momentum of normalised updates, whose second
// moment is kept as row and column means only. The step is divided by a measure of how much the updates
// disagree with that momentum, kept in the same factored way. For a matrix w [n, m]:
//   A = g² + ε1;  r ← β2 r + (1 − β2) rowmean(A);  c ← β2 c + (1 − β2) colmean(A)
//   u = g / sqrt(r/mean(r) · c)
//   û = u / max(1, RMS(u)/d);  m ← β1 m + (1 − β1) û
//   U = (û − m)² + ε2;  R ← β3 R + (1 − β3) rowmean(U);  C ← β3 C + (1 − β3) colmean(U)
//   w ← w (1 − lr λ) − lr · m / sqrt(R/mean(R) · C)
// With optim.correct_residuals, C is divided by 1 − β3^t (the correction of R cancels): R and C begin at 0,
// and without the correction early steps are 1/sqrt(1 − β3^t) times as long. Vectors keep the whole second
// moment and have no confidence term. The state of one element takes 4 bytes, in addition to its row and
// column.
//
// Means are those of the logical matrix however it is cut: a step needs three reductions for each set of
// axes, whatever the number of matrices. On a CPU it makes four passes, one for each sum and one for the
// weights (kernels/optimizer_loops/factored.h); they go over memory where a matrix is cut or larger than a
// cache, and otherwise over data in the cache. On other devices it uses LibTorch's operations. State has the
// precision of the master (fp32, or fp64); the momentum can also be narrow (optim.state_dtype).
#pragma once

#include <vector>

#include "optim/optimizer.h"
#include "optim/optimizers/factors.h"
#include "optim/optimizers/matrix_tiles.h"

namespace longhaul::optim {

class Came final : public Optimizer {
 public:
  Came(const recipe::OptimOptions& options, Members members,
       MatrixImplementation implementation = MatrixImplementation::kAutomatic);
  std::vector<StateTensor> state() override;
  std::vector<OfTensor> measured() const override;  // the mean of R, the factor of û

 private:
  struct Matrix {  // or vector
    Shard shard;
    ShardState momentum;
    Tensor second;  // of a vector
    Factors moment, residual;
    Partials::Place squares;      // Σ u²
    double shrunk = 1;            // û / u of the last step
    Divisors moments, residuals;  // for a fused step
  };
  Tensor normalised(const Matrix& matrix, double gradient_scale) const;  // u
  double shrink(Matrix& matrix) const;                                   // of û; it is kept in `shrunk`
  double correction(const Matrix& matrix) const;                         // bias correction of the step
  double decay(const Matrix& matrix, const StepSettings& settings) const {
    return matrix.shard.spec().decay ? options_.weight_decay * settings.decay_factor : 0;
  }

  void sum_squares(const StepSettings& settings);
  void size_updates(const StepSettings& settings);
  void sum_residuals(const StepSettings& settings);
  void update(const StepSettings& settings);
  // The same on the threads of a CPU, for the matrices of these tiles; these also write working copies and
  // gradients.
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
