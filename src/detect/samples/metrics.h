// What is measured on a machine once a second: the 21 metrics that Minder collects (arXiv 2411.01791, §4), seven of which it compares, in this
// order: PFC packets, CPU, the GPU's duty cycle, power, graphics and tensor activity, NVLink. Each has a unit and the limits between which its
// values are brought to [0, 1]: limits of the hardware, not of the data, so that noise is never blown up to full scale.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul::detect {

enum class MetricGroup { kPfc, kCpu, kGpu, kNvlink, kNetwork, kDisk, kMemory };

struct Metric {
  std::string_view name;  // of its CSV file and in alerts
  std::string_view unit;  // of the values that are read
  double low = 0, high = 100;
  bool capped = false;  // the limit is a choice, not a law: values beyond it are clamped, not refused
  MetricGroup group = MetricGroup::kCpu;
  std::string_view query;     // PromQL of one value a machine (label: instance), where a public exporter has the metric
  std::string_view sentence;  // what it is
};

inline constexpr size_t kMetrics = 21, kUsedMetrics = 7;
std::span<const Metric> metrics();                                     // the used ones first, in order of priority
size_t metric_named(std::string_view name, const std::string& where);  // Error (64) with the nearest name

// DCGM's profiling counters stop at 0 after an Xid, after days, or while a profiler holds them (DCGM issue 303, dcgm-exporter 635 and 22): 0 while the GPU
// is 100 % busy is no data. Which metrics are such counters; and the query of a metric, in which GPUs whose counter stands are left out.
bool is_profiling(size_t metric);
std::string query_of(size_t metric);

// "used" (the seven), "fewer" (PFC, CPU, duty cycle), "more" (the seven and the five nearest to them), "all", or names with commas.
std::vector<size_t> metric_choice(std::string_view text);

// The limits in use: the table's, unless an option "name=low:high" says otherwise.
struct Limits {
  double low = 0, high = 1;
};
std::vector<Limits> limits_with(std::span<const std::string> changes);  // kMetrics of them

}  // namespace longhaul::detect
