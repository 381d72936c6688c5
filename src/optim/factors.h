// Factors: of a matrix x ≥ 0 [n, m] that changes from step to step, the means of its rows and of its columns as moving averages, and from them
// x_ij ≈ rows_i · columns_j / mean(rows) (Adafactor, arXiv 1804.04235). Means are of the logical matrix however it is cut: a step adds its numbers to
// one phase's Partials, and the phase behind it averages.
#pragma once

#include "optim/shard.h"

namespace longhaul::optim {

struct Factors {
  Factors() = default;
  Factors(const Shard& shard, Partials& partials);  // zeros; reserves places for the sums

  void add_sums(const Shard& shard, Partials& partials, const Tensor& x, double beta) const;
  void average(const Shard& shard, const Partials& partials, double beta);
  Tensor divide(const Tensor& x) const;  // by the root of the matrix that the factors make

  Tensor rows, columns;  // [n of this rank], [m of this rank]
  Partials::Place row_sums, column_sums, sum_of_rows;
  Tensor mean_of_rows;  // of the step that goes on; over all rows of the logical matrix
};

}  // namespace longhaul::optim
