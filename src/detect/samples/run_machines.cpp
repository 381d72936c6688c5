#include "detect/samples/run_machines.h"

#include <cmath>
#include <map>

#include "base/error.h"
#include "detect/samples/metrics.h"
#include "detect/samples/run_samples.h"

namespace longhaul::detect {

std::vector<plan::RunMachine> machines_of_run(const std::filesystem::path& run_folder) {
  struct Sum {
    std::string host;
    double watts = 0;
    int64_t samples = 0;
  };
  const size_t power = metric_named("gpu_power_draw", "");
  std::map<std::string, Sum> by_boot;
  for (const std::filesystem::path& file : ring_files(run_folder)) {
    try {
      const SampleRing ring = read_ring(file);
      Sum& sum = by_boot[ring.owner.boot];
      sum.host = ring.owner.host;
      for (const RingRow& row : ring.rows) {
        if (!row.ended && !std::isnan(row.values[power]))
          sum.watts += static_cast<double>(row.values[power]), ++sum.samples;
      }
    } catch (const Error&) {
      continue;  // `detect run` reports what is damaged
    }
  }
  std::vector<plan::RunMachine> machines;
  for (const auto& [boot, sum] : by_boot) {
    machines.push_back({.host = sum.host, .mean_watts = {}});
    if (sum.samples > 0) machines.back().mean_watts = sum.watts / static_cast<double>(sum.samples);
  }
  return machines;
}

}  // namespace longhaul::detect
