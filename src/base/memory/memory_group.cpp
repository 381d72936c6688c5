#include "base/memory/memory_group.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "base/machine/kernel_file.h"
#include "base/process/process.h"

namespace longhaul {
namespace {

namespace fs = std::filesystem;

constexpr const char *kEvents = "memory.events", *kControl = "memory.oom_control";

// Joined as strings: the path in /proc begins with '/', and would replace the path before it.
fs::path below(const fs::path& folder, const std::string& path) {
  return fs::path(folder.string() + path).lexically_normal();
}

}  // namespace

fs::path memory_group_of(int64_t process, const fs::path& root) {
  std::istringstream lines(kernel_text(root / "proc" / std::to_string(process) / "cgroup"));
  const fs::path groups = root / "sys/fs/cgroup";
  fs::path second;
  std::error_code none;
  for (std::string line; std::getline(lines, line);) {
    // "4:memory:/path" of the first version, "0::/path" of the second.
    const size_t name = line.find(':'), path = name == std::string::npos ? name : line.find(':', name + 1);
    if (path == std::string::npos) continue;
    const std::string controllers = "," + line.substr(name + 1, path - name - 1) + ",";
    if (controllers.find(",memory,") != std::string::npos) {
      const fs::path first = below(groups / "memory", line.substr(path + 1));
      if (fs::exists(first / kControl, none)) return first;
    } else if (line.starts_with("0::")) {
      second = below(groups, line.substr(path + 1));
    }
  }
  return !second.empty() && fs::exists(second / kEvents, none) ? second : fs::path();
}

std::optional<int64_t> memory_kills_in(const fs::path& group) {
  for (const char* file : {kEvents, kControl}) {
    std::istringstream words(kernel_text(group / file));
    std::string name;
    for (int64_t value = 0; words >> name >> value;) {
      if (name == "oom_kill") return value;
    }
  }
  return std::nullopt;
}

LimitedMemory::LimitedMemory(const std::string& name, int64_t bytes) {
  const fs::path own = memory_group_of(process_id());
  if (own.empty()) return;
  group_ = own / fmt::format("longhaul-{}-{}", name, process_id());
  std::error_code refused;
  fs::create_directory(group_, refused);
  for (const char* file : {"memory.limit_in_bytes", "memory.max"}) {
    if (!refused && fs::exists(group_ / file))
      usable_ = static_cast<bool>(std::ofstream(group_ / file) << bytes << std::flush);
  }
  // Nor may it have the rest on a disk, where the machine swaps.
  for (const auto& [file, most] :
       {std::pair("memory.memsw.limit_in_bytes", bytes), std::pair("memory.swap.max", int64_t{0})}) {
    if (usable_ && fs::exists(group_ / file)) std::ofstream(group_ / file) << most;
  }
}

LimitedMemory::~LimitedMemory() {
  std::error_code ignored;
  if (!group_.empty()) fs::remove(group_, ignored);
}

bool LimitedMemory::take_in(int64_t process) const {
  return usable_ && process > 0 &&
         static_cast<bool>(std::ofstream(group_ / "cgroup.procs") << process << std::flush);
}

}  // namespace longhaul
