// From what was read to what is compared. A Series is one metric as its source gave it: any times, machines in any order, NaN where there is no
// sample. A Pull is several metrics on one grid of seconds and one list of machines, brought to [0, 1].
//
// A missing sample takes the nearest in time, of the past or the future, if one is within fill_s; otherwise it stays NaN: "no data", which later
// stages leave out and report, and never count as zero. Values that no unit allows (5,000 % CPU) are refused by name and unit; capped metrics
// (PFC rates, power) are clamped and counted.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "detect/samples/metrics.h"

namespace longhaul::detect {

struct Series {
  size_t metric = 0;
  std::string where;  // a file or an address, for errors
  std::vector<std::string> machines;
  std::vector<double> times_s;  // increasing
  std::vector<float> values;    // [time][machine], in the metric's unit; NaN: missing
};

struct PullStatistics {
  int64_t filled = 0, without_data = 0, clamped = 0;  // values
};

// A machine that was not at work, by order of the run that it belongs to: that it sends nothing then is no sign.
struct Absence {
  int32_t machine = 0;
  double from_s = 0, until_s = 0;
};

// A profiling counter that stood at 0 while the GPUs of the machine were busy: no data (metrics.h).
struct DeadCounter {
  int32_t machine = 0;
  size_t metric = 0;
  int64_t seconds = 0;  // in which it stood
};

struct Pull {
  std::vector<size_t> metrics;        // indices into metrics(), those that have a Series
  std::vector<size_t> missing;        // asked for, without a Series
  std::vector<std::string> machines;  // sorted by name
  std::vector<int32_t> class_of;      // peers are compared within a class only; all 0 unless said otherwise
  std::vector<std::string> classes;   // their names
  double first_s = 0;
  int64_t seconds = 0;
  std::vector<float> values;  // [metric][second][machine] in [0, 1], or NaN
  PullStatistics statistics;
  std::vector<Absence> absences;
  std::vector<DeadCounter> dead_counters;

  int64_t count() const { return static_cast<int64_t>(machines.size()); }
  const float* row(size_t metric_at, int64_t second) const {
    return values.data() + (static_cast<int64_t>(metric_at) * seconds + second) * count();
  }
  float* row(size_t metric_at, int64_t second) { return values.data() + (static_cast<int64_t>(metric_at) * seconds + second) * count(); }
  bool absent(int32_t machine, double time_s) const;
  Pull part(int64_t from_second, int64_t length) const;
};

struct AlignOptions {
  double fill_s = 8;  // at least twice the usual distance of samples is always allowed
  std::vector<Limits> limits = limits_with({});
};

// From the first second of any metric to the last: one that comes late has no data there. Error (65) when two do not overlap, naming both ranges, or when a metric was read twice. Metrics that are
// asked for and have no series are listed as missing; all missing is an error.
Pull aligned(const std::vector<Series>& series, const std::vector<size_t>& wanted, const AlignOptions& options);

// Missing samples of a pull that is on the grid already: the nearest in time within fill_s.
void fill_gaps(Pull& pull, double fill_s = AlignOptions{}.fill_s);

// A metric of one machine that ends before the pull does.
struct Silence {
  int32_t machine = 0;
  size_t metric = 0;
  double since_s = 0;
};
// Of every machine and metric, at least `shortest_s` long, while more than half of the others still report; not of those that are absent.
std::vector<Silence> silences(const Pull& pull, double shortest_s);

// Metrics whose values never change on any machine: they can tell nothing, and that is said.
std::vector<size_t> constant_metrics(const Pull& pull);

}  // namespace longhaul::detect
