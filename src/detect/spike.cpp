#include "detect/spike.h"

#include <fmt/format.h>

#include <cmath>

#include "base/statistics.h"

namespace longhaul::detect {
namespace {

constexpr double kDeviations = 6, kLeastRise = 0.05, kTimesMedian = 5, kTimesFirst = 10;

void keep(std::vector<double>& window, double value) {
  if (window.size() == SpikeWatch::kWindow) window.erase(window.begin());
  window.push_back(value);
}

}  // namespace

std::optional<Spike> SpikeWatch::judge(double loss, double gradient_norm) const {
  if (!std::isfinite(loss) || !std::isfinite(gradient_norm)) {
    return Spike{.text = fmt::format("the loss is {}, the gradient norm {}", loss, gradient_norm),
                 .finite = false};
  }
  if (state_.losses.size() < kLeast) return std::nullopt;
  const double middle = median(state_.losses);
  const bool first_over = state_.steps >= static_cast<int64_t>(kFirst);
  double limit = middle + kDeviations * robust_deviation(state_.losses, middle);
  if (middle > 0) limit = std::min(limit, kTimesMedian * middle);
  if (first_over && state_.first_most > 0) limit = std::min(limit, kTimesFirst * state_.first_most);
  limit = std::max(limit, middle + kLeastRise * std::abs(state_.first_most));
  if (loss > limit) {
    return Spike{
        .text = fmt::format("the loss is {:.4g}, the median of the last {} steps {:.4g}, the limit {:.4g}",
                            loss, state_.losses.size(), middle, limit)};
  }
  const double norms = median(state_.norms), most = std::max(kTimesMedian * norms, state_.first_norm);
  if (first_over && gradient_norm > most && norms > 0) {
    return Spike{.text = fmt::format(
                     "the gradient norm is {:.4g}, the median of the last {} steps {:.4g}, the limit {:.4g}",
                     gradient_norm, state_.norms.size(), norms, most)};
  }
  return std::nullopt;
}

void SpikeWatch::add(double loss, double gradient_norm) {
  keep(state_.losses, loss);
  keep(state_.norms, gradient_norm);
  if (state_.steps < static_cast<int64_t>(kFirst)) {
    state_.first_most = std::max(state_.first_most, loss);
    state_.first_norm = std::max(state_.first_norm, gradient_norm);
  }
  ++state_.steps;
}

}  // namespace longhaul::detect
