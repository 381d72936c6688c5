// Compiled once per instruction set by Highway's foreach_target.
#include "kernels/updates/factored.h"

#include <algorithm>
#include <type_traits>

#include "kernels/vector/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/updates/factored.cpp"
#include <hwy/foreach_target.h>
#include "kernels/vector/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels::HWY_NAMESPACE {
namespace {

constexpr int64_t kTogether = 16;  // columns whose sums interleave

template <class Real>
using Lanes = hn::ScalableTag<Real>;
template <class Real>
HWY_INLINE hn::Vec<Lanes<Real>> every(double x) {
  return hn::Set(Lanes<Real>(), static_cast<Real>(x));
}

// Σ x in fp64 as SquareSums has Σ x².
class ValueSums {
 public:
  HWY_INLINE ValueSums() {
    for (double& sum : sums_) sum = 0;
  }
  template <class Real>
  HWY_INLINE void add(const Real* sixteen) {
    for (int i = 0; i < 16; ++i) sums_[i] += static_cast<double>(sixteen[i]);
  }
  HWY_INLINE double total() {
    for (int half = 8; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) sums_[i] += sums_[i + half];
    }
    return sums_[0];
  }

 private:
  HWY_ALIGN double sums_[16];
};

template <class Real>
HWY_INLINE void add_to(double* sums, const Real* numbers, int64_t count) {
  for (int64_t i = 0; i < count; ++i) sums[i] += static_cast<double>(numbers[i]);
}

// number(row, column, at) for every element, each counted in its row and its column: `at` counts from `column`.
template <class Real, class Number>
HWY_INLINE void sum_both_ways(const Tile<Real>& tile, const Number& number) {
  const Lanes<Real> d;
  for (int64_t row = 0; row < tile.rows; ++row) {
    ValueSums of_row;
    for (int64_t column = 0; column < tile.columns; column += kTogether) {
      const int64_t count = std::min(kTogether, tile.columns - column);
      Real numbers[kTogether] = {};
      walk(d, count, [&](auto at) LONGHAUL_VECTOR { store(d, number(row, column, at), numbers, at); });
      of_row.add(numbers);
      if (count == kTogether)
        add_to(tile.column_numbers + column, numbers, kTogether);
      else
        add_to(tile.column_numbers + column, numbers, count);
    }
    tile.row_numbers[row] += of_row.total();
  }
}

template <class Real>
void square_sums(const Tile<Real>& tile, const SquareScalars& scalars) {
  const Lanes<Real> d;
  const auto scale = every<Real>(scalars.gradient_scale), eps = every<Real>(scalars.eps);
  sum_both_ways(tile, [&](int64_t row, int64_t column, auto at) LONGHAUL_VECTOR {
    const auto g = hn::Mul(load(d, tile.gradient + row * tile.stride + column, at), scale);
    return hn::Add(hn::Mul(g, g), eps);
  });
}

// u of a row, from some column on.
template <class Real>
class Direction {
 public:
  HWY_INLINE Direction(const Tile<Real>& tile, const DirectionScalars& scalars)
      : tile_(tile), scale_(scalars.gradient_scale), floor_(every<Real>(scalars.floor)), floored_(scalars.floor > 0) {}
  template <class At>
  HWY_INLINE hn::Vec<Lanes<Real>> at(int64_t row, int64_t column, At at) const {
    const Lanes<Real> d;
    const auto g = hn::Mul(load(d, tile_.gradient + row * tile_.stride + column, at), every<Real>(scale_));
    const auto of_row = hn::Set(d, tile_.of_rows[row]), of_column = load(d, tile_.of_columns + column, at);
    if (!floored_) return hn::Mul(hn::Mul(g, of_row), of_column);
    return hn::Div(g, hn::Sqrt(hn::Max(hn::Mul(of_row, of_column), floor_)));
  }

