#include "plan/scaling/scaling_law.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/error.h"

namespace longhaul::plan {
namespace {

[[noreturn]] void refuse_fit(std::string expected, std::string found) {
  throw Error({.code = ExitCode::kUsage,
               .what = "no scaling law can be fitted",
               .expected = std::move(expected),
               .found = std::move(found),
               .hint = "name runs of several sizes that have trained for some hundred steps"});
}

// Between two points of a curve, in the logarithms.
double between(double x, double x0, double x1, double y0, double y1) {
  const double share = (std::log(x) - std::log(x0)) / (std::log(x1) - std::log(x0));
  return std::exp(std::log(y0) + share * (std::log(y1) - std::log(y0)));
}

// The point of the curve at this compute; false: the curve does not reach it.
bool read_off(const LossCurve& curve, double compute, EnvelopePoint& point) {
  const auto& points = curve.points;
  if (points.size() < 2 || compute < points.front().compute || compute > points.back().compute) return false;
  auto after = std::ranges::lower_bound(points, compute, {}, &LossPoint::compute);
  if (after == points.begin()) ++after;
  const LossPoint &a = *(after - 1), &b = *after;
  point = {.compute = compute,
           .parameters = curve.parameters,
           .tokens = between(compute, a.compute, b.compute, a.tokens, b.tokens),
           .loss = between(compute, a.compute, b.compute, a.loss, b.loss)};
  return true;
}

}  // namespace

double PowerLaw::at(double x) const { return factor * std::pow(x, exponent); }

LossCurve smoothed(const LossCurve& curve, double window, double skip) {
  LossCurve result{.run = curve.run, .parameters = curve.parameters, .points = {}};
  if (curve.points.empty()) return result;
  const double first_tokens = skip * curve.points.back().tokens;
  size_t begin = 0;
  double sum = 0;
  for (size_t i = 0; i < curve.points.size(); ++i) {
    const LossPoint& point = curve.points[i];
    sum += point.loss;
    while (begin < i && std::log(curve.points[begin].compute) < std::log(point.compute) - window)
      sum -= curve.points[begin++].loss;
    if (begin == i) sum = point.loss;  // removes rounding errors of earlier points
    if (point.tokens < first_tokens || curve.points[begin].tokens < first_tokens) continue;
    // The window's mean is the loss at its middle.
    LossPoint middle = curve.points[begin + (i - begin) / 2];
    middle.loss = sum / static_cast<double>(i - begin + 1);
    if (result.points.empty() || middle.compute > result.points.back().compute)
      result.points.push_back(middle);
  }
  return result;
}

std::vector<EnvelopePoint> envelope(std::span<const LossCurve> curves, int64_t points) {
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (const LossCurve& curve : curves) {
    if (curve.points.size() < 2) continue;
    least = std::min(least, curve.points.front().compute);
    most = std::max(most, curve.points.back().compute);
  }
  if (!(most > least)) refuse_fit("at least one run with two losses", "none");
  std::vector<EnvelopePoint> result;
  for (int64_t i = 0; i < points; ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(points - 1);
    const double compute =
        std::clamp(std::exp(std::log(least) + share * (std::log(most) - std::log(least))), least, most);
    EnvelopePoint best, here;
    best.loss = std::numeric_limits<double>::infinity();
    for (size_t c = 0; c < curves.size(); ++c) {
      if (!read_off(curves[c], compute, here) || here.loss >= best.loss) continue;
      best = here;
      best.curve = c;
    }
    // A gap between runs, or a loss that a run with less compute has already reached, is not on the envelope.
    if (std::isfinite(best.loss) && (result.empty() || best.loss < result.back().loss))
      result.push_back(best);
  }
  return result;
}

PowerLaw fit_power_law(std::span<const double> x, std::span<const double> y) {
  LONGHAUL_ASSERT(x.size() == y.size(), "{} and {} numbers", x.size(), y.size());
  const auto n = static_cast<double>(x.size());
  double mean_x = 0, mean_y = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (!(x[i] > 0) || !(y[i] > 0) || !std::isfinite(x[i]) || !std::isfinite(y[i]))
      refuse_fit("numbers above 0", fmt::format("{} at {}", y[i], x[i]));
    mean_x += std::log(x[i]) / n;
    mean_y += std::log(y[i]) / n;
  }
  double xx = 0, xy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double dx = std::log(x[i]) - mean_x;
    xx += dx * dx;
    xy += dx * (std::log(y[i]) - mean_y);
  }
  if (x.size() < 2 || xx <= 1e-24 * n)
    refuse_fit("at least two points at different places", fmt::format("{} at one place", x.size()));
  PowerLaw law{.factor = 0, .exponent = xy / xx, .deviation = 0, .points = static_cast<int64_t>(x.size())};
  const double offset = mean_y - law.exponent * mean_x;
  law.factor = std::exp(offset);
  for (size_t i = 0; i < x.size(); ++i) {
    const double distance = std::log(y[i]) - offset - law.exponent * std::log(x[i]);
    law.deviation += distance * distance / n;
  }
  law.deviation = std::sqrt(law.deviation);
  return law;
}

ScalingLaws scaling_laws(std::span<const LossCurve> curves, int64_t points) {
  ScalingLaws laws{.envelope = envelope(curves, points)};
  std::vector<double> compute, loss, parameters, tokens;
  std::set<size_t> used;
  for (const EnvelopePoint& point : laws.envelope) {
    compute.push_back(point.compute / kPetaflopDay);
    loss.push_back(point.loss);
    parameters.push_back(point.parameters);
    tokens.push_back(point.tokens);
    used.insert(point.curve);
  }
  laws.runs_on_envelope = static_cast<int64_t>(used.size());
  laws.loss_of_compute = fit_power_law(compute, loss);
  laws.tokens_of_compute = fit_power_law(compute, tokens);
  laws.loss_of_tokens = fit_power_law(tokens, loss);
  const auto [fewest, most] = std::ranges::minmax(parameters);
  if (fewest == most) return laws;
  laws.parameters_of_compute = fit_power_law(compute, parameters);
  laws.loss_of_parameters = fit_power_law(parameters, loss);
  return laws;
}

}  // namespace longhaul::plan
