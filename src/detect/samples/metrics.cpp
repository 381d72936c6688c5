#include "detect/samples/metrics.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "base/error.h"
#include "base/text/number.h"
#include "base/text/text.h"

namespace longhaul::detect {
namespace {

using Group = MetricGroup;

constexpr std::array<Metric, kMetrics> kTable = {{
    {"pfc_tx_packet_rate", "packets/s", 0, 10'000, true, Group::kPfc, "",
     "priority-flow-control frames sent by the RDMA devices"},
    {"cpu_usage", "%", 0, 100, false, Group::kCpu,
     "100 * (1 - avg by (instance) (rate(node_cpu_seconds_total{mode=\"idle\"}[30s])))",
     "share of time the processors worked"},
    {"gpu_duty_cycle", "%", 0, 100, false, Group::kGpu,
     "avg by (instance) (avg_over_time(DCGM_FI_DEV_GPU_UTIL[15s]))",
     "share of the sample period the accelerator was active"},
    {"gpu_power_draw", "W", 0, 700, true, Group::kGpu,
     "avg by (instance) (avg_over_time(DCGM_FI_DEV_POWER_USAGE[15s]))",
     "power of a GPU, the limit its design power"},
    {"gpu_graphics_activity", "%", 0, 100, false, Group::kGpu,
     "100 * avg by (instance) (avg_over_time(DCGM_FI_PROF_GR_ENGINE_ACTIVE[15s]))",
     "share of time any engine was active"},
    {"gpu_tensor_activity", "%", 0, 100, false, Group::kGpu,
     "100 * avg by (instance) (avg_over_time(DCGM_FI_PROF_PIPE_TENSOR_ACTIVE[15s]))",
     "share of cycles the tensor pipe was active"},
    {"nvlink_bandwidth", "GB/s", 0, 600, true, Group::kNvlink,
     "(avg by (instance) (avg_over_time(DCGM_FI_PROF_NVLINK_TX_BYTES[15s])) + avg by (instance) "
     "(avg_over_time(DCGM_FI_PROF_NVLINK_RX_BYTES[15s]))) / 1e9",
     "bytes over NVLink, both ways, a GPU"},
    {"gpu_sm_activity", "%", 0, 100, false, Group::kGpu,
     "100 * avg by (instance) (avg_over_time(DCGM_FI_PROF_SM_ACTIVE[15s]))",
     "share of cycles a multiprocessor had work"},
    {"gpu_fp_activity", "%", 0, 100, false, Group::kGpu,
     "100 * avg by (instance) (avg_over_time(DCGM_FI_PROF_PIPE_FP32_ACTIVE[15s]))",
     "share of cycles the floating-point pipes were active"},
    {"gpu_memory_bandwidth", "%", 0, 100, false, Group::kGpu,
     "100 * avg by (instance) (avg_over_time(DCGM_FI_PROF_DRAM_ACTIVE[15s]))",
     "share of cycles the GPU's memory was read or written"},
    {"gpu_clocks", "MHz", 0, 2'000, true, Group::kGpu,
     "avg by (instance) (avg_over_time(DCGM_FI_DEV_SM_CLOCK[15s]))", "clock of the multiprocessors"},
    {"gpu_temperature", "C", 0, 100, true, Group::kGpu,
     "avg by (instance) (avg_over_time(DCGM_FI_DEV_GPU_TEMP[15s]))", "temperature of a GPU"},
    {"gpu_memory_used", "%", 0, 100, false, Group::kMemory, "", "share of the GPU's memory in use"},
    {"pcie_bandwidth", "GB/s", 0, 64, true, Group::kNetwork,
     "(avg by (instance) (avg_over_time(DCGM_FI_PROF_PCIE_TX_BYTES[15s])) + avg by (instance) "
     "(avg_over_time(DCGM_FI_PROF_PCIE_RX_BYTES[15s]))) / 1e9",
     "bytes over PCIe, both ways, a GPU"},
    {"pcie_usage", "%", 0, 100, false, Group::kNetwork, "", "share of the PCIe link's rate in use"},
    {"ecn_packet_rate", "packets/s", 0, 10'000, true, Group::kPfc, "", "packets marked for congestion"},
    {"cnp_packet_rate", "packets/s", 0, 10'000, true, Group::kPfc, "", "congestion notifications received"},
    {"tcp_throughput", "GB/s", 0, 25, true, Group::kNetwork,
     "sum by (instance) (rate(node_network_transmit_bytes_total{device!=\"lo\"}[30s])) / 1e9",
     "bytes sent over TCP"},
    {"tcp_rdma_throughput", "GB/s", 0, 50, true, Group::kNetwork, "", "bytes sent over TCP and RDMA"},
    {"memory_usage", "%", 0, 100, false, Group::kMemory,
     "100 * (1 - node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes)",
     "share of the machine's memory in use"},
    {"disk_usage", "%", 0, 100, false, Group::kDisk, "", "share of the disk in use"},
}};

constexpr std::string_view kProfiling = "DCGM_FI_PROF_";

std::string names_of_all() {
  std::string names;
  for (const Metric& metric : kTable) names += (names.empty() ? "" : ", ") + std::string(metric.name);
  return names;
}

double number_of(std::string_view text, const std::string& change) {
  const std::optional<double> value = parse_number<double>(text);
  if (value && std::isfinite(*value)) return *value;
  throw Error({.code = ExitCode::kUsage,
               .what = "cannot read the limits of a metric",
               .expected = "METRIC=LOW:HIGH in the metric's own unit, such as gpu_power_draw=0:400 (W)",
               .found = change,
               .where = "--limit"});
}

}  // namespace

std::span<const Metric> metrics() { return kTable; }

bool is_profiling(size_t metric) { return kTable[metric].query.find(kProfiling) != std::string_view::npos; }

std::string query_of(size_t metric) {
  std::string query(kTable[metric].query);
  const std::string begin = "avg_over_time(" + std::string(kProfiling);
  for (size_t at = query.find(begin); at != std::string::npos; at = query.find(begin, at)) {
    const std::string mean = query.substr(at, query.find(')', at) + 1 - at),
                      counter = mean.substr(std::string("avg_over_time").size());
    const std::string guarded = fmt::format(
        "({} unless on (instance, gpu) (max_over_time{} == 0 and on (instance, gpu) "
        "avg_over_time(DCGM_FI_DEV_GPU_UTIL[15s]) > 99))",
        mean, counter);
    query.replace(at, mean.size(), guarded);
    at += guarded.size();
  }
  return query;
}

size_t metric_named(std::string_view name, const std::string& where) {
  std::vector<std::string> names;
  for (size_t i = 0; i < kMetrics; ++i) {
    if (kTable[i].name == name) return i;
    names.emplace_back(kTable[i].name);
  }
  const std::string nearest = nearest_spelling(std::string(name), names);
  throw Error({.code = ExitCode::kUsage,
               .what = "no such metric",
               .expected = names_of_all(),
               .found = std::string(name),
               .where = where,
               .hint = nearest.empty() ? "" : "did you mean " + nearest + "?"});
}

std::vector<size_t> metric_choice(std::string_view text) {
  std::vector<size_t> chosen;
  const auto first = [&](std::initializer_list<size_t> list) { chosen = list; };
  if (text == "used") {
    first({0, 1, 2, 3, 4, 5, 6});
  } else if (text == "fewer") {
    first({0, 1, 2});
  } else if (text == "more") {
    first({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 18});
  } else if (text == "all") {
    for (size_t i = 0; i < kMetrics; ++i) chosen.push_back(i);
  } else {
    for (const std::string_view name : split(text, ',')) {
      const size_t metric = metric_named(name, "--metrics");
      for (const size_t other : chosen) {
        if (other == metric)
          throw Error({.code = ExitCode::kUsage,
                       .what = "a metric is named twice",
                       .found = std::string(kTable[metric].name),
                       .where = "--metrics"});
      }
      chosen.push_back(metric);
    }
  }
  return chosen;
}

std::vector<Limits> limits_with(std::span<const std::string> changes) {
  std::vector<Limits> limits;
  for (const Metric& metric : kTable) limits.push_back({metric.low, metric.high});
  for (const std::string& change : changes) {
    const size_t equals = change.find('='),
                 colon = change.find(':', equals == std::string::npos ? 0 : equals);
    if (equals == std::string::npos || colon == std::string::npos) number_of("", change);
    const size_t metric = metric_named(std::string_view(change).substr(0, equals), "--limit");
    const std::string_view text = change;
    limits[metric] = {number_of(text.substr(equals + 1, colon - equals - 1), change),
                      number_of(text.substr(colon + 1), change)};
    if (limits[metric].low >= limits[metric].high) {
      throw Error({.code = ExitCode::kUsage,
                   .what = "the lower limit of a metric is not below the upper one",
                   .expected = fmt::format("LOW < HIGH, in {}", kTable[metric].unit),
                   .found = change,
                   .where = "--limit"});
    }
  }
  return limits;
}

}  // namespace longhaul::detect
