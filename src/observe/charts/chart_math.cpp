// The arithmetic of charts: thinning, smoothing and ticks.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "base/statistics.h"
#include "observe/charts/chart.h"
#include "observe/format.h"

namespace longhaul::observe {

std::vector<Point> thinned(std::span<const Point> points, size_t buckets) {
  if (points.size() <= 2 * buckets) return {points.begin(), points.end()};
  std::vector<Point> kept;
  for (size_t b = 0; b < buckets; ++b) {
    const size_t begin = b * points.size() / buckets, end = (b + 1) * points.size() / buckets;
    const Point *least = nullptr, *greatest = nullptr;
    for (size_t i = begin; i < end; ++i) {
      if (!std::isfinite(points[i].y)) continue;
      if (least == nullptr || points[i].y < least->y) least = &points[i];
      if (greatest == nullptr || points[i].y > greatest->y) greatest = &points[i];
    }
    if (least == nullptr) {
      kept.push_back(points[begin]);  // nothing finite: the line breaks here
      continue;
    }
    kept.push_back(*std::min(least, greatest));
    if (least != greatest) kept.push_back(*std::max(least, greatest));
  }
  if (kept.back().x != points.back().x) kept.push_back(points.back());
  return kept;
}

namespace {

// Calls value(position, begin, end) for up to 1,000 evenly spread points with the window around each. At the
// beginning, where curves are steep, it is cut equally on both sides; at the end it looks back only, so that
// the last value is a mean too.
template <class Value>
std::vector<Point> over_windows(const std::vector<Point>& finite, double window, Value value) {
  constexpr size_t kPositions = 1000;
  std::vector<Point> result;
  const size_t count = std::min(finite.size(), kPositions),
               half_most = static_cast<size_t>(std::max(0.0, window / 2));
  for (size_t i = 0; i < count; ++i) {
    const size_t at = count == 1 ? 0 : i * (finite.size() - 1) / (count - 1);
    const size_t before = std::min(half_most, at), after = std::min({half_most, at, finite.size() - 1 - at});
    result.push_back({finite[at].x, value(at - before, at + after + 1)});
  }
  return result;
}

std::vector<Point> finite_only(std::span<const Point> points) {
  std::vector<Point> finite;
  std::copy_if(points.begin(), points.end(), std::back_inserter(finite),
               [](const Point& p) { return std::isfinite(p.y); });
  return finite;
}

}  // namespace

std::vector<Point> smoothed(std::span<const Point> points, double window) {
  const auto finite = finite_only(points);
  std::vector<double> sums = {0};
  for (const Point& p : finite) sums.push_back(sums.back() + p.y);
  return over_windows(finite, window, [&](size_t begin, size_t end) {
    return (sums[end] - sums[begin]) / static_cast<double>(end - begin);
  });
}

std::vector<Point> running_median(std::span<const Point> points, double window) {
  const auto finite = finite_only(points);
  return over_windows(finite, window, [&](size_t begin, size_t end) {
    std::vector<double> values;
    for (size_t i = begin; i < end; ++i) values.push_back(finite[i].y);
    return median(std::move(values));
  });
}

std::vector<double> linear_ticks(double low, double high, int count) {
  if (!(high > low) || count < 1) return {low};
  const double raw = (high - low) / count;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  const double lead = raw / power;
  const double step = (lead < 1.5 ? 1 : lead < 3.5 ? 2 : lead < 7.5 ? 5 : 10) * power;
  std::vector<double> ticks;
  for (double i = std::ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i)
    ticks.push_back(i * step);
  return ticks;
}

std::vector<double> log_ticks(double low, double high) {
  std::vector<double> ticks;
  const double decades = std::log10(high / low);
  for (double power = std::pow(10, std::floor(std::log10(low))); power <= high; power *= 10) {
    for (const double lead : {1.0, 2.0, 5.0}) {
      const double tick = lead * power;
      if (lead != 1 && decades > 3) continue;
      if (tick >= low * (1 - 1e-9) && tick <= high * (1 + 1e-9)) ticks.push_back(tick);
    }
  }
  return ticks;
}

std::string tick_text(double value, double step) {
  const double size = std::max(std::abs(value), std::abs(step));
  if (value == 0) return "0";
  if (size >= 1000) {
    const int thousands = std::min(4, static_cast<int>(std::log10(std::abs(value)) / 3 + 1e-9));
    static constexpr std::array<const char*, 5> kUnits = {"", " k", " M", " G", " T"};
    return fmt::format("{:g}{}", value / std::pow(1000, thousands), kUnits[static_cast<size_t>(thousands)]);
  }
  if (size < 1e-3) return fmt::format("{:.0e}", value);
  const int decimals = std::clamp(static_cast<int>(-std::floor(std::log10(std::abs(step)) + 1e-9)), 0, 6);
  return fixed(value, decimals);
}

std::string html_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '\n':
      case '\t':
        out += c;
        break;
      default:
        static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? out += "\xef\xbf\xbd" : out += c;
    }
  }
  return out;
}

}  // namespace longhaul::observe
