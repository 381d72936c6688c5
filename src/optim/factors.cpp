#include "optim/factors.h"

namespace longhaul::optim {

Factors::Factors(const Shard& shard, Partials& partials)
    : rows(at::zeros({shard.master.size(0)}, shard.master.options())),
      columns(at::zeros({shard.master.size(1)}, shard.master.options())),
      row_sums(partials.reserve(shard.cut(1), rows.numel())),
      column_sums(partials.reserve(shard.cut(0), columns.numel())),
      sum_of_rows(partials.reserve(shard.cut(), 1)) {}

// Σ rows after the step is β Σ rows + (1 − β) Σ x / columns: linear, so it needs no reduction of its own behind that of the row sums.
void Factors::add_sums(const Shard& shard, Partials& partials, const Tensor& x, double beta) const {
  const Tensor own_sums = x.sum(1, false, at::kDouble);
  partials[row_sums].add_(own_sums);
  partials[column_sums].add_(x.sum(0, false, at::kDouble));
  Tensor sum = own_sums.sum().mul((1 - beta) / static_cast<double>(shard.global_shape()[1]));
  if (shard.first_along(1)) sum.add_(rows.sum(at::kDouble), beta);
  partials[sum_of_rows].add_(sum);
}

void Factors::average(const Shard& shard, const Partials& partials, double beta) {
  const double height = static_cast<double>(shard.global_shape()[0]), width = static_cast<double>(shard.global_shape()[1]);
  const auto follow = [&](const Tensor& mean, const Tensor& sums, double count) {
    mean.copy_(mean.to(at::kDouble).mul(beta).add(sums, (1 - beta) / count));
  };
  follow(rows, partials[row_sums], width);
  follow(columns, partials[column_sums], height);
  mean_of_rows = partials[sum_of_rows].div(height).to(rows.scalar_type());
}

Tensor Factors::divide(const Tensor& x) const { return x * (rows / mean_of_rows).rsqrt().unsqueeze(1) * columns.rsqrt().unsqueeze(0); }

}  // namespace longhaul::optim
