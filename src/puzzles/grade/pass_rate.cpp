#include "puzzles/grade/pass_rate.h"

#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"

namespace longhaul::puzzles {

double pass_at_k(int64_t answers, int64_t accepted, int64_t k) {
  LONGHAUL_ASSERT(k >= 1 && k <= answers && accepted >= 0 && accepted <= answers, "k {} of {}, {} accepted",
                  k, answers, accepted);
  if (answers - accepted < k) return 1;
  // C(n - c, k) / C(n, k) = the product of 1 - c / i for i from n - c + 1 to n, without large numbers.
  double none = 1;
  for (int64_t i = answers - accepted + 1; i <= answers; ++i)
    none *= 1 - static_cast<double>(k) / static_cast<double>(i);
  return 1 - none;
}

Estimate mean_of(std::span<const double> values) {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  if (values.empty()) return {kUnknown, kUnknown};
  const auto count = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  const double mean = sum / count;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean, values.size() < 2 ? kUnknown : std::sqrt(squares / (count - 1) / count)};
}

Estimate average(std::span<const Tried> problems) {
  std::vector<double> shares;
  for (const Tried& problem : problems)
    shares.push_back(static_cast<double>(problem.accepted) / static_cast<double>(problem.answers));
  return mean_of(shares);
}

Estimate pass_at_k(std::span<const Tried> problems, int64_t k) {
  std::vector<double> chances;
  for (const Tried& problem : problems) chances.push_back(pass_at_k(problem.answers, problem.accepted, k));
  return mean_of(chances);
}

}  // namespace longhaul::puzzles
