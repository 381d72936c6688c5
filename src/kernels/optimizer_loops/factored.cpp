// Compiled once per instruction set by Highway's foreach_target.
#include "kernels/optimizer_loops/factored.h"

#include <algorithm>
#include <type_traits>

#include "kernels/vector/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimizer_loops/factored.cpp"
#include <hwy/foreach_target.h>
#include "kernels/vector/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels::HWY_NAMESPACE {
namespace {

constexpr int64_t kTogether = 16;    // columns of a strip, whose numbers of a block of rows stay in registers
constexpr int kRows = 4;             // of a block
constexpr int64_t kInterleaved = 8;  // sums of a row

template <class Real>
using Lanes = hn::ScalableTag<Real>;
template <class Real>
HWY_INLINE hn::Vec<Lanes<Real>> every(double x) {
  return hn::Set(Lanes<Real>(), static_cast<Real>(x));
}

constexpr hn::ScalableTag<double> kDoubles{};
using Wide = hn::Vec<hn::ScalableTag<double>>;
constexpr int64_t kLanes = hn::MaxLanes(kDoubles), kParts = kTogether / kLanes,
                  kRowParts = kInterleaved / kLanes;

// Sixteen numbers in fp64.
struct Strip {
  Wide parts[kParts];
};

// number(at), `at` from 0 to 15.
template <class Real, class Number>
HWY_INLINE Strip strip_of(const Number& number) {
  constexpr int64_t kEach = hn::MaxLanes(Lanes<Real>());
  Strip strip;
  for (int64_t i = 0; i < kTogether; i += kEach) {
    const auto numbers = number(Whole{i});
    if constexpr (std::is_same_v<Real, double>) {
      strip.parts[i / kLanes] = numbers;
    } else if constexpr (kEach == 1) {
      strip.parts[i] = hn::PromoteTo(kDoubles, numbers);
    } else {
#if HWY_TARGET != HWY_SCALAR
      const hn::Half<Lanes<Real>> half;
      strip.parts[i / kLanes] = hn::PromoteTo(kDoubles, hn::LowerHalf(half, numbers));
      strip.parts[i / kLanes + 1] = hn::PromoteTo(kDoubles, hn::UpperHalf(half, numbers));
#endif
    }
  }
  return strip;
}
// Of the last columns, fewer than sixteen; zeros behind them.
template <class Real, class Number>
HWY_INLINE Strip strip_of_last(int64_t count, const Number& number) {
  const Lanes<Real> d;
  Real numbers[kTogether] = {};
  walk(d, count, [&](auto at) LONGHAUL_VECTOR { store(d, number(at), numbers, at); });
  return strip_of<Real>([&](Whole at)
                            LONGHAUL_VECTOR { return load(d, static_cast<const Real*>(numbers), at); });
}

struct Sum {
  static HWY_INLINE Wide of(Wide x, Wide y) { return hn::Add(x, y); }
  static HWY_INLINE double of(double x, double y) { return x + y; }
};
struct Largest {  // of numbers that are not negative
  static HWY_INLINE Wide of(Wide x, Wide y) { return hn::Max(x, y); }
  static HWY_INLINE double of(double x, double y) { return std::max(x, y); }
};

// What some rows come to: a row's numbers in eight interleaved ones, a column's in the order of rows.
template <class Join, int Rows>
class JoinedRows {
 public:
  HWY_INLINE JoinedRows() {
    for (auto& parts : rows_) {
      for (auto& part : parts) part = hn::Zero(kDoubles);
    }
  }
  // numbers(r): of row r, in sixteen columns.
  template <class Numbers>
  HWY_INLINE void add(double* columns, const Numbers& numbers) {
    Wide of_columns[kParts];
    for (int64_t part = 0; part < kParts; ++part)
      of_columns[part] = hn::LoadU(kDoubles, columns + part * kLanes);
    for (int r = 0; r < Rows; ++r) {
      const Strip strip = numbers(r);
      for (int64_t part = 0; part < kParts; ++part) {
        of_columns[part] = Join::of(of_columns[part], strip.parts[part]);
        rows_[r][part % kRowParts] = Join::of(rows_[r][part % kRowParts], strip.parts[part]);
      }
    }
    for (int64_t part = 0; part < kParts; ++part)
      hn::StoreU(of_columns[part], kDoubles, columns + part * kLanes);
  }
  HWY_INLINE double of_row(int r) const {
    double numbers[kInterleaved];
    for (int64_t part = 0; part < kRowParts; ++part)
      hn::StoreU(rows_[r][part], kDoubles, numbers + part * kLanes);
    for (int64_t half = kInterleaved / 2; half > 0; half /= 2) {
      for (int64_t i = 0; i < half; ++i) numbers[i] = Join::of(numbers[i], numbers[i + half]);
    }
    return numbers[0];
  }

