// Joules that this machine has drawn, from counters of the hardware: RAPL of the processors (Linux powercap: packages, and memory where it is
// counted apart) and NVML of NVIDIA's GPUs. The whole machine's, whoever used it. Machines without counters, and those that keep them from
// users (energy_uj readable by root alone), have none: `sources` is empty and `remark` says why.
//
//   EnergyMeter meter;
//   const double joules = meter.joules();   // since the meter was made; ask at least every few minutes: a RAPL counter wraps
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace longhaul {

class EnergyMeter {
 public:
  explicit EnergyMeter(const std::filesystem::path& powercap = "/sys/class/powercap");

  bool any() const { return !counters_.empty(); }
  std::vector<std::string> sources() const;              // "RAPL package-0", "NVML GPU 0"
  const std::string& remark() const { return remark_; }  // what is there and cannot be read, or that nothing is
  double joules();
  int64_t gpus() const;  // that have a counter
  double gpu_joules();   // of them alone

 private:
  struct Counter {
    std::string name;
    std::filesystem::path file;  // of RAPL: microjoules
    void* gpu = nullptr;         // of NVML: millijoules
    double wraps_at = 0;         // in its unit; 0: never
    double last = 0, joules = 0;
    bool read(double& value) const;
  };
  void add_rapl(const std::filesystem::path& powercap);
  void add_nvml();
  void add(Counter counter);
  void read_all();

  std::vector<Counter> counters_;
  std::string remark_;
};

}  // namespace longhaul
