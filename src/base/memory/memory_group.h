// The memory group (cgroup) that a process is in, of either version: how often the kernel has ended one of its processes for want of memory. A process
// that is in no group but the machine's own has none. And groups of one's own with a limit, for drills and tests.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace longhaul {

// Its folder; empty: none, or it cannot be read. `root`: where proc and sys are.
std::filesystem::path memory_group_of(int64_t process, const std::filesystem::path& root = "/");

// "oom_kill" of memory.events, or of memory.oom_control. Nothing: it cannot be read.
std::optional<int64_t> memory_kills_in(const std::filesystem::path& group);

// A group below this process's own, which goes with the object. Whom it takes in may have so much more than it had, and is ended by the kernel beyond.
class LimitedMemory {
 public:
  LimitedMemory(const std::string& name, int64_t bytes);
  ~LimitedMemory();
  LimitedMemory(const LimitedMemory&) = delete;
  LimitedMemory& operator=(const LimitedMemory&) = delete;
  bool usable() const { return usable_; }  // false: this user can make none
  bool take_in(int64_t process) const;     // false: it has ended, is none, or this user may not

 private:
  std::filesystem::path group_;
  bool usable_ = false;
};

}  // namespace longhaul
