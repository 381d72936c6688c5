#include "base/machine/machine.h"

#include <malloc.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>

#include <fmt/format.h>

#include "base/machine/kernel_file.h"
#include "base/threads/parallel.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace longhaul {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

std::string operating_system_text() {
  std::string name = "Linux distribution unknown";
  std::ifstream file("/etc/os-release");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("PRETTY_NAME=", 0) != 0) continue;
    name = line.substr(12);
    std::erase(name, '"');
  }
  utsname kernel{};
  return uname(&kernel) == 0 ? fmt::format("{}, {} {}", name, kernel.sysname, kernel.release) : name;
}

#if defined(__x86_64__)
// The operating system must save the registers (XCR0 bits 17 and 18) and, on Linux, grants the tile data on
// request.
bool tiles_saved() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return false;
  unsigned low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low >> 17 & 3) == 3;
}

std::vector<std::string> processor_features() {
  std::vector<std::string> features;
  const auto add = [&](bool present, const char* name) {
    if (present) features.emplace_back(name);
  };
  add(__builtin_cpu_supports("sse4.2"), "sse4_2");
  add(__builtin_cpu_supports("avx2"), "avx2");
  add(__builtin_cpu_supports("fma"), "fma");
  // false as well when the system does not save the registers
  const bool avx512 = __builtin_cpu_supports("avx512f");
  add(avx512, "avx512f");
  add(avx512 && __builtin_cpu_supports("avx512bw"), "avx512bw");
  // Leaf 7: features that the compiler's own check does not name everywhere.
  unsigned a = 0, b = 0, c = 0, d7 = 0, a71 = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d7)) return features;
  const unsigned subleaves = a;
  if (subleaves >= 1) __get_cpuid_count(7, 1, &a71, &b, &c, &d);
  add(avx512 && (a71 >> 5 & 1), "avx512_bf16");
  add(avx512 && (d7 >> 23 & 1), "avx512_fp16");
  const bool tiles = tiles_saved();
  add(tiles && (d7 >> 24 & 1), "amx_tile");
  add(tiles && (d7 >> 22 & 1), "amx_bf16");
  add(tiles && (d7 >> 25 & 1), "amx_int8");
  return features;
}
#elif defined(__aarch64__)
std::vector<std::string> processor_features() {
  // bits of AT_HWCAP on arm64 Linux, the last of AT_HWCAP2
  constexpr unsigned long kAsimd = 1UL << 1, kSve = 1UL << 22, kBf16 = 1UL << 14;
  const unsigned long bits = getauxval(AT_HWCAP);
  std::vector<std::string> features;
  if (bits & kAsimd) features.emplace_back("neon");
  if (getauxval(AT_HWCAP2) & kBf16) features.emplace_back("neon_bf16");
  if (bits & kSve) features.emplace_back("sve");
  return features;
}
#else
std::vector<std::string> processor_features() { return {}; }
#endif

std::string processor_text() {
  const auto values = kernel_fields("/proc/cpuinfo");
  for (const char* name : {"model name", "Model", "Hardware", "CPU part"})
    if (const auto found = values.find(name); found != values.end() && !found->second.empty())
      return found->second;
  return "unknown";
}

int64_t cache_bytes(const std::string& level) {
  std::error_code ignored;
  for (int index = 0; index < 16; ++index) {
    const fs::path folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}", index);
    if (!fs::exists(folder, ignored)) break;
    if (kernel_line(folder / "level") != level || kernel_line(folder / "type") == "Instruction") continue;
    const std::string size = kernel_line(folder / "size");  // "2048K"
    const char suffix = size.empty() ? ' ' : size.back();
    return std::strtoll(size.c_str(), nullptr, 10) * (suffix == 'K' ? 1 << 10 : suffix == 'M' ? 1 << 20 : 1);
  }
  return 0;
}

// limit − used of the tightest control group that holds this process, and its limit. No group, no limit:
// kNoLimit.
struct GroupMemory {
  int64_t limit = kNoLimit;
  int64_t available = kNoLimit;
};

int64_t number_in(const fs::path& path) {  // -1 when there is none ("max", no such file)
  int64_t value = -1;
  std::ifstream file(path);
  return file >> value ? value : -1;
}

int64_t reclaimable_bytes(const fs::path& folder) {  // page cache that the kernel gives up first
  std::ifstream file(folder / "memory.stat");
  std::string name;
  int64_t value = 0;
  while (file >> name >> value)
    if (name == "inactive_file" || name == "total_inactive_file") return value;
  return 0;
}

GroupMemory group_memory() {
  GroupMemory memory;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "id:controllers:/path"
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool v2 = controllers.empty();
    if (!v2 && controllers != "memory") continue;
    const fs::path root = v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    for (fs::path below = fs::path(line.substr(second + 1)).relative_path();; below = below.parent_path()) {
      const fs::path folder = root / below;
      const int64_t limit = number_in(folder / (v2 ? "memory.max" : "memory.limit_in_bytes"));
      const int64_t used = number_in(folder / (v2 ? "memory.current" : "memory.usage_in_bytes"));
      if (limit > 0) memory.limit = std::min(memory.limit, limit);
      if (limit > 0 && used >= 0)
        memory.available =
            std::min(memory.available, std::max<int64_t>(0, limit - used + reclaimable_bytes(folder)));
      if (below.empty()) break;
    }
  }
  return memory;
}

Machine read_machine() {
  Machine found;
  char host[256] = {};
  if (gethostname(host, sizeof host - 1) == 0) found.host = host;
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  if (!std::getline(boot, found.boot)) found.boot = found.host;
  found.operating_system = operating_system_text();
  found.processor = processor_text();
  found.features = processor_features();
  found.cores = usable_cores();
  found.memory_bytes =
      std::min(bytes_named(kernel_fields("/proc/meminfo"), "MemTotal"), group_memory().limit);
  found.l2_bytes = cache_bytes("2");
  found.l3_bytes = cache_bytes("3");
  return found;
}

}  // namespace

const Machine& machine() {
  static const Machine found = read_machine();
  return found;
}

#if defined(__x86_64__)
bool allow_amx() {
  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA of asm/prctl.h
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  static const bool allowed = tiles_saved() && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return allowed;
}
#else
bool allow_amx() { return false; }
#endif

int64_t resident_bytes() { return bytes_named(kernel_fields("/proc/self/status"), "VmRSS"); }
int64_t peak_resident_bytes() { return bytes_named(kernel_fields("/proc/self/status"), "VmHWM"); }

void return_free_memory() { ::malloc_trim(0); }

int64_t available_memory_bytes() {
  return std::min(bytes_named(kernel_fields("/proc/meminfo"), "MemAvailable"), group_memory().available);
}

int64_t free_address_space_bytes() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur >= static_cast<rlim_t>(INT64_MAX)) return INT64_MAX;
  return std::max<int64_t>(
      0, static_cast<int64_t>(limit.rlim_cur) - bytes_named(kernel_fields("/proc/self/status"), "VmSize"));
}

}  // namespace longhaul
