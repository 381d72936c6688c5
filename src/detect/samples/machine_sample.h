// One second of one machine: the metrics (metrics.h) that the machine's own counters provide; the others are
// NaN. A plain Linux machine has CPU, memory, disk and TCP. RDMA devices in sysfs add bytes, ECN and CNP;
// drivers of network interfaces add pause frames; NVML adds the utilisation, memory, temperature and clocks
// of GPUs; NVML, or RAPL where there is no GPU, adds power (docs/sources/reliability.md §7.2).
//
//   MachineSampler sampler;
//   // the first reading of the counters: no rates yet
//   sampler.next();
//   // a second later: rates since the last reading
//   const SampleValues values = sampler.next();
//   sampler.next(processes);                                    // CPU and memory of these processes only
//
// Rates need two readings that are 0.2 to 5 s apart. A counter that went backwards (because its device was
// created anew) has no rate that time. Not thread-safe: one thread at a time.
#pragma once

#include <array>
#include <optional>
#include <span>

#include "base/machine/energy_meter.h"
#include "base/machine/gpu_meter.h"
#include "base/machine/machine_counters.h"
#include "detect/samples/metrics.h"

namespace longhaul::detect {

// In the metrics' units, in the order of their table; NaN: missing.
using SampleValues = std::array<float, kMetrics>;
SampleValues no_values();  // all missing

// power_w: of the GPUs, or of processors and memory; NaN: unknown.
SampleValues sample_between(const MachineCounters& before, const MachineCounters& after, double power_w,
                            const GpuReading& gpus = {});

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
