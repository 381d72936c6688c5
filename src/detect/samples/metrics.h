// The metrics measured on a machine once a second: the 21 that Minder collects (arXiv 2411.01791, §4), seven
// of which it compares, in this order: PFC packets, CPU, GPU duty cycle, power, graphics and tensor activity,
// NVLink. Each has a unit and the limits from which its values are scaled to [0, 1]. They are limits of the
// hardware, not of the data, so that noise is never amplified to full scale.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul::detect {

enum class MetricGroup { kPfc, kCpu, kGpu, kNvlink, kNetwork, kDisk, kMemory };

struct Metric {
  std::string_view name;  // its name in CSV files and alerts
  std::string_view unit;  // unit of the values that are read
  double low = 0, high = 100;
  bool capped = false;  // values beyond the limit are clamped, not refused, because the limit is a choice
  MetricGroup group = MetricGroup::kCpu;
  // PromQL with one value per machine (label: instance), where a public exporter has the metric.
  std::string_view query;
  std::string_view sentence;  // a description
};

inline constexpr size_t kMetrics = 21, kUsedMetrics = 7;
// the used ones first, in order of priority
std::span<const Metric> metrics();
size_t metric_named(std::string_view name, const std::string& where);  // Error (64) with the nearest name

// DCGM's profiling counters stop at 0 after an Xid, after days, or while a profiler uses them (DCGM issue
// 303, dcgm-exporter 635 and 22): a value of 0 while the GPU is 100 % busy is no data. is_profiling() says
// which metrics are such counters; query_of() gives the query of a metric, which leaves out GPUs whose
// counter has stopped.
bool is_profiling(size_t metric);
std::string query_of(size_t metric);

// "used" (the seven), "fewer" (PFC, CPU, duty cycle), "more" (the seven and the five most similar), "all", or
// names separated by commas.
std::vector<size_t> metric_choice(std::string_view text);

// The limits in use: the table's, unless an option "name=low:high" says otherwise.
struct Limits {
  double low = 0, high = 1;
};
std::vector<Limits> limits_with(std::span<const std::string> changes);  // kMetrics of them

}  // namespace longhaul::detect
