#include "kernels/newton_schulz/newton_schulz.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/parallel.h"
#include "kernels/block/block.h"

namespace longhaul::kernels {
namespace {

using Constants = NewtonSchulzConstants;

constexpr int64_t kRows = 64;                    // of a block, and the columns of a block that is mirrored
constexpr int64_t kColumns = 256;                // of the panels that a block of rows is multiplied by at a time
constexpr int64_t kOfOneThread = 512 * 512 * 2;  // elements of a matrix, up to which it is worth a thread of its own

template <class Body>
void for_blocks(int64_t total, int64_t step, const Body& body) {
  parallel_for(0, (total + step - 1) / step, 1, [&](int64_t first, int64_t last) {
    const BlockScope kernels;
    for (int64_t block = first; block < last; ++block) body(kernels, block * step, std::min(step, total - block * step));
  });
}

// One matrix and its working space: n ≤ m.
class Iteration {
 public:
  Iteration(int64_t n, int64_t m)
      : n_(n),
        m_(m),
        x_(size(n, m)),
        gram_(size(n, n)),
        square_(size(n, n)),
        narrow_x_(size(n, m)),
        narrow_square_(size(n, n)),
        panels_(static_cast<size_t>(std::max(packed_size<uint16_t>(m, n), packed_size<uint16_t>(n, m)))) {}

  void run(const NewtonSchulzMatrix& matrix, int64_t iterations) {
    load(matrix);
    for (int64_t i = 0; i < iterations; ++i) iterate();
    store(matrix);
  }

 private:
  static size_t size(int64_t rows, int64_t columns) { return static_cast<size_t>(rows * columns); }

  static void transpose(const float* from, int64_t rows, int64_t columns, float* to) {
    for_blocks(rows, kRows, [&](const BlockScope& kernels, int64_t row, int64_t count) {
      kernels->transpose_fp32(from + row * columns, columns, count, columns, to + row, rows);
    });
  }

  void load(const NewtonSchulzMatrix& matrix) {
    if (matrix.rows > matrix.columns)
      transpose(matrix.from, matrix.rows, matrix.columns, x_.data());
    else
      std::copy(matrix.from, matrix.from + n_ * m_, x_.begin());
    std::vector<double> squares(static_cast<size_t>(n_));
    for_blocks(n_, kRows, [&](const BlockScope&, int64_t row, int64_t count) {
      for (int64_t i = row; i < row + count; ++i) {
        double sums[8] = {};
        const float* const x = x_.data() + i * m_;
        for (int64_t j = 0; j < m_; ++j) sums[j % 8] += static_cast<double>(x[j]) * static_cast<double>(x[j]);
        squares[static_cast<size_t>(i)] = ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
      }
    });
    double sum = 0;
    for (const double each : squares) sum += each;
    scale_x(static_cast<float>(1 / std::max(std::sqrt(sum), Constants::least_norm)));
  }

  void store(const NewtonSchulzMatrix& matrix) const {
    if (matrix.rows > matrix.columns)
      transpose(x_.data(), n_, m_, matrix.to);
    else
      std::copy(x_.begin(), x_.end(), matrix.to);
  }

  void scale_x(float factor) {
    for_blocks(n_, kRows, [&](const BlockScope&, int64_t row, int64_t count) {
      for (int64_t i = row * m_; i < (row + count) * m_; ++i) x_[static_cast<size_t>(i)] *= factor;
    });
  }

  // b, [k × n] or with `transposed` [n × k].
  void pack(const uint16_t* b, int64_t ld, bool transposed, int64_t k, int64_t n) {
    for_blocks(n, kColumns, [&](const BlockScope& kernels, int64_t column, int64_t count) {
      kernels->pack_bf16(b + (transposed ? column * ld : column), ld, transposed, k, count, panels_.data() + column * packed_k(k));
    });
  }