 private:
  Wide rows_[Rows][kRowParts];
};

// number(row, column, at) for every element of some rows, each counted in its row and its column: `at` counts
// from `column`.
template <class Join, int Rows, class Real, class Number>
HWY_INLINE void join_rows(const Tile<Real>& tile, int64_t row, const Number& number) {
  JoinedRows<Join, Rows> joined;
  int64_t column = 0;
  for (; column + kTogether <= tile.columns; column += kTogether) {
    joined.add(tile.column_numbers + column, [&](int r) LONGHAUL_VECTOR {
      return strip_of<Real>([&](Whole at) LONGHAUL_VECTOR { return number(row + r, column, at); });
    });
  }
  if (const int64_t count = tile.columns - column; count > 0) {
    double columns[kTogether] = {};
    std::copy(tile.column_numbers + column, tile.column_numbers + tile.columns, columns);
    joined.add(columns, [&](int r) LONGHAUL_VECTOR {
      return strip_of_last<Real>(count, [&](auto at) LONGHAUL_VECTOR { return number(row + r, column, at); });
    });
    std::copy(columns, columns + count, tile.column_numbers + column);
  }
  for (int r = 0; r < Rows; ++r)
    tile.row_numbers[row + r] = Join::of(tile.row_numbers[row + r], joined.of_row(r));
}

template <class Join, class Real, class Number>
HWY_INLINE void join_both_ways(const Tile<Real>& tile, const Number& number) {
  int64_t row = 0;
  for (; row + kRows <= tile.rows; row += kRows) join_rows<Join, kRows>(tile, row, number);
  for (; row < tile.rows; ++row) join_rows<Join, 1>(tile, row, number);
}

template <class Real>
void square_sums(const Tile<Real>& given, const SquareScalars& scalars) {
  const Tile<Real> tile = given;  // which no store can change
  const Lanes<Real> d;
  const auto scale = every<Real>(scalars.gradient_scale), eps = every<Real>(scalars.eps);
  join_both_ways<Sum>(tile, [&](int64_t row, int64_t column, auto at) LONGHAUL_VECTOR {
    const auto g = hn::Mul(load(d, tile.gradient + row * tile.stride + column, at), scale);
    return hn::Add(hn::Mul(g, g), eps);
  });
}

// u of a row, from some column on.
template <class Real, bool Floored>
class Direction {
 public:
  HWY_INLINE Direction(const Tile<Real>& tile, const DirectionScalars& scalars)
      : gradient_(tile.gradient),
        of_rows_(tile.of_rows),
        of_columns_(tile.of_columns),
        stride_(tile.stride),
        scale_(every<Real>(scalars.gradient_scale)),
        floor_(every<Real>(scalars.floor)) {}
  template <class At>
  HWY_INLINE hn::Vec<Lanes<Real>> at(int64_t row, int64_t column, At at) const {
    const Lanes<Real> d;
    const auto g = hn::Mul(load(d, static_cast<const Real*>(gradient_ + row * stride_ + column), at), scale_);
    const auto of_row = hn::Set(d, of_rows_[row]), of_column = load(d, of_columns_ + column, at);
    if constexpr (Floored)
      return hn::Div(g, hn::Sqrt(hn::Max(hn::Mul(of_row, of_column), floor_)));
    else
      return hn::Mul(hn::Mul(g, of_row), of_column);
  }