 private:
  const Tile<Real>& tile_;
  double scale_;
  hn::Vec<Lanes<Real>> floor_;
  bool floored_;
};

template <class Real>
double direction_squares(const Tile<Real>& tile, const DirectionScalars& scalars) {
  const Lanes<Real> d;
  const Direction<Real> direction(tile, scalars);
  SquareSums sums;
  for (int64_t row = 0; row < tile.rows; ++row) {
    for (int64_t column = 0; column < tile.columns; column += kTogether) {
      Real numbers[kTogether] = {};
      walk(d, std::min(kTogether, tile.columns - column),
           [&](auto at) LONGHAUL_VECTOR { store(d, direction.at(row, column, at), numbers, at); });
      sums.add(numbers);
    }
  }
  return sums.total();
}

template <class Real>
void came_momentum(const Tile<Real>& tile, const CameScalars& scalars) {
  const Lanes<Real> d;
  const Direction<Real> direction(tile, scalars.direction);
  const auto shrink = every<Real>(scalars.shrink), beta = every<Real>(scalars.beta), rest = every<Real>(1 - scalars.beta);
  const auto eps = every<Real>(scalars.eps);
  sum_both_ways(tile, [&](int64_t row, int64_t column, auto at) LONGHAUL_VECTOR {
    Real* const momentum = tile.momentum + row * tile.momentum_stride + column;
    const auto update = hn::Mul(direction.at(row, column, at), shrink);
    const auto m = hn::Add(hn::Mul(beta, load(d, momentum, at)), hn::Mul(rest, update)), residual = hn::Sub(update, m);
    store(d, m, momentum, at);
    if (scalars.zero_gradient) store(d, hn::Zero(d), tile.gradient + row * tile.stride + column, at);
    return hn::Add(hn::Mul(residual, residual), eps);
  });
}

// weight(row, at, w) for every element, and the working copy.
template <class Real, class Weight>
HWY_INLINE void write_weights(const Tile<Real>& tile, const Weight& weight) {
  const Lanes<Real> d;
  for (int64_t row = 0; row < tile.rows; ++row) {
    Real* const master = tile.master + row * tile.stride;
    walk(d, tile.columns, [&](auto at) LONGHAUL_VECTOR {
      const auto w = weight(row, at, load(d, master, at));
      store(d, w, master, at);
      if constexpr (std::is_same_v<Real, float>) {
        if (tile.value != nullptr) store(d, w, tile.value + row * tile.stride, at);
      }
    });
  }
}

template <class Real>
void came_update(const Tile<Real>& tile, const CameStep& step) {
  const Lanes<Real> d;
  const auto kept = every<Real>(step.kept_weight), lr = every<Real>(step.lr);
  write_weights(tile, [&](int64_t row, auto at, auto w) LONGHAUL_VECTOR {
    const auto m = load(d, tile.momentum + row * tile.momentum_stride, at);
    const auto s = hn::Mul(hn::Mul(m, hn::Set(d, tile.of_rows[row])), load(d, tile.of_columns, at));
    return hn::Sub(hn::Mul(kept, w), hn::Mul(lr, s));
  });
}

// m ← β m + (1 − β) step, or the step itself without a momentum.
template <class Real, class At>
HWY_INLINE hn::Vec<Lanes<Real>> followed(const Tile<Real>& tile, int64_t row, At at, double beta, hn::Vec<Lanes<Real>> step) {
  if (tile.momentum == nullptr) return step;
  const Lanes<Real> d;
  Real* const momentum = tile.momentum + row * tile.momentum_stride;
  const auto m = hn::Add(hn::Mul(every<Real>(beta), load(d, momentum, at)), hn::Mul(every<Real>(1 - beta), step));
  store(d, m, momentum, at);
  return m;
}

