// Factors: of a matrix x ≥ 0 [n, m] that changes from step to step, the means of its rows and of its columns as moving averages, and from them
// x_ij ≈ rows_i · columns_j / mean(rows) (Adafactor, arXiv 1804.04235). Means are of the logical matrix however it is cut: a step adds its numbers to
// one phase's Partials, and the phase behind it averages.
#pragma once

#include <cstddef>
#include <memory>

#include "kernels/updates/factored.h"
#include "optim/shard.h"

namespace longhaul::optim {

struct Factors {
  Factors() = default;
  Factors(const Shard& shard, Partials& partials);  // zeros; reserves places for the sums

  void add_sums(const Shard& shard, Partials& partials, const Tensor& x, double beta) const;
  // The same of sums of x over this rank's rows and columns, on a CPU.
  void add_sums(const Shard& shard, const Partials& partials, const double* sums_of_rows, const double* sums_of_columns, double beta) const;
  void average(const Shard& shard, const Partials& partials, double beta);
  Tensor divide(const Tensor& x) const;  // by the root of the matrix that the factors make

  Tensor rows, columns;  // [n of this rank], [m of this rank]
  Partials::Place row_sums, column_sums, sum_of_rows;
  Tensor mean_of_rows;  // of the last step, or undefined; over all rows of the logical matrix
};

// What the loops of kernels/updates/factored.h multiply by, while a step goes on: inverse roots, or the numbers themselves. On a CPU; plain memory, because
// small matrices have a few of these each in every step, and a tensor costs as much as some of their passes.
class Divisors {
 public:
  enum class Form { kInverseRoots, kNumbers };
  Divisors() = default;
  Divisors(const Factors& factors, Form form, double least_mean = 0);  // least_mean: that the mean of rows counts as, at least
  explicit Divisors(const Tensor& second, Form form);                  // of a vector, whose second moment is whole
  static Divisors ones(const Tensor& like);                            // of a vector, which so is left as it is
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
  std::unique_ptr<std::byte[]> numbers_;  // of rows, then of columns
};

// second ← β second + (1 − β) squares: of a vector, on a CPU.
void follow_squares(const Tensor& second, const double* squares, double beta);

}  // namespace longhaul::optim