  // Rows [row, row + count) of a · panels, columns [0, columns).
  void multiply(const BlockScope& kernels, const uint16_t* a, int64_t row, int64_t count, int64_t columns, int64_t k, float* c, int64_t ldc,
                bool accumulate) const {
    for (int64_t column = 0; column < columns; column += kColumns) {
      kernels->multiply_bf16(a + row * k, k, panels_.data() + column * packed_k(k), count, std::min(kColumns, columns - column), k,
                             c + row * ldc + column, ldc, accumulate);
    }
  }

  // On and below the diagonal: c = a · panels; after `finish(row, count, columns)` has changed c, rounded into narrow_square_ on both sides.
  template <class Finish>
  void symmetric(const uint16_t* a, int64_t k, float* c, const Finish& finish) {
    for_blocks(n_, kRows, [&](const BlockScope& kernels, int64_t row, int64_t count) {
      const int64_t columns = row + count;
      multiply(kernels, a, row, count, columns, k, c, n_, false);
      finish(row, count, columns);
    });
  }
  void round_both_sides(const float* c) {
    for_blocks(n_, kRows, [&](const BlockScope& kernels, int64_t row, int64_t count) {
      uint16_t* const to = narrow_square_.data();
      kernels->round_bf16(c + row * n_, n_, count, row + count, to + row * n_, n_);
      for (int64_t column = 0; column < row; column += kRows)
        kernels->transpose_bf16(to + row * n_ + column, n_, count, kRows, to + column * n_ + row, n_);
    });
  }

  void iterate() {
    for_blocks(n_, kRows, [&](const BlockScope& kernels, int64_t row, int64_t count) {
      kernels->round_bf16(x_.data() + row * m_, m_, count, m_, narrow_x_.data() + row * m_, m_);
    });
    pack(narrow_x_.data(), m_, /*transposed=*/true, m_, n_);
    symmetric(narrow_x_.data(), m_, gram_.data(), [](int64_t, int64_t, int64_t) {});
    round_both_sides(gram_.data());
    pack(narrow_square_.data(), n_, /*transposed=*/false, n_, n_);
    symmetric(narrow_square_.data(), n_, square_.data(), [&](int64_t row, int64_t count, int64_t columns) {
      constexpr auto kB = static_cast<float>(Constants::b), kC = static_cast<float>(Constants::c);
      for (int64_t i = row; i < row + count; ++i) {
        float* const to = square_.data() + i * n_;
        const float* const gram = gram_.data() + i * n_;
        for (int64_t j = 0; j < columns; ++j) to[j] = kB * gram[j] + kC * to[j];
      }
    });
    round_both_sides(square_.data());
    pack(narrow_x_.data(), m_, /*transposed=*/false, n_, m_);
    scale_x(static_cast<float>(Constants::a));
    for_blocks(n_, kRows, [&](const BlockScope& kernels, int64_t row, int64_t count) {
      multiply(kernels, narrow_square_.data(), row, count, m_, n_, x_.data(), m_, true);
    });
  }

  int64_t n_, m_;
  std::vector<float> x_, gram_, square_;
  std::vector<uint16_t> narrow_x_, narrow_square_, panels_;
};

void run_one(const NewtonSchulzMatrix& matrix, int64_t iterations) {
  if (matrix.rows == 0 || matrix.columns == 0) return;
  Iteration(std::min(matrix.rows, matrix.columns), std::max(matrix.rows, matrix.columns)).run(matrix, iterations);
}

}  // namespace

void newton_schulz_bf16(std::span<const NewtonSchulzMatrix> matrices, int64_t iterations) {
  std::vector<const NewtonSchulzMatrix*> small;
  for (const NewtonSchulzMatrix& matrix : matrices) {
    if (matrix.rows * matrix.columns <= kOfOneThread)
      small.push_back(&matrix);
    else
      run_one(matrix, iterations);
  }
  // Inside the region their own loops run serially.
  parallel_items(static_cast<int64_t>(small.size()), threads(),
                 [&](const auto& each) { each([&](int64_t item) { run_one(*small[static_cast<size_t>(item)], iterations); }); });
}

}  // namespace longhaul::kernels
