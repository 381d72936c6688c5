#include "detect/samples/samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "base/text/text.h"
#include "base/threads/parallel.h"

namespace longhaul::detect {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
// Of the range: by how much the reading of a percentage may exceed its limits.
constexpr double kBeyond = 0.05;

double usual_distance(const std::vector<double>& times) {
  std::vector<double> distances;
  for (size_t i = 1; i < times.size(); ++i) distances.push_back(times[i] - times[i - 1]);
  if (distances.empty()) return 1;
  std::nth_element(distances.begin(), distances.begin() + static_cast<std::ptrdiff_t>(distances.size() / 2),
                   distances.end());
  return distances[distances.size() / 2];
}

void require_times(const Series& series) {
  for (size_t i = 0; i < series.times_s.size(); ++i) {
    if (std::isfinite(series.times_s[i]) && (i == 0 || series.times_s[i] > series.times_s[i - 1])) continue;
    throw Error({.code = ExitCode::kData,
                 .what = "the times of a metric do not increase",
                 .expected = "seconds, each later than the one before",
                 .found = i == 0 ? fmt::format("{}", series.times_s[i])
                                 : fmt::format("{} after {}", series.times_s[i], series.times_s[i - 1]),
                 .where = series.where});
  }
}

[[noreturn]] void refuse(const Series& series, float value, size_t time, size_t machine,
                         const Limits& limits) {
  const Metric& metric = metrics()[series.metric];
  throw Error({.code = ExitCode::kData,
               .what = fmt::format("{} has a value that its unit does not allow", metric.name),
               .expected = fmt::format("{:g} to {:g} {}", limits.low, limits.high, metric.unit),
               .found = fmt::format("{:g} {} on {} at second {:.0f}", value, metric.unit,
                                    printable(series.machines[machine]), series.times_s[time]),
               .where = series.where,
               .hint = fmt::format("bring it to {}, or give its limits: --limit {}=LOW:HIGH", metric.unit,
                                   metric.name)});
}

// To [0, 1]; NaN stays.
float normalised(const Series& series, size_t time, size_t machine, const Limits& limits, int64_t& clamped) {
  const float value = series.values[time * series.machines.size() + machine];
  if (std::isnan(value)) return kNaN;
  const double share = (value - limits.low) / (limits.high - limits.low);
  if (!std::isfinite(value) ||
      (!metrics()[series.metric].capped && (share < -kBeyond || share > 1 + kBeyond)))
    refuse(series, value, time, machine, limits);
  if (share < 0 || share > 1) ++clamped;
  return static_cast<float>(std::clamp(share, 0.0, 1.0));
}

struct Grid {
  double first_s = 0;
  int64_t seconds = 0;
};

// From the first sample of any metric to the last; all must have a common time.
Grid common_seconds(const std::vector<const Series*>& chosen) {
  const Series *latest = chosen.front(), *earliest = latest;
  double first = latest->times_s.front(), last = latest->times_s.back();
  for (const Series* series : chosen) {
    if (series->times_s.front() > latest->times_s.front()) latest = series;
    if (series->times_s.back() < earliest->times_s.back()) earliest = series;
    first = std::min(first, series->times_s.front()), last = std::max(last, series->times_s.back());
  }
  if (std::round(earliest->times_s.back()) < std::round(latest->times_s.front())) {
    throw Error({.code = ExitCode::kData,
                 .what = "the metrics were not measured at the same time",
                 .expected = "times that overlap",
                 .found = fmt::format("{} ends at second {:.0f}, {} begins at {:.0f}",
                                      metrics()[earliest->metric].name, earliest->times_s.back(),
                                      metrics()[latest->metric].name, latest->times_s.front()),
                 .where = fmt::format("{} and {}", earliest->where, latest->where),
                 .hint = "compare the clocks of their sources"});
  }
  first = std::round(first), last = std::round(last);
  if (last - first > 7 * 86400) {
    throw Error({.code = ExitCode::kData,
                 .what = "the metrics cover more than a week",
                 .expected = "seconds in the column time (Unix time, or any other origin)",
                 .found = fmt::format("{:.0f} to {:.0f}", first, last),
                 .where = latest->where});
  }
  return {first, static_cast<int64_t>(last - first) + 1};
}

// Puts one metric of one machine onto the grid.
void fill_machine(const Series& series, size_t machine, const Limits& limits, double fill_s, const Grid& grid,
                  int64_t stride, float* into, PullStatistics& statistics) {
  const size_t times = series.times_s.size();
  std::vector<double> known;
  std::vector<float> values;
  for (size_t t = 0; t < times; ++t) {
    const float value = normalised(series, t, machine, limits, statistics.clamped);
    if (std::isnan(value)) continue;
    known.push_back(series.times_s[t]);
    values.push_back(value);
  }
  size_t next = 0;  // the first sample at or after the second
  for (int64_t s = 0; s < grid.seconds; ++s) {
    const double time = grid.first_s + static_cast<double>(s);
    while (next < known.size() && known[next] < time) ++next;
    double best = std::numeric_limits<double>::infinity();
    float value = kNaN;
    if (next > 0) best = time - known[next - 1], value = values[next - 1];
    if (next < known.size() && known[next] - time < best) best = known[next] - time, value = values[next];
    if (best > fill_s)
      value = kNaN, ++statistics.without_data;
    else if (best > 0.5)
      ++statistics.filled;
    into[s * stride] = value;
  }
}

// Values of profiling counters that are 0 in seconds in which the duty cycle is at its limit become "no
// data".
void forget_dead_counters(Pull& pull) {
  constexpr float kBusy = 0.99f;
  const auto place = [&](size_t metric) {
    return std::find(pull.metrics.begin(), pull.metrics.end(), metric) - pull.metrics.begin();
  };
  const auto duty = static_cast<size_t>(place(metric_named("gpu_duty_cycle", "")));
  if (duty == pull.metrics.size()) return;
  for (size_t m = 0; m < pull.metrics.size(); ++m) {
    if (!is_profiling(pull.metrics[m])) continue;
    for (int64_t i = 0; i < pull.count(); ++i) {
      int64_t dead = 0;
      for (int64_t s = 0; s < pull.seconds; ++s) {
        if (pull.row(m, s)[i] != 0 || !(pull.row(duty, s)[i] >= kBusy)) continue;
        pull.row(m, s)[i] = kNaN, ++dead;
      }
      if (dead > 0) pull.dead_counters.push_back({static_cast<int32_t>(i), pull.metrics[m], dead});
      pull.statistics.without_data += dead;
    }
  }
}

}  // namespace

