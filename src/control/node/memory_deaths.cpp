#include "control/node/memory_deaths.h"

#include <string>

#include "base/memory/memory_group.h"
#include "base/process/process.h"
#include "base/text/number.h"
#include "control/node/process_space.h"

namespace longhaul::control {
namespace {

constexpr int kMomentsOfTheLog = 50;  // milliseconds: the kernel logs a kill a moment after it

}  // namespace

MemoryDeaths::MemoryDeaths(const std::filesystem::path& root)
    : log_(root / "dev/kmsg"),
      log_is_ours_(log_.problem().empty() && in_first_process_space(root)),
      group_(memory_group_of(process_id(), root)) {
  begin();
}

void MemoryDeaths::begin() {
  log_.next();
  killed_.clear();
  explained_ = memory_kills_in(group_).value_or(0);
}

// "Out of memory: Killed process 4711 (longhaul) total-vm:…", and the same for a memory cgroup.
bool MemoryDeaths::named(int64_t process) {
  constexpr std::string_view kWords = "Killed process ";
  for (const std::string& line : log_.next()) {
    const size_t at = line.find(kWords);
    if (at == std::string::npos) continue;
    const std::string_view after = std::string_view(line).substr(at + kWords.size());
    killed_.insert(leading_number<int64_t>(after).value_or(0));
  }
  return killed_.contains(process);
}

bool MemoryDeaths::took(int64_t process) {
  const bool group_lost_one = memory_kills_in(group_).value_or(0) > explained_;
  bool took = group_lost_one;
  if (log_is_ours_) {
    took = named(process);
    for (int moment = 0; group_lost_one && !took && moment < kMomentsOfTheLog; ++moment) {
      pause_briefly();
      took = named(process);
    }
  }
  if (took) explained_ += group_lost_one ? 1 : 0;
  return took;
}

}  // namespace longhaul::control
