#include "detect/straggler/step_change.h"

#include "base/statistics.h"

namespace longhaul::detect {
namespace {

constexpr size_t kSmooth = 5;

double median_of(std::span<const double> values) { return median({values.begin(), values.end()}); }

// The best level of the steps before `at`, and how far steps deviate from it by noise.
struct Baseline {
  double seconds = 0, noise = 0, slow = 0;  // slow: a tenth of its steps is slower
};
Baseline best_before(std::span<const double> step_s, size_t at, const StepChangeOptions& options) {
  const size_t from =
      at > static_cast<size_t>(options.baseline) ? at - static_cast<size_t>(options.baseline) : 0;
  Baseline best{.seconds = median_of(step_s.subspan(from, kSmooth))};
  for (size_t i = from; i + kSmooth <= at; ++i)
    best.seconds = std::min(best.seconds, median_of(step_s.subspan(i, kSmooth)));
  const auto window = step_s.subspan(from, at - from);
  best.noise = robust_deviation({window.begin(), window.end()}, median_of(window));
  std::vector<double> sorted(window.begin(), window.end());
  std::ranges::sort(sorted);
  best.slow = sorted[sorted.size() * 9 / 10];
  return best;
}

}  // namespace

std::optional<StepChange> step_change(std::span<const double> step_s, const StepChangeOptions& options) {
  const auto verified = static_cast<size_t>(options.verified);
  std::optional<StepChange> change;
  double limit = 0;
  for (size_t at = 4 * kSmooth; at + verified <= step_s.size(); ++at) {
    const auto next = step_s.subspan(at, verified);
    if (change) {  // over again?
      if (median_of(next) <= limit) change.reset();
      continue;
    }
    const Baseline best = best_before(step_s, at, options);
    limit = best.seconds + std::max(options.more * best.seconds, 4 * best.noise);
    bool all = true;
    for (const double seconds : next) all = all && seconds > limit;
    all = all && median_of(next) > best.slow;
    if (all) change = StepChange{.at = at, .before_s = best.seconds, .after_s = 0, .blocked = false};
  }
  if (!change) return std::nullopt;
  change->after_s = median_of(step_s.subspan(change->at));
  change->blocked = change->after_s > options.blocked * change->before_s;
  return change;
}

}  // namespace longhaul::detect
