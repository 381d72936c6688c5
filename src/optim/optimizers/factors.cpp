#include "optim/optimizers/factors.h"

#include <algorithm>

#include "kernels/optimizer_loops/means.h"

namespace longhaul::optim {
namespace {

// body(Real) for the type of the tensor.
template <class Body>
void in_type_of(const Tensor& tensor, const Body& body) {
  if (tensor.scalar_type() == at::kDouble)
    body(double{});
  else
    body(float{});
}

void follow_sums(const Tensor& mean, const double* sums, double beta, double share) {
  in_type_of(mean, [&](auto real) {
    kernels::follow_sums(mean.mutable_data_ptr<decltype(real)>(), sums, mean.numel(), beta, share);
  });
}

}  // namespace

void follow_squares(const Tensor& second, const double* squares, double beta) {
  follow_sums(second, squares, beta, 1 - beta);
}

Factors::Factors(const Shard& shard, Partials& partials)
    : rows(at::zeros({shard.master.size(0)}, shard.master.options())),
      columns(at::zeros({shard.master.size(1)}, shard.master.options())),
      row_sums(partials.reserve(shard.cut(1), rows.numel())),
      column_sums(partials.reserve(shard.cut(0), columns.numel())),
      sum_of_rows(partials.reserve(shard.cut(), 1)) {}

// Σ rows after the step is β Σ rows + (1 − β) Σ x / columns: linear, so it needs no reduction of its own
// behind that of the row sums.
void Factors::add_sums(const Shard& shard, Partials& partials, const Tensor& x, double beta) const {
  const Tensor own_sums = x.sum(1, false, at::kDouble);
  partials[row_sums].add_(own_sums);
  partials[column_sums].add_(x.sum(0, false, at::kDouble));
  Tensor sum = own_sums.sum().mul((1 - beta) / static_cast<double>(shard.global_shape()[1]));
  if (shard.first_along(1)) sum.add_(rows.sum(at::kDouble), beta);
  partials[sum_of_rows].add_(sum);
}

void Factors::add_sums(const Shard& shard, const Partials& partials, const double* sums_of_rows,
                       const double* sums_of_columns, double beta) const {
  const auto add = [&](const Partials::Place& place, const double* numbers) {
    double* const to = partials.numbers(place);
    for (int64_t i = 0; i < place.count; ++i) to[i] += numbers[i];
  };
  add(row_sums, sums_of_rows);
  add(column_sums, sums_of_columns);
  double sum = kernels::followed_sum(sums_of_rows, rows.numel(),
                                     (1 - beta) / static_cast<double>(shard.global_shape()[1]));
  if (shard.first_along(1)) {
    in_type_of(rows, [&](auto real) {
      sum += kernels::kept_sum(rows.const_data_ptr<decltype(real)>(), rows.numel(), beta);
    });
  }
  add(sum_of_rows, &sum);
}

void Factors::average(const Shard& shard, const Partials& partials, double beta) {
  const double height = static_cast<double>(shard.global_shape()[0]),
               width = static_cast<double>(shard.global_shape()[1]);
  if (!rows.device().is_cpu()) {
    const auto follow = [&](const Tensor& mean, const Tensor& sums, double count) {
      mean.copy_(mean.to(at::kDouble).mul(beta).add(sums, (1 - beta) / count));
    };
    follow(rows, partials[row_sums], width);
    follow(columns, partials[column_sums], height);
    mean_of_rows = partials[sum_of_rows].div(height).to(rows.scalar_type());
    return;
  }
  follow_sums(rows, partials.numbers(row_sums), beta, (1 - beta) / width);
  follow_sums(columns, partials.numbers(column_sums), beta, (1 - beta) / height);
  const double mean = *partials.numbers(sum_of_rows) / height;
  if (!mean_of_rows.defined()) mean_of_rows = at::empty({}, rows.options());
  in_type_of(rows, [&](auto real) {
    *mean_of_rows.mutable_data_ptr<decltype(real)>() = static_cast<decltype(real)>(mean);
  });
}

Tensor Factors::divide(const Tensor& x) const {
  return x * (rows / mean_of_rows).rsqrt().unsqueeze(1) * columns.rsqrt().unsqueeze(0);
}

namespace {

// numbers / divisor, or one over its root.
template <class Real>
void prepare(const Tensor& numbers, double divisor, Divisors::Form form, Real* to) {
  kernels::prepare_divisors(numbers.const_data_ptr<Real>(), numbers.numel(), divisor,
                            form == Divisors::Form::kInverseRoots, to);
}

}  // namespace

template <class Real>
Real* Divisors::allocate(int64_t rows, int64_t columns) {
  rows_ = rows;
  numbers_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(rows + columns) * sizeof(Real));
  return static_cast<Real*>(static_cast<void*>(numbers_.get()));
}

Divisors::Divisors(const Factors& factors, Form form, double least_mean) {
  in_type_of(factors.rows, [&](auto real) {
    using Real = decltype(real);
    Real* const to = allocate<Real>(factors.rows.numel(), factors.columns.numel());
    const auto mean = static_cast<double>(*factors.mean_of_rows.const_data_ptr<Real>());
    prepare(factors.rows, std::max(least_mean, mean), form, to);
    prepare(factors.columns, 1, form, to + rows_);
  });
}

Divisors::Divisors(const Tensor& second, Form form) {
  in_type_of(second, [&](auto real) {
    using Real = decltype(real);
    Real* const to = allocate<Real>(1, second.numel());
    *to = 1;
    prepare(second, 1, form, to + 1);
  });
}

Divisors Divisors::ones(const Tensor& like) {
  Divisors result;
  in_type_of(like, [&](auto real) {
    using Real = decltype(real);
    std::fill_n(result.allocate<Real>(1, like.numel()), 1 + like.numel(), Real{1});
  });
  return result;
}

}  // namespace longhaul::optim