 private:
  const Real *gradient_, *of_rows_, *of_columns_;
  int64_t stride_;
  hn::Vec<Lanes<Real>> scale_, floor_;
};

// body(Direction) in the form that the scalars ask for.
template <class Real, class Body>
HWY_INLINE auto with_direction(const Tile<Real>& tile, const DirectionScalars& scalars, const Body& body) {
  if (scalars.floor > 0) return body(Direction<Real, true>(tile, scalars));
  return body(Direction<Real, false>(tile, scalars));
}

template <class Real>
double direction_squares(const Tile<Real>& tile, const DirectionScalars& scalars) {
  return with_direction(tile, scalars, [&](const auto& direction) LONGHAUL_VECTOR {
    Strip sums;
    for (auto& part : sums.parts) part = hn::Zero(kDoubles);
    const auto add = [&](const Strip& strip) LONGHAUL_VECTOR {
      for (int64_t part = 0; part < kParts; ++part)
        sums.parts[part] = hn::Add(sums.parts[part], hn::Mul(strip.parts[part], strip.parts[part]));
    };
    const int64_t whole = tile.columns / kTogether * kTogether, rest = tile.columns - whole;
    for (int64_t row = 0; row < tile.rows; ++row) {
      for (int64_t column = 0; column < whole; column += kTogether)
        add(strip_of<Real>([&](Whole at) LONGHAUL_VECTOR { return direction.at(row, column, at); }));
      if (rest > 0)
        add(strip_of_last<Real>(rest, [&](auto at) LONGHAUL_VECTOR { return direction.at(row, whole, at); }));
    }
    double numbers[kTogether];
    for (int64_t part = 0; part < kParts; ++part)
      hn::StoreU(sums.parts[part], kDoubles, numbers + part * kLanes);
    for (int half = kTogether / 2; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) numbers[i] += numbers[i + half];
    }
    return numbers[0];
  });
}

template <class Real>
void came_momentum(const Tile<Real>& given, const CameScalars& scalars) {
  const Tile<Real> tile = given;
  const Lanes<Real> d;
  const auto shrink = every<Real>(scalars.shrink), beta = every<Real>(scalars.beta),
             rest = every<Real>(1 - scalars.beta);
  const auto eps = every<Real>(scalars.eps);
  const bool zero_gradient = scalars.zero_gradient;
  with_direction(tile, scalars.direction, [&](const auto& direction) LONGHAUL_VECTOR {
    join_both_ways<Sum>(tile, [&](int64_t row, int64_t column, auto at) LONGHAUL_VECTOR {
      Real* const momentum = tile.momentum + row * tile.momentum_stride + column;
      const auto update = hn::Mul(direction.at(row, column, at), shrink);
      const auto m = hn::Add(hn::Mul(beta, load(d, momentum, at)), hn::Mul(rest, update)),
                 residual = hn::Sub(update, m);
      store(d, m, momentum, at);
      if (zero_gradient) store(d, hn::Zero(d), tile.gradient + row * tile.stride + column, at);
      return hn::Add(hn::Mul(residual, residual), eps);
    });
  });
}

// weight(row, at, w) for every element, and the working copy.
template <class Real, class Weight>
HWY_INLINE void write_weights(const Tile<Real>& tile, const Weight& weight) {
  const Lanes<Real> d;
  for (int64_t row = 0; row < tile.rows; ++row) {
    Real* const master = tile.master + row * tile.stride;
    uint16_t* const value = tile.value == nullptr ? nullptr : tile.value + row * tile.stride;
    walk(d, tile.columns, [&](auto at) LONGHAUL_VECTOR {
      const auto w = weight(row, at, load(d, master, at));
      store(d, w, master, at);
      if constexpr (std::is_same_v<Real, float>) {
        if (value != nullptr) store(d, w, value, at);
      }
    });
  }
}

template <class Real>
void came_update(const Tile<Real>& given, const CameStep& step) {
  const Tile<Real> tile = given;
  const Lanes<Real> d;
  const auto kept = every<Real>(step.kept_weight), lr = every<Real>(step.lr);
  write_weights(tile, [&](int64_t row, auto at, auto w) LONGHAUL_VECTOR {
    const auto m = load(d, tile.momentum + row * tile.momentum_stride, at);
    const auto s = hn::Mul(hn::Mul(m, hn::Set(d, tile.of_rows[row])), load(d, tile.of_columns, at));
    return hn::Sub(hn::Mul(kept, w), hn::Mul(lr, s));
  });
}

// m ← β m + (1 − β) step, or the step itself without a momentum.
template <class Real>
class Followed {
 public:
  HWY_INLINE Followed(const Tile<Real>& tile, double beta)
      : momentum_(tile.momentum),
        stride_(tile.momentum_stride),
        beta_(every<Real>(beta)),
        rest_(every<Real>(1 - beta)) {}
  template <class At>
  HWY_INLINE hn::Vec<Lanes<Real>> at(int64_t row, int64_t column, At at, hn::Vec<Lanes<Real>> step) const {
    if (momentum_ == nullptr) return step;
    const Lanes<Real> d;
    Real* const momentum = momentum_ + row * stride_ + column;
    const auto m = hn::Add(hn::Mul(beta_, load(d, momentum, at)), hn::Mul(rest_, step));
    store(d, m, momentum, at);
    return m;
  }

