#include "detect/samples/machine_sample.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace longhaul::detect {
namespace {

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
constexpr double kShortest_s = 0.2, kLongest_s = 5;

double seconds_between(const MachineCounters& before, const MachineCounters& after) {
  return static_cast<double>(after.at_ns - before.at_ns) * 1e-9;
}

double processors_percent(const MachineCounters& before, const MachineCounters& after) {
  if (!before.processors || !after.processors) return kMissing;
  const auto &was = *before.processors, &is = *after.processors;
  if (is.worked < was.worked || is.all <= was.all || is.worked - was.worked > is.all - was.all)
    return kMissing;
  return 100 * static_cast<double>(is.worked - was.worked) / static_cast<double>(is.all - was.all);
}

// For devices that were there both times; a new one counts from the next reading on.
double rate_of(const DeviceCounters& before, const DeviceCounters& after, double seconds) {
  double sum = 0;
  bool any = false;
  for (const auto& [device, is] : after) {
    const auto was = before.find(device);
    if (was == before.end()) continue;
    if (is < was->second) return kMissing;
    sum += static_cast<double>(is - was->second), any = true;
  }
  return any ? sum / seconds : kMissing;
}

void set(SampleValues& values, std::string_view metric, double value) {
  values[metric_named(metric, "")] = static_cast<float>(value);
}

}  // namespace

SampleValues no_values() {
  SampleValues values;
  values.fill(std::numeric_limits<float>::quiet_NaN());
  return values;
}

SampleValues sample_between(const MachineCounters& before, const MachineCounters& after, double power_w,
                            const GpuReading& gpus) {
  SampleValues values = no_values();
  if (gpus.busy_percent) set(values, "gpu_duty_cycle", *gpus.busy_percent);
  if (gpus.memory_percent) set(values, "gpu_memory_used", *gpus.memory_percent);
  if (gpus.temperature_c) set(values, "gpu_temperature", *gpus.temperature_c);
  if (gpus.clock_mhz) set(values, "gpu_clocks", *gpus.clock_mhz);
  if (after.memory_share) set(values, "memory_usage", 100 * *after.memory_share);
  if (after.disk_share) set(values, "disk_usage", 100 * *after.disk_share);
  const double seconds = seconds_between(before, after);
  if (seconds < kShortest_s || seconds > kLongest_s) return values;
  const double tcp = rate_of(before.network_sent, after.network_sent, seconds) * 1e-9,
               rdma = rate_of(before.rdma_sent, after.rdma_sent, seconds) * 1e-9;
  set(values, "cpu_usage", processors_percent(before, after));
  set(values, "tcp_throughput", tcp);
  set(values, "tcp_rdma_throughput", tcp + rdma);  // missing where either is
  set(values, "ecn_packet_rate", rate_of(before.ecn_marked, after.ecn_marked, seconds));
  set(values, "cnp_packet_rate", rate_of(before.cnp_handled, after.cnp_handled, seconds));
  set(values, "pfc_tx_packet_rate", rate_of(before.pauses_sent, after.pauses_sent, seconds));
  set(values, "gpu_power_draw", power_w);
  return values;
}

MachineSampler::MachineSampler(MachineFiles files, GpuMeter gpus)
    : files_(std::move(files)), meter_(files_.sys / "class/powercap"), gpus_(std::move(gpus)) {}

double MachineSampler::joules() { return meter_.gpus() > 0 ? meter_.gpu_joules() : meter_.joules(); }

SampleValues MachineSampler::next() {
  MachineCounters now = read_machine_counters(files_);
  double power_w = kMissing;
  if (meter_.any()) {
    const double before = std::exchange(last_joules_, joules());
    if (last_)
      power_w = (last_joules_ - before) / seconds_between(*last_, now) /
                static_cast<double>(std::max<int64_t>(1, meter_.gpus()));
  }
  return next(std::move(now), power_w, gpus_.read());
}

SampleValues MachineSampler::next(std::span<const int64_t> processes) {
  return next(read_process_counters(processes, files_), kMissing, {});
}

SampleValues MachineSampler::next(MachineCounters now, double power_w, const GpuReading& gpus) {
  const SampleValues values = sample_between(last_ ? *last_ : now, now, power_w, gpus);
  last_ = std::move(now);
  return values;
}

}  // namespace longhaul::detect
