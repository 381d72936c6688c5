#include "kernels/newton_schulz/newton_schulz.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "base/threads/parallel.h"
#include "kernels/gemm/block.h"

namespace longhaul::kernels {
namespace {

using Constants = NewtonSchulzConstants;

constexpr int64_t kRows = 32;  // of a block, and the columns of a block that is mirrored
// of the panels that a block of rows is multiplied by at a time
constexpr int64_t kColumns = 256;
// elements of a matrix, up to which it is worth a thread of its own
constexpr int64_t kOfOneThread = 512 * 512 * 2;

template <class Body>
void for_blocks(int64_t total, int64_t step, const Body& body) {
  parallel_for(0, (total + step - 1) / step, 1, [&](int64_t first, int64_t last) {
    const BlockScope kernels;
    for (int64_t block = first; block < last; ++block)
      body(kernels, block * step, std::min(step, total - block * step));
  });
}

// Whether the CPU multiplies bf16 itself. One that does not widens bf16 to fp32 first, so that fp32 is as
// fast and rounds less.
bool multiplies_bf16() {
  const BlockKernels& kernels = block_kernels();
  const std::string_view name = kernels.name;
  return kernels.vectors == VectorSet::kAvx512Bf16 || name == "amx" || name == "neon_bf16";
}

// One matrix after the other in the same working space; Element: what enters the products, bf16 (uint16_t) or
// fp32. n ≤ m.
template <class Element>
class Iteration {
 public:
  void run(const NewtonSchulzMatrix& matrix, int64_t iterations) {
    if (matrix.rows == 0 || matrix.columns == 0) return;
    make_room(std::min(matrix.rows, matrix.columns), std::max(matrix.rows, matrix.columns));
    load(matrix);
    for (int64_t i = 0; i < iterations; ++i) iterate();
    store(matrix);
  }

 private:
  static constexpr bool kNarrow = sizeof(Element) == 2;
  static size_t size(int64_t rows, int64_t columns) { return static_cast<size_t>(rows * columns); }

  void make_room(int64_t n, int64_t m) {
    n_ = n, m_ = m;
    x_.resize(size(n, m)), gram_.resize(size(n, n)), square_.resize(size(n, n)),
        narrow_square_.resize(size(n, n));
    if (kNarrow) narrow_x_.resize(size(n, m));
    panels_.resize(static_cast<size_t>(std::max(packed_size<Element>(m, n), packed_size<Element>(n, m))));
  }

  // X as it enters products.
  const Element* entering() const {
    if constexpr (kNarrow)
      return narrow_x_.data();
    else
      return x_.data();
  }

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
        squares[static_cast<size_t>(i)] =
            ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
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
  void pack(const Element* b, int64_t ld, bool transposed, int64_t k, int64_t n) {
    for_blocks(n, kColumns, [&](const BlockScope& kernels, int64_t column, int64_t count) {
      kernels->pack(b + (transposed ? column * ld : column), ld, transposed, k, count,
                    panels_.data() + column * panel_rows<Element>(k));
    });
  }

  // Rows [row, row + count) of a · panels, columns [0, columns).
  void multiply(const BlockScope& kernels, const Element* a, int64_t row, int64_t count, int64_t columns,
                int64_t k, float* c, int64_t ldc, bool accumulate) const {
    for (int64_t column = 0; column < columns; column += kColumns) {
      kernels->multiply(a + row * k, k, panels_.data() + column * panel_rows<Element>(k), count,
                        std::min(kColumns, columns - column), k, c + row * ldc + column, ldc, accumulate);
    }
  }

  // On and below the diagonal: c = a · panels; after `finish(row, count, columns)` has changed c, rounded
  // into narrow_square_ on both sides.
  template <class Finish>
  void symmetric(const Element* a, int64_t k, float* c, const Finish& finish) {
    for_blocks(n_, kRows, [&](const BlockScope& kernels, int64_t row, int64_t count) {
      const int64_t columns = row + count;
      multiply(kernels, a, row, count, columns, k, c, n_, false);
      finish(row, count, columns);
    });
  }
  void round_both_sides(const float* c) {
    for_blocks(n_, kRows, [&](const BlockScope& kernels, int64_t row, int64_t count) {
      Element* const to = narrow_square_.data();
      rounded(kernels, c + row * n_, n_, count, row + count, to + row * n_);
      for (int64_t column = 0; column < row; column += kRows)
        kernels->transpose(to + row * n_ + column, n_, count, kRows, to + column * n_ + row, n_);
    });
  }

  // [rows × columns] with one row stride, as it enters products.
  static void rounded(const BlockScope& kernels, const float* from, int64_t ld, int64_t rows, int64_t columns,
                      Element* to) {
    if constexpr (kNarrow) {
      kernels->round_bf16(from, ld, rows, columns, to, ld);
    } else {
      for (int64_t row = 0; row < rows; ++row)
        std::copy(from + row * ld, from + row * ld + columns, to + row * ld);
    }
  }

  void iterate() {
    if constexpr (kNarrow) {
      for_blocks(n_, kRows, [&](const BlockScope& kernels, int64_t row, int64_t count) {
        rounded(kernels, x_.data() + row * m_, m_, count, m_, narrow_x_.data() + row * m_);
      });
    }
    pack(entering(), m_, /*transposed=*/true, m_, n_);
    symmetric(entering(), m_, gram_.data(), [](int64_t, int64_t, int64_t) {});
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
    pack(entering(), m_, /*transposed=*/false, n_, m_);
    scale_x(static_cast<float>(Constants::a));
    for_blocks(n_, kRows, [&](const BlockScope& kernels, int64_t row, int64_t count) {
      multiply(kernels, narrow_square_.data(), row, count, m_, n_, x_.data(), m_, true);
    });
  }

  int64_t n_ = 0, m_ = 0;
  std::vector<float> x_, gram_, square_;
  std::vector<Element> narrow_x_, narrow_square_, panels_;
};

template <class Element>
void run_all(std::span<const NewtonSchulzMatrix> matrices, int64_t iterations) {
  Iteration<Element> shared;
  std::vector<const NewtonSchulzMatrix*> small;
  for (const NewtonSchulzMatrix& matrix : matrices) {
    if (matrix.rows * matrix.columns <= kOfOneThread)
      small.push_back(&matrix);
    else
      shared.run(matrix, iterations);
  }
  // Inside the region their own loops run serially.
  parallel_items(static_cast<int64_t>(small.size()), threads(), [&](const auto& each) {
    Iteration<Element> own;
    each([&](int64_t item) { own.run(*small[static_cast<size_t>(item)], iterations); });
  });
}

}  // namespace

void newton_schulz_bf16(std::span<const NewtonSchulzMatrix> matrices, int64_t iterations,
                        NewtonSchulzProducts products) {
  if (products == NewtonSchulzProducts::kBf16 ||
      (products == NewtonSchulzProducts::kFaster && multiplies_bf16()))
    run_all<uint16_t>(matrices, iterations);
  else
    run_all<float>(matrices, iterations);
}

}  // namespace longhaul::kernels
