// The step from raw samples to compared ones. A Series is one metric as its source gave it: any times,
// machines in any order, NaN where there is no sample. A Pull is several metrics on one grid of seconds and
// one list of machines, scaled to [0, 1].
//
// A missing sample takes the nearest in time, earlier or later, if one is within fill_s. Otherwise it stays
// NaN: "no data", which later stages leave out and report, and never count as zero. Values that no unit
// allows (5,000 % CPU) are refused with name and unit; capped metrics (PFC rates, power) are clamped and
// counted.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "detect/samples/metrics.h"

namespace longhaul::detect {

struct Series {
  size_t metric = 0;
  std::string where;  // a file or an address, for error messages
  std::vector<std::string> machines;
  std::vector<double> times_s;  // increasing
  std::vector<float> values;    // [time][machine], in the metric's unit; NaN: missing
};

struct PullStatistics {
  int64_t filled = 0, without_data = 0, clamped = 0;  // numbers of values
};

// Absence: a time in which the run itself had stopped the machine's work, so that missing samples mean
// nothing.
struct Absence {
  int32_t machine = 0;
  double from_s = 0, until_s = 0;
};

// DeadCounter: a profiling counter that stood at 0 while the GPUs of the machine were busy; it counts as no
// data (metrics.h).
struct DeadCounter {
  int32_t machine = 0;
  size_t metric = 0;
  int64_t seconds = 0;  // for how many seconds
};

struct Pull {
  std::vector<size_t> metrics;        // indices into metrics() of those that have a Series
  std::vector<size_t> missing;        // asked for, but without a Series
  std::vector<std::string> machines;  // sorted by name
  std::vector<int32_t> class_of;      // machines are compared within a class only; all 0 unless given
  std::vector<std::string> classes;   // names of the classes
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
  float* row(size_t metric_at, int64_t second) {
    return values.data() + (static_cast<int64_t>(metric_at) * seconds + second) * count();
  }
  bool absent(int32_t machine, double time_s) const;
  Pull part(int64_t from_second, int64_t length) const;
};

struct AlignOptions {
  double fill_s = 8;  // a fill of twice the usual distance between samples is always allowed
  std::vector<Limits> limits = limits_with({});
};

// Aligns from the first second of any metric to the last; a metric that starts late has no data before. Error
// (65) when two do not overlap (it names both ranges), or when a metric was read twice. Wanted metrics
// without a series are listed as missing; it is an error if all are missing.
Pull aligned(const std::vector<Series>& series, const std::vector<size_t>& wanted,
             const AlignOptions& options);

// Fills missing samples of a pull that is already on the grid with the nearest in time within fill_s.
void fill_gaps(Pull& pull, double fill_s = AlignOptions{}.fill_s);

// Silence: a metric of one machine that ends before the pull does.
struct Silence {
  int32_t machine = 0;
  size_t metric = 0;
  double since_s = 0;
};
// The silences of all machines and metrics that are at least `shortest_s` long while more than half of the
// other machines still report. Absent machines are left out.
std::vector<Silence> silences(const Pull& pull, double shortest_s);

// Metrics whose values never change on any machine: they are of no use, which is reported.
std::vector<size_t> constant_metrics(const Pull& pull);

}  // namespace longhaul::detect
