// Adafactor (arXiv 1804.04235; docs/sources/optimizers.md §2): the second moment of a matrix is kept as row
// and column means only, and the size of an update is limited by clipping. With A = g² + ε1 and β2_t = 1 −
// t^−0.8, for a matrix w [n, m]:
//   r ← β2_t r + (1 − β2_t) rowmean(A);  c likewise;  u = g / sqrt(r c / mean(r));  û = u / max(1, RMS(u)/d)
// Vectors keep the whole second moment. The published forms differ in the rest; optim.adafactor_form
// chooses one of them (lr is the schedule's):
//   fairseq     α = ρ_t · max(1e-3, RMS(w)), ρ_t = min(lr, 1/√t); optim.scale_by_weights = false and
//               optim.relative_step = false each switch one of the two factors off; m ← β1 m + (1 − β1) α û
//               with a momentum; w ← w (1 − α λ) − m (or α û)
//   torch       the same α, without options; ε1 is the machine epsilon and is not added: it bounds mean(r)
//               and the square of u's divisor from below; w ← w (1 − lr λ) − α û; no momentum
//   big_vision  β2_t at most 0.999; m ← β1 m + (1 − β1) û with a momentum; w ← w (1 − lr λ) − lr m
// A step needs two reductions for each set of axes, whatever the number of matrices. On a CPU it makes
// three passes over memory (kernels/optimizer_loops/factored.h); on other devices it uses LibTorch's
// operations.
#pragma once

#include <vector>

#include "optim/optimizer.h"
#include "optim/optimizers/factors.h"
#include "optim/optimizers/matrix_tiles.h"

namespace longhaul::optim {

class Adafactor final : public Optimizer {
 public:
  Adafactor(const recipe::OptimOptions& options, Members members,
            MatrixImplementation implementation = MatrixImplementation::kAutomatic);
  std::vector<StateTensor> state() override;
  std::vector<OfTensor> measured() const override;  // the factor of û

 private:
  struct Matrix {  // or vector
    Shard shard;
    Factors moment;
    Tensor second;                     // of a vector
    ShardState momentum;               // undefined: none
    Partials::Place weights, updates;  // Σ w², Σ u²
    double shrunk = 1;                 // û / u of the last step
    Divisors divisors;                 // for a fused step
  };
  bool torch() const { return options_.adafactor_form == recipe::AdafactorForm::kTorch; }
  // β2 of the current step.
  double beta2() const;
  Tensor normalised(const Matrix& matrix, const StepSettings& settings) const;  // u
  double step_size(const Matrix& matrix, double lr) const;                      // α
  double shrink(Matrix& matrix) const;  // of û; it is kept in `shrunk`
  // Lower bound of the square of u's divisor.
  double floor() const;
  // Whether the momentum averages steps (α û), or else updates (û).
  bool of_steps() const { return options_.adafactor_form == recipe::AdafactorForm::kFairseq; }
  void sum_squares(const StepSettings& settings);
  void size_updates(const StepSettings& settings);
  void update(const StepSettings& settings);
  // The same on the threads of a CPU, for the matrices of these tiles; these also write working copies and
  // gradients.
  void fused_squares(const MatrixTiles& tiles, const StepSettings& settings);
  void fused_sizes(const MatrixTiles& tiles, const StepSettings& settings);
  void fused_update(const MatrixTiles& tiles, const StepSettings& settings);

  recipe::OptimOptions options_;
  double momentum_ = 0;
  std::vector<Matrix> matrices_;
  MatrixWalks walks_;  // over them
  Partials squares_, sizes_;
};

}  // namespace longhaul::optim
