// One second of one machine: those of the metrics (metrics.h) that the machine's own counters tell, the others NaN. A bare Linux machine has CPU,
// memory, disk and TCP; RDMA devices of sysfs add their bytes, ECN and CNP; drivers of interfaces their pause frames; NVML adds how busy, full, hot and
// fast GPUs are; NVML, or RAPL where there is no GPU, adds power (docs/sources/reliability.md §7.2).
//
//   MachineSampler sampler;
//   sampler.next();                                             // the first look at the counters: no rates yet
//   const SampleValues values = sampler.next();                 // a second later: rates since the look before
//   sampler.next(processes);                                    // of these processes alone: CPU and memory
//
// Rates need two looks that lie 0.2 to 5 s apart: a longer time is no second. A counter that went backwards (its device was made anew) has no rate
// this time. One thread at a time.
#pragma once

#include <array>
#include <optional>
#include <span>

#include "base/machine/energy_meter.h"
#include "base/machine/gpu_meter.h"
#include "base/machine/machine_counters.h"
#include "detect/samples/metrics.h"

namespace longhaul::detect {

using SampleValues = std::array<float, kMetrics>;  // in the metrics' units, in the order of their table; NaN: missing
SampleValues no_values();                          // all missing

// power_w: of a GPU, or of processors and memory; NaN: not known.
SampleValues sample_between(const MachineCounters& before, const MachineCounters& after, double power_w, const GpuReading& gpus = {});

class MachineSampler {
 public:
  explicit MachineSampler(MachineFiles files = {}, GpuMeter gpus = GpuMeter());
  SampleValues next();
  SampleValues next(std::span<const int64_t> processes);

 private:
  SampleValues next(MachineCounters now, double power_w, const GpuReading& gpus);
  double joules();  // of all GPUs, else of processors and memory
  MachineFiles files_;
  EnergyMeter meter_;
  GpuMeter gpus_;
  std::optional<MachineCounters> last_;
  double last_joules_ = 0;
};

}  // namespace longhaul::detect