bool Pull::absent(int32_t machine, double time_s) const {
  return std::any_of(absences.begin(), absences.end(), [&](const Absence& each) {
    return each.machine == machine && each.from_s <= time_s && time_s < each.until_s;
  });
}

Pull Pull::part(int64_t from_second, int64_t length) const {
  Pull result;
  result.metrics = metrics, result.missing = missing, result.machines = machines, result.class_of = class_of,
  result.classes = classes;
  result.first_s = first_s + static_cast<double>(from_second), result.seconds = length,
  result.statistics = statistics;
  result.absences = absences, result.dead_counters = dead_counters;
  result.values.reserve(metrics.size() * static_cast<size_t>(length * count()));
  for (size_t m = 0; m < metrics.size(); ++m) {
    const float* begin = row(m, from_second);
    result.values.insert(result.values.end(), begin, begin + length * count());
  }
  return result;
}

Pull aligned(const std::vector<Series>& series, const std::vector<size_t>& wanted,
             const AlignOptions& options) {
  Pull pull;
  std::vector<const Series*> chosen;
  std::set<std::string> names;
  for (const size_t metric : wanted) {
    const Series* found = nullptr;
    for (const Series& each : series) {
      if (each.metric != metric || each.times_s.empty() || each.machines.empty()) continue;
      if (found != nullptr)
        throw Error({.code = ExitCode::kData,
                     .what = "a metric was read twice",
                     .found = found->where,
                     .where = each.where});
      found = &each;
    }
    if (found == nullptr) {
      pull.missing.push_back(metric);
      continue;
    }
    require_times(*found);
    pull.metrics.push_back(metric);
    chosen.push_back(found);
    names.insert(found->machines.begin(), found->machines.end());
  }
  if (chosen.empty()) {
    throw Error({.code = ExitCode::kData,
                 .what = "none of the metrics has samples",
                 .expected = fmt::format("at least one of {}", metrics()[wanted.front()].name),
                 .found = series.empty() ? "no metric at all" : "metrics without times or machines"});
  }
  pull.machines.assign(names.begin(), names.end());
  pull.class_of.assign(pull.machines.size(), 0);
  pull.classes = {"all"};
  const Grid grid = common_seconds(chosen);
  pull.first_s = grid.first_s, pull.seconds = grid.seconds;
  pull.values.assign(chosen.size() * static_cast<size_t>(grid.seconds * pull.count()), kNaN);
  for (size_t m = 0; m < chosen.size(); ++m) {
    const Series& from = *chosen[m];
    const double fill_s = std::max(options.fill_s, 2 * usual_distance(from.times_s));
    std::vector<bool> has(pull.machines.size(), false);
    for (size_t machine = 0; machine < from.machines.size(); ++machine) {
      const auto at = std::lower_bound(pull.machines.begin(), pull.machines.end(), from.machines[machine]) -
                      pull.machines.begin();
      if (has[static_cast<size_t>(at)])
        throw Error({.code = ExitCode::kData,
                     .what = "a machine stands twice in a metric",
                     .found = printable(from.machines[machine]),
                     .where = from.where});
      has[static_cast<size_t>(at)] = true;
      fill_machine(from, machine, options.limits[from.metric], fill_s, grid, pull.count(),
                   pull.row(m, 0) + at, pull.statistics);
    }
    pull.statistics.without_data += grid.seconds * std::count(has.begin(), has.end(), false);
  }
  forget_dead_counters(pull);
  return pull;
}