 private:
  Real* momentum_;
  int64_t stride_;
  hn::Vec<Lanes<Real>> beta_, rest_;
};

template <class Real>
void adafactor_update(const Tile<Real>& given, const AdafactorScalars& scalars) {
  const Tile<Real> tile = given;
  const Lanes<Real> d;
  const Followed<Real> followed(tile, scalars.beta);
  const auto inside = every<Real>(scalars.inside), outside = every<Real>(scalars.outside),
             kept = every<Real>(scalars.kept_weight);
  const bool zero_gradient = scalars.zero_gradient;
  with_direction(tile, scalars.direction, [&](const auto& direction) LONGHAUL_VECTOR {
    write_weights(tile, [&](int64_t row, auto at, auto w) LONGHAUL_VECTOR {
      const auto m = followed.at(row, 0, at, hn::Mul(direction.at(row, 0, at), inside));
      if (zero_gradient) store(d, hn::Zero(d), tile.gradient + row * tile.stride, at);
      return hn::Sub(hn::Mul(kept, w), hn::Mul(outside, m));
    });
  });
}

// What both forms of SM3 do to an element whose ν − g² is `bound`; ν.
template <class Real>
class Sm3Elements {
 public:
  HWY_INLINE Sm3Elements(const Tile<Real>& tile, const Sm3Scalars& scalars)
      : tile_(tile),
        followed_(tile, scalars.beta),
        scale_(every<Real>(scalars.gradient_scale)),
        eps_(every<Real>(scalars.eps)),
        kept_(every<Real>(scalars.kept_weight)),
        lr_(every<Real>(scalars.lr)),
        zero_gradient_(scalars.zero_gradient) {}
  template <class At>
  HWY_INLINE hn::Vec<Lanes<Real>> step(int64_t row, int64_t column, At at, hn::Vec<Lanes<Real>> bound) const {
    const Lanes<Real> d;
    const int64_t place = row * tile_.stride + column;
    const auto g = hn::Mul(load(d, tile_.gradient + place, at), scale_), sum = hn::Add(bound, hn::Mul(g, g));
    const auto m = followed_.at(row, column, at, hn::Div(g, hn::Sqrt(hn::Add(sum, eps_))));
    if (zero_gradient_) store(d, hn::Zero(d), tile_.gradient + place, at);
    const auto w = hn::Sub(hn::Mul(kept_, load(d, tile_.master + place, at)), hn::Mul(lr_, m));
    store(d, w, tile_.master + place, at);
    if constexpr (std::is_same_v<Real, float>) {
      if (tile_.value != nullptr) store(d, w, tile_.value + place, at);
    }
    return sum;
  }

 private:
  const Tile<Real> tile_;
  Followed<Real> followed_;
  hn::Vec<Lanes<Real>> scale_, eps_, kept_, lr_;
  bool zero_gradient_;
};

template <class Real>
void sm3_update(const Tile<Real>& given, const Sm3Scalars& scalars) {
  const Tile<Real> tile = given;
  const Lanes<Real> d;
  const Sm3Elements<Real> elements(tile, scalars);
  if (tile.of_rows == nullptr) {
    auto* const sums = const_cast<Real*>(tile.of_columns);
    for (int64_t row = 0; row < tile.rows; ++row)
      walk(d, tile.columns, [&](auto at) LONGHAUL_VECTOR {
        store(d, elements.step(row, 0, at, load(d, sums, at)), sums, at);
      });
    return;
  }
  join_both_ways<Largest>(tile, [&](int64_t row, int64_t column, auto at) LONGHAUL_VECTOR {
    return elements.step(row, column, at,
                         hn::Min(hn::Set(d, tile.of_rows[row]), load(d, tile.of_columns + column, at)));
  });
}

template <class Real>
const FactoredLoops<Real>& factored() {
  static constexpr FactoredLoops<Real> kFunctions{square_sums<Real>,      direction_squares<Real>,
                                                  came_momentum<Real>,    came_update<Real>,
                                                  adafactor_update<Real>, sm3_update<Real>};
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
