// GpuMeter: how busy NVIDIA's GPUs of this machine are, by NVML: means over all of them. Nothing is set or reset. Machines without them have none.
//
//   GpuMeter meter;
//   const GpuReading now = meter.read();
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace longhaul {

struct GpuReading {
  std::optional<double> busy_percent;    // of the time since NVML's last sample in which a kernel ran
  std::optional<double> memory_percent;  // of its memory in use
  std::optional<double> temperature_c, clock_mhz;
};

// The calls of the vendor's library that GpuMeter needs; each but count() takes the number of one GPU. Tests put their own in their place.
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
