#include "plan/footprint/carbon_hours.h"

#include <cmath>

#include "base/error.h"
#include "plan/footprint/named_rows.h"

namespace longhaul::plan {

CarbonHours CarbonHours::read(std::string_view text, const std::string& name) {
  std::array<double, 24> values{};
  std::array<bool, 24> seen{};
  for (const NamedRow& row : read_named_rows(text, name, {"hour", "g_per_kwh"})) {
    const double hour = row.number("hour", "hours", 0, 23);
    const auto index = static_cast<size_t>(hour);
    if (hour != std::floor(hour) || seen[index]) row.fail("hour", "a whole hour from 0 to 23, each once");
    seen[index] = true;
    values[index] = row.number("g_per_kwh", "g CO2e per kWh", 0, 5000);
  }
  for (size_t hour = 0; hour < seen.size(); ++hour) {
    if (seen[hour]) continue;
    throw Error({.code = ExitCode::kUsage,
                 .what = "the day has a gap",
                 .expected = "the hours 0 to 23, each once",
                 .found = fmt::format("no hour {}", hour),
                 .where = name});
  }
  return CarbonHours(values);
}

double CarbonHours::at(double hour) const {
  const double of_day = hour - 24 * std::floor(hour / 24);
  return g_per_kwh_[std::min<size_t>(static_cast<size_t>(of_day), 23)];
}

double CarbonHours::mean(double start_hour, double hours) const {
  if (hours <= 0) return at(start_hour);
  double day = 0;
  for (const double value : g_per_kwh_) day += value;
  const double whole_days = std::floor(hours / 24);
  double sum = whole_days * day;
  double from = start_hour;
  const double end = start_hour + hours - 24 * whole_days;
  while (from < end) {
    const double to = std::min(end, std::floor(from) + 1);
    sum += at(from) * (to - from);
    from = to;
  }
  return sum / hours;
}

double CarbonHours::best_start(double hours) const {
  double best = 0;
  for (int hour = 1; hour < 24; ++hour) {
    if (mean(hour, hours) < mean(best, hours)) best = hour;
  }
  return best;
}

}  // namespace longhaul::plan
