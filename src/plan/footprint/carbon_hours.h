// CarbonHours: the carbon intensity of a grid over the hours of a day (UTC), in steps of an hour. A training
// has the mean over the hours in which it runs; a short one may choose its starting hour.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "plan/footprint/tables.h"

namespace longhaul::plan {

class CarbonHours {
 public:
  // Reads CSV with the columns hour (0 to 23, each once) and g_per_kwh; kUsage naming the line otherwise.
  static CarbonHours read(std::string_view text, const std::string& name);
  explicit CarbonHours(const std::array<double, 24>& g_per_kwh) : g_per_kwh_(g_per_kwh) {}

  double at(double hour) const;  // any hour, counted from any midnight
  // The exact mean over [start, start + hours); hours 0: at(start).
  double mean(double start_hour, double hours) const;
  double best_start(double hours) const;  // the whole hour of the start with the lowest mean

 private:
  std::array<double, 24> g_per_kwh_;
};

}  // namespace longhaul::plan
