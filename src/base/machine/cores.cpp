#include "base/machine/cores.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <thread>

namespace longhaul {
namespace {

namespace fs = std::filesystem;

// Cores that a quota file pair allows, or infinity. v2: "cpu.max" holds "quota period" or "max period".
double quota_cores(const fs::path& folder, bool v2) {
  double quota = -1, period = 0;
  if (v2) {
    std::string text;
    std::ifstream file(folder / "cpu.max");
    if (file >> text >> period && text != "max") quota = std::atof(text.c_str());
  } else {
    std::ifstream quota_file(folder / "cpu.cfs_quota_us"), period_file(folder / "cpu.cfs_period_us");
    if (!(quota_file >> quota) || !(period_file >> period)) quota = -1;
  }
  return quota > 0 && period > 0 ? quota / period : INFINITY;
}

}  // namespace

// The smallest quota of this process's control group and its parents.
double core_quota() {
  double cores = INFINITY;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "id:controllers:/path"
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool v2 = controllers == ",,";
    if (!v2 && controllers.find(",cpu,") == std::string::npos) continue;
    const fs::path root = v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu";
    fs::path below = fs::path(line.substr(second + 1)).relative_path();
    // Inside a container the path may name the host's folders, which are not visible: the walk still ends at
    // the root.
    for (;; below = below.parent_path()) {
      cores = std::min(cores, quota_cores(root / below, v2));
      if (below.empty()) break;
    }
  }
  return cores;
}

std::vector<int> allowed_cores() {
  std::vector<int> cores;
  // The kernel refuses a set smaller than its own: grow until it fits.
  for (int cpus = 1024; cpus <= (1 << 20) && cores.empty(); cpus *= 2) {
    cpu_set_t* set = CPU_ALLOC(static_cast<size_t>(cpus));
    const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(cpus));
    const bool known = sched_getaffinity(0, bytes, set) == 0;
    for (int core = 0; known && core < cpus; ++core) {
      if (CPU_ISSET_S(static_cast<size_t>(core), bytes, set)) cores.push_back(core);
    }
    CPU_FREE(set);
  }
  if (cores.empty()) {
    cores.resize(std::max(1U, std::thread::hardware_concurrency()));
    std::iota(cores.begin(), cores.end(), 0);
  }
  return cores;
}

}  // namespace longhaul
