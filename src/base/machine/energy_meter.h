// EnergyMeter: the joules that this machine has drawn, from hardware counters: RAPL of the processors (Linux
// powercap: packages, and memory where it is counted separately) and NVML of NVIDIA GPUs. It counts the whole
// machine, whoever uses it. Machines without counters, or whose counters users may not read (energy_uj is
// readable by root only), give none: `sources` is empty and `remark` says why.
//
//   EnergyMeter meter;
//   // since the meter was made; call it every few minutes: RAPL counters wrap
//   const double joules = meter.joules();
//
// Not thread-safe: one thread at a time.
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
  std::vector<std::string> sources() const;  // "RAPL package-0", "NVML GPU 0"
  // The reason if a counter cannot be read, or if there is none.
  const std::string& remark() const { return remark_; }
  double joules();
  int64_t gpus() const;  // number of GPUs that have a counter
  double gpu_joules();   // of the GPUs only

 private:
  struct Counter {
    std::string name;
    std::filesystem::path file;  // for RAPL: in microjoules
    void* gpu = nullptr;         // for NVML: in millijoules
    double wraps_at = 0;         // in the counter's unit; 0: never
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
