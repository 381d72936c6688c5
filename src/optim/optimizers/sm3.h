// SM3-II (arXiv 1901.11150; docs/sources/optimizers.md §4): instead of the sum of squared gradients of each
// element of a matrix, it keeps only the largest sum of each row and of each column; both are upper bounds
// for every element:
//   ν_ij = min(row_i, column_j) + g_ij²;  row_i ← max_j ν_ij;  column_j ← max_i ν_ij
//   u = g / sqrt(ν + ε), 0 where g is 0
//   m ← β m + (1 − β) u;  w ← w (1 − lr λ) − lr m
// Vectors keep ν. Without momentum (optim.momentum = 0) m is u and needs no state. A step needs one
// reduction for each set of axes, a maximum. On a CPU it makes one pass over memory
// (kernels/optimizer_loops/factored.h); on other devices it uses LibTorch's operations.
#pragma once

#include <vector>

#include "optim/optimizer.h"
#include "optim/optimizers/matrix_tiles.h"

namespace longhaul::optim {

class Sm3 final : public Optimizer {
 public:
  Sm3(const recipe::OptimOptions& options, Members members,
      MatrixImplementation implementation = MatrixImplementation::kAutomatic);
  std::vector<StateTensor> state() override;

 private:
  struct Matrix {  // or vector
    Shard shard;
    Tensor rows, columns;  // of a matrix: the upper bounds
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
  MatrixTiles tiles_;  // of these matrices, where the loops support them
  Partials largest_{comm::Reduction::kMax};
};

}  // namespace longhaul::optim
