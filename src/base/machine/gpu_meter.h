// GpuMeter: how busy the NVIDIA GPUs of this machine are, by NVML, as means over all of them. It sets and
// resets nothing. On a machine without GPUs the readings are empty.
//
//   GpuMeter meter;
//   const GpuReading now = meter.read();
//
// Not thread-safe: one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace longhaul {

struct GpuReading {
  std::optional<double> busy_percent;    // share of the time since NVML's last sample in which a kernel ran
  std::optional<double> memory_percent;  // share of its memory in use
  std::optional<double> temperature_c, clock_mhz;
};

// GpuCalls: the functions of NVML that GpuMeter needs; each but count() takes the number of a GPU. Tests
// replace them.
struct GpuCalls {
  std::function<int64_t()> count;
  std::function<std::optional<double>(int64_t gpu)> busy_percent, memory_percent, temperature_c, clock_mhz;
};
GpuCalls calls_of_nvml();

class GpuMeter {
 public:
  explicit GpuMeter(GpuCalls calls = calls_of_nvml());
  int64_t gpus() const { return gpus_; }
  GpuReading read() const;

 private:
  GpuCalls calls_;
  int64_t gpus_ = 0;
};

}  // namespace longhaul
