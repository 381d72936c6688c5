// Factors: approximates a matrix x ≥ 0 [n, m] that changes from step to step by moving averages of its row
// means and column means: x_ij ≈ rows_i · columns_j / mean(rows) (Adafactor, arXiv 1804.04235). The means
// are those of the logical matrix however it is cut: a step adds its numbers to one phase's Partials, and
// the next phase averages them.
#pragma once

#include <cstddef>
#include <memory>

#include "kernels/optimizer_loops/factored.h"
#include "optim/shard.h"

namespace longhaul::optim {

struct Factors {
  Factors() = default;
  Factors(const Shard& shard, Partials& partials);  // zeros; reserves places for the sums

  void add_sums(const Shard& shard, Partials& partials, const Tensor& x, double beta) const;
  // The same from sums of x over this rank's rows and columns, on a CPU.
  void add_sums(const Shard& shard, const Partials& partials, const double* sums_of_rows,
                const double* sums_of_columns, double beta) const;
  void average(const Shard& shard, const Partials& partials, double beta);
  // Divides x by the square root of the matrix that the factors represent.
  Tensor divide(const Tensor& x) const;

  Tensor rows, columns;  // [n of this rank], [m of this rank]
  Partials::Place row_sums, column_sums, sum_of_rows;
  Tensor mean_of_rows;  // of the last step, or undefined; over all rows of the logical matrix
};

// The factors with which the loops of kernels/optimizer_loops/factored.h multiply during a step: inverse
// roots, or the numbers themselves. CPU only. They are in plain memory, because small matrices need a few of
// them in every step, and a tensor costs as much as some of their passes.
class Divisors {
 public:
  enum class Form { kInverseRoots, kNumbers };
  Divisors() = default;
  // least_mean: lower bound for the mean of rows.
  Divisors(const Factors& factors, Form form, double least_mean = 0);
  // For a vector, whose second moment is kept whole.
  explicit Divisors(const Tensor& second, Form form);
  // For a vector, which this leaves unchanged.
  static Divisors ones(const Tensor& like);
  // For a tile that begins at this row and column.
  template <class Real>
  void set(kernels::Tile<Real>& tile, int64_t row, int64_t column) const {
    const Real* const numbers = static_cast<const Real*>(static_cast<const void*>(numbers_.get()));
    tile.of_rows = numbers + row;
    tile.of_columns = numbers + rows_ + column;
  }

 private:
  template <class Real>
  Real* allocate(int64_t rows, int64_t columns);
  int64_t rows_ = 0;
  std::unique_ptr<std::byte[]> numbers_;  // those of rows, then those of columns
};

// second ← β second + (1 − β) squares, for a vector, on a CPU.
void follow_squares(const Tensor& second, const double* squares, double beta);

}  // namespace longhaul::optim