template <class Real>
void adafactor_update(const Tile<Real>& tile, const AdafactorScalars& scalars) {
  const Lanes<Real> d;
  const Direction<Real> direction(tile, scalars.direction);
  const auto inside = every<Real>(scalars.inside), outside = every<Real>(scalars.outside), kept = every<Real>(scalars.kept_weight);
  write_weights(tile, [&](int64_t row, auto at, auto w) LONGHAUL_VECTOR {
    const auto m = followed(tile, row, at, scalars.beta, hn::Mul(direction.at(row, 0, at), inside));
    if (scalars.zero_gradient) store(d, hn::Zero(d), tile.gradient + row * tile.stride, at);
    return hn::Sub(hn::Mul(kept, w), hn::Mul(outside, m));
  });
}

// Columns [column, column + count) of a row; the sums of squares, for the bounds.
template <class Real>
HWY_INLINE void sm3_columns(const Tile<Real>& tile, int64_t row, int64_t column, int64_t count, const Sm3Scalars& scalars, Real* sums) {
  const Lanes<Real> d;
  const auto scale = every<Real>(scalars.gradient_scale), eps = every<Real>(scalars.eps);
  const auto kept = every<Real>(scalars.kept_weight), lr = every<Real>(scalars.lr);
  Tile<Real> own = tile;  // from that column on
  own.gradient += column, own.master += column, own.of_columns += column;
  if (tile.momentum != nullptr) own.momentum += column;
  const bool vector = tile.of_rows == nullptr;
  walk(d, count, [&](auto at) LONGHAUL_VECTOR {
    Real *const gradient = own.gradient + row * tile.stride, *const master = own.master + row * tile.stride;
    const auto g = hn::Mul(load(d, gradient, at), scale), bound = load(d, own.of_columns, at);
    const auto sum = hn::Add(vector ? bound : hn::Min(hn::Set(d, tile.of_rows[row]), bound), hn::Mul(g, g));
    store(d, sum, sums, at);
    const auto m = followed(own, row, at, scalars.beta, hn::Div(g, hn::Sqrt(hn::Add(sum, eps))));
    if (scalars.zero_gradient) store(d, hn::Zero(d), gradient, at);
    const auto w = hn::Sub(hn::Mul(kept, load(d, master, at)), hn::Mul(lr, m));
    store(d, w, master, at);
    if constexpr (std::is_same_v<Real, float>) {
      if (tile.value != nullptr) store(d, w, tile.value + row * tile.stride + column, at);
    }
  });
}

template <class Real>
void sm3_update(const Tile<Real>& tile, const Sm3Scalars& scalars) {
  for (int64_t row = 0; row < tile.rows; ++row) {
    for (int64_t column = 0; column < tile.columns; column += kTogether) {
      const int64_t count = std::min(kTogether, tile.columns - column);
      Real sums[kTogether] = {};
      sm3_columns(tile, row, column, count, scalars, sums);
      if (tile.of_rows == nullptr) {
        std::copy(sums, sums + count, const_cast<Real*>(tile.of_columns) + column);
        continue;
      }
      for (int64_t i = 0; i < count; ++i) {
        const auto sum = static_cast<double>(sums[i]);
        tile.row_numbers[row] = std::max(tile.row_numbers[row], sum);
        tile.column_numbers[column + i] = std::max(tile.column_numbers[column + i], sum);
      }
    }
  }
}

template <class Real>
const FactoredLoops<Real>& factored() {
  static constexpr FactoredLoops<Real> kFunctions{square_sums<Real>, direction_squares<Real>, came_momentum<Real>,
                                                  came_update<Real>, adafactor_update<Real>,  sm3_update<Real>};
  return kFunctions;
}

}  // namespace
}  // namespace longhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul::kernels {

template <class Real>
const FactoredLoops<Real>& factored_loops() {
  return LONGHAUL_CHOOSE(factored<Real>)();
}
template const FactoredLoops<float>& factored_loops();
template const FactoredLoops<double>& factored_loops();

}  // namespace longhaul::kernels
#endif
