#include "model/rotary.h"

#include <cmath>

#include "base/parallel.h"

namespace longhaul::model {

RotaryTable rotary_table(std::span<const int64_t> positions, int64_t dim, double base, ScalarType type) {
  const int64_t tokens = static_cast<int64_t>(positions.size()), pairs = dim / 2;
  Tensor angles = at::empty({tokens, 1, pairs}, at::kDouble);
  double* out = angles.mutable_data_ptr<double>();
  std::vector<double> frequency(static_cast<size_t>(pairs));
  for (int64_t j = 0; j < pairs; ++j) {
    frequency[static_cast<size_t>(j)] = std::pow(base, -2.0 * static_cast<double>(j) / static_cast<double>(dim));
  }
  parallel_for(0, tokens, 256, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t j = 0; j < pairs; ++j) {
        out[t * pairs + j] = static_cast<double>(positions[static_cast<size_t>(t)]) * frequency[static_cast<size_t>(j)];
      }
    }
  });
  return {angles.cos().to(type), angles.sin().to(type)};
}

Tensor apply_rotary(const Tensor& x, const RotaryTable& table) {
  const int64_t pairs = table.cos_t1r.size(2);
  if (pairs == 0) return x;
  const Tensor wide = x.to(table.cos_t1r.scalar_type());
  const Tensor first = wide.narrow(2, 0, pairs), second = wide.narrow(2, pairs, pairs);
  const Tensor rest = wide.narrow(2, 2 * pairs, wide.size(2) - 2 * pairs);
  return at::cat({first * table.cos_t1r - second * table.sin_t1r, second * table.cos_t1r + first * table.sin_t1r, rest}, 2)
      .to(x.scalar_type());
}

}  // namespace longhaul::model
