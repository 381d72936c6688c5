#include "detect/straggler/work_fit.h"

#include <cmath>

#include "base/error.h"
#include "base/statistics.h"

namespace longhaul::detect {
namespace {

constexpr size_t kColumns = 4;
using Columns = std::array<double, kColumns>;

Columns columns_of(const Work& work) { return {work.tokens, work.length_squares, work.expert_rows, 1}; }

// Least squares by the normal equations. Columns are scaled to 1 and taken one after the other, the largest
// remaining one first: a column that is, up to rounding, a sum of earlier ones keeps 0.
Columns least_squares(std::span<const WorkSample> samples, const std::vector<char>& taken) {
  Columns scale{}, right{}, factors{};
  std::array<Columns, kColumns> normal{};
  for (size_t i = 0; i < samples.size(); ++i) {
    const Columns row = columns_of(samples[i].work);
    for (size_t a = 0; a < kColumns; ++a) scale[a] += taken[i] ? row[a] * row[a] : 0;
  }
  for (double& each : scale) each = each > 0 ? 1 / std::sqrt(each) : 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    if (!taken[i]) continue;
    Columns row = columns_of(samples[i].work);
    for (size_t a = 0; a < kColumns; ++a) row[a] *= scale[a];
    for (size_t a = 0; a < kColumns; ++a) {
      right[a] += row[a] * samples[i].seconds;
      for (size_t b = 0; b < kColumns; ++b) normal[a][b] += row[a] * row[b];
    }
  }
  std::array<bool, kColumns> used{};
  for (size_t turn = 0; turn < kColumns; ++turn) {  // Gauss–Jordan on the diagonal
    size_t pivot = kColumns;
    for (size_t a = 0; a < kColumns; ++a) {
      if (!used[a] && normal[a][a] > 1e-6 && (pivot == kColumns || normal[a][a] > normal[pivot][pivot]))
        pivot = a;
    }
    if (pivot == kColumns) break;
    used[pivot] = true;
    for (size_t a = 0; a < kColumns; ++a) {
      if (a == pivot) continue;
      const double factor = normal[a][pivot] / normal[pivot][pivot];
      for (size_t b = 0; b < kColumns; ++b) normal[a][b] -= factor * normal[pivot][b];
      right[a] -= factor * right[pivot];
    }
  }
  for (size_t a = 0; a < kColumns; ++a) factors[a] = used[a] ? right[a] / normal[a][a] * scale[a] : 0;
  return factors;
}

}  // namespace

WorkFit::WorkFit(std::span<const WorkSample> samples) {
  LONGHAUL_ASSERT(!samples.empty(), "nothing to fit");
  std::vector<double> all;
  for (const WorkSample& each : samples) all.push_back(each.seconds);
  least_ = median(all) / 20;
  std::vector<char> taken(samples.size(), 1);
  for (int turn = 0; turn < 3; ++turn) {
    factors_ = least_squares(samples, taken);
    std::vector<double> ratios;
    for (const WorkSample& each : samples) ratios.push_back(each.seconds / seconds(each.work));
    const double middle = median(ratios), far = 3 * robust_deviation(ratios, middle) + 1e-9;
    for (size_t i = 0; i < samples.size(); ++i) taken[i] = std::abs(ratios[i] - middle) <= far;
  }
}

double WorkFit::seconds(const Work& work) const {
  const Columns row = columns_of(work);
  double sum = 0;
  for (size_t a = 0; a < kColumns; ++a) sum += factors_[a] * row[a];
  return std::max(sum, least_);
}

}  // namespace longhaul::detect
