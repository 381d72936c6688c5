#include "base/clock.h"

#include <fmt/format.h>

#include <cmath>
#include <ctime>

namespace longhaul {

int64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

double wall_time_s() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

std::string wall_time_text(double unix_s) {
  const auto whole = static_cast<time_t>(std::floor(unix_s));
  tm parts{};
  gmtime_r(&whole, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds)) return "unknown";
  if (seconds < 0) return "-" + duration_text(-seconds);
  // Each limit is where the text before it would round up to its own full unit.
  if (seconds < 0.9995) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  if (seconds > 1e15) return fmt::format("{:.3g} s", seconds);
  const auto whole_s = static_cast<int64_t>(std::llround(seconds));
  if (whole_s < 3600) return fmt::format("{} min {:02} s", whole_s / 60, whole_s % 60);
  const int64_t whole_min = (whole_s + 30) / 60;
  return fmt::format("{} h {:02} min", whole_min / 60, whole_min % 60);
}

}  // namespace longhaul