void fill_gaps(Pull& pull, double fill_s) {
  const int64_t n = pull.count(), reach = static_cast<int64_t>(fill_s);
  std::vector<float> before(static_cast<size_t>(pull.seconds));
  for (size_t m = 0; m < pull.metrics.size(); ++m) {
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t s = 0; s < pull.seconds; ++s) before[static_cast<size_t>(s)] = pull.row(m, s)[i];
      for (int64_t s = 0; s < pull.seconds; ++s) {
        float& value = pull.row(m, s)[i];
        for (int64_t d = 1; d <= reach && std::isnan(value); ++d) {
          if (s >= d) value = before[static_cast<size_t>(s - d)];
          if (std::isnan(value) && s + d < pull.seconds) value = before[static_cast<size_t>(s + d)];
        }
        if (std::isnan(value))
          ++pull.statistics.without_data;
        else if (std::isnan(before[static_cast<size_t>(s)]))
          ++pull.statistics.filled;
      }
    }
  }
}

std::vector<Silence> silences(const Pull& pull, double shortest_s) {
  std::vector<Silence> found;
  const int64_t n = pull.count();
  for (size_t m = 0; m < pull.metrics.size(); ++m) {
    const float* last = pull.row(m, pull.seconds - 1);
    const int64_t reporting = std::count_if(last, last + n, [](float value) { return !std::isnan(value); });
    if (2 * reporting <= n) continue;
    for (int64_t i = 0; i < n; ++i) {
      int64_t since = pull.seconds;
      while (since > 0 && std::isnan(pull.row(m, since - 1)[i])) --since;
      if (static_cast<double>(pull.seconds - since) < shortest_s) continue;
      if (pull.absent(static_cast<int32_t>(i), pull.first_s + static_cast<double>(pull.seconds - 1)))
        continue;
      found.push_back({static_cast<int32_t>(i), pull.metrics[m], pull.first_s + static_cast<double>(since)});
    }
  }
  return found;
}

std::vector<size_t> constant_metrics(const Pull& pull) {
  std::vector<size_t> found;
  for (size_t m = 0; m < pull.metrics.size(); ++m) {
    const float* begin = pull.row(m, 0);
    const float* end = begin + pull.seconds * pull.count();
    float low = std::numeric_limits<float>::infinity(), high = -low;
    for (const float* value = begin; value != end; ++value) {
      if (!std::isnan(*value)) low = std::min(low, *value), high = std::max(high, *value);
    }
    if (low == high) found.push_back(pull.metrics[m]);
  }
  return found;
}

}  // namespace longhaul::detect
