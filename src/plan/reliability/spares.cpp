#include "plan/reliability/spares.h"

#include <cmath>

#include "base/error.h"

namespace longhaul::plan {

int64_t spares_needed(int64_t machines, double failure_probability, double confidence) {
  if (machines < 0 || !(failure_probability >= 0 && failure_probability < 1) ||
      !(confidence >= 0 && confidence < 1)) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "cannot count spares",
                 .expected = "machines, a probability of failure and a confidence, both from 0 to below 1",
                 .found = fmt::format("{}, {}, {}", machines, failure_probability, confidence)});
  }
  // The binomial's terms one from the other, by logarithms: (1 - p)^n may be too small for a double.
  const double n = static_cast<double>(machines);
  double below = 0;
  for (int64_t s = 0; s < machines; ++s) {
    const double k = static_cast<double>(s);
    const double ways = std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1);
    const double failing = s == 0 ? 0 : k * std::log(failure_probability);
    below += std::exp(ways + failing + (n - k) * std::log1p(-failure_probability));
    if (below >= confidence) return s;
  }
  return machines;
}

}  // namespace longhaul::plan
