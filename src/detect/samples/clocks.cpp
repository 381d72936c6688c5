#include "detect/samples/clocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text/text.h"
#include "detect/minder/trace.h"

namespace longhaul::detect {
namespace {

constexpr double kAlike = 0.5;  // correlation with the mean that a machine's metric must reach at some lag
// how much higher it must be than without a lag: three deviations of a correlation over 15 minutes
constexpr double kClearly = 0.05;

using Line = std::vector<double>;  // a value a second about its mean; 0 where there is no data

Line centred(Line values) {
  double sum = 0, count = 0;
  for (const double value : values) {
    if (!std::isnan(value)) sum += value, ++count;
  }
  for (double& value : values) value = std::isnan(value) || count == 0 ? 0 : value - sum / count;
  return values;
}

Line machine_line(const Pull& pull, size_t metric_at, int32_t machine) {
  Line line;
  for (int64_t s = 0; s < pull.seconds; ++s)
    line.push_back(static_cast<double>(pull.row(metric_at, s)[machine]));
  return centred(std::move(line));
}

Line mean_line(const Pull& pull, size_t metric_at, const std::vector<int32_t>& members) {
  Line line;
  for (int64_t s = 0; s < pull.seconds; ++s) {
    const float* row = pull.row(metric_at, s);
    double sum = 0, count = 0;
    for (const int32_t machine : members) {
      if (!std::isnan(row[machine])) sum += static_cast<double>(row[machine]), ++count;
    }
    line.push_back(count > 0 ? sum / count : std::numeric_limits<double>::quiet_NaN());
  }
  return centred(std::move(line));
}

// Correlation of line(t + lag) with mean(t).
double correlation(const Line& line, const Line& mean, int64_t lag) {
  const auto seconds = static_cast<int64_t>(line.size());
  double product = 0, own = 0, common = 0;
  for (int64_t t = std::max<int64_t>(0, -lag); t < std::min(seconds, seconds - lag); ++t) {
    const double x = line[static_cast<size_t>(t + lag)], y = mean[static_cast<size_t>(t)];
    product += x * y, own += x * x, common += y * y;
  }
  return own > 0 && common > 0 ? product / std::sqrt(own * common) : 0;
}

// The metric with the largest common part of the class's variance: over some of its machines, the mean
// correlation with the mean of all.
size_t common_metric(const Pull& pull, const std::vector<int32_t>& members) {
  size_t best = pull.metrics.size();
  double most = kAlike;
  const size_t every = std::max<size_t>(1, members.size() / 32);
  for (size_t m = 0; m < pull.metrics.size(); ++m) {
    const Line mean = mean_line(pull, m, members);
    double sum = 0, count = 0;
    for (size_t i = 0; i < members.size(); i += every)
      sum += correlation(machine_line(pull, m, members[i]), mean, 0), ++count;
    if (sum / count > most) most = sum / count, best = m;
  }
  return best;
}

}  // namespace

std::vector<ClockLag> clock_lags(const Pull& pull) {
  std::vector<ClockLag> lags;
  for (size_t peers = 0; peers < pull.classes.size(); ++peers) {
    std::vector<int32_t> members;
    for (size_t i = 0; i < pull.machines.size(); ++i) {
      if (pull.class_of[i] == static_cast<int32_t>(peers)) members.push_back(static_cast<int32_t>(i));
    }
    if (static_cast<int64_t>(members.size()) < kFewestPeers) continue;
    const size_t metric = common_metric(pull, members);
    if (metric == pull.metrics.size()) continue;
    const Line mean = mean_line(pull, metric, members);
    for (const int32_t machine : members) {
      const Line line = machine_line(pull, metric, machine);
      const double without = correlation(line, mean, 0);
      double best = without;
      int64_t lag = 0;
      for (int64_t distance = 1; distance <= kMostLag; ++distance) {
        for (const int64_t each : {distance, -distance}) {
          if (const double value = correlation(line, mean, each); value > best + 1e-3)
            best = value, lag = each;
        }
      }
      if (std::abs(lag) >= kLeastLag && best >= kAlike && best > without + kClearly)
        lags.push_back({machine, lag});
    }
  }
  return lags;
}

std::vector<std::string> move_clocks(Pull& pull, const std::vector<ClockLag>& lags) {
  std::vector<std::string> sentences;
  for (const ClockLag& each : lags) {
    for (size_t m = 0; m < pull.metrics.size(); ++m) {
      std::vector<float> moved;
      for (int64_t s = 0; s < pull.seconds; ++s) {
        const int64_t from = s + each.seconds;
        moved.push_back(from >= 0 && from < pull.seconds ? pull.row(m, from)[each.machine]
                                                         : std::numeric_limits<float>::quiet_NaN());
      }
      for (int64_t s = 0; s < pull.seconds; ++s) pull.row(m, s)[each.machine] = moved[static_cast<size_t>(s)];
    }
    sentences.push_back(
        fmt::format("the clock of {} is {} {} the others': its samples were moved; compare the clocks (NTP)",
                    printable(pull.machines[static_cast<size_t>(each.machine)]),
                    counted(std::abs(each.seconds), "second"), each.seconds > 0 ? "ahead of" : "behind"));
  }
  return sentences;
}

}  // namespace longhaul::detect
