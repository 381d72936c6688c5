// SM3-II (arXiv 1901.11150; docs/sources/optimizers.md §4): of the sums of squared gradients of a matrix only the largest of each row and each column are
// kept, which bound every element's from above:
//   ν_ij = min(row_i, column_j) + g_ij²;  row_i ← max_j ν_ij;  column_j ← max_i ν_ij;  u = g / sqrt(ν + ε), 0 where g is 0
//   m ← β m + (1 − β) u;  w ← w (1 − lr λ) − lr m
// Vectors keep ν. Without momentum (optim.momentum = 0) m is u and no state. One reduction a step for each set of axes, of largest numbers. On a CPU
// one pass over memory (kernels/updates/factored.h); LibTorch's operations elsewhere.
#pragma once

#include <vector>

#include "optim/optimizer.h"
#include "optim/optimizers/matrix_tiles.h"

namespace longhaul::optim {

class Sm3 final : public Optimizer {
 public:
  Sm3(const recipe::OptimOptions& options, Members members, MatrixImplementation implementation = MatrixImplementation::kAutomatic);
  std::vector<StateTensor> state() override;

 private:
  struct Matrix {  // or vector
    Shard shard;
    Tensor rows, columns;  // of a matrix: what bounds them
    Tensor sums;           // of a vector
    ShardState momentum;   // undefined: none
    Partials::Place largest_of_rows, largest_of_columns;
  };
  void update(const StepSettings& settings);
  void fused_update(const StepSettings& settings);
  void keep_bounds();

  recipe::OptimOptions options_;
  double momentum_ = 0;
  std::vector<Matrix> matrices_;
  MatrixTiles tiles_;  // of them, where the loops take them
  Partials largest_{comm::Reduction::kMax};
};

}  // namespace longhaul::optim
