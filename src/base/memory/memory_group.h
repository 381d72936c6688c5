// The memory cgroup of a process, version 1 or 2, and how often the kernel has killed one of its processes
// for lack of memory. A process in the machine's root group has none. LimitedMemory makes a group with a
// limit, for drills and tests.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace longhaul {

// The folder of the group; empty: there is none, or it cannot be read. `root`: where proc and sys are.
std::filesystem::path memory_group_of(int64_t process, const std::filesystem::path& root = "/");

// "oom_kill" of memory.events, or of memory.oom_control; nothing: it cannot be read.
std::optional<int64_t> memory_kills_in(const std::filesystem::path& group);

// LimitedMemory: a cgroup below this process's own, which is removed with the object. A process that is moved
// into it may use `bytes` more than it had; beyond that the kernel kills it.
class LimitedMemory {
 public:
  LimitedMemory(const std::string& name, int64_t bytes);
  ~LimitedMemory();
  LimitedMemory(const LimitedMemory&) = delete;
  LimitedMemory& operator=(const LimitedMemory&) = delete;
  bool usable() const { return usable_; }  // false: this user may not make a group
  // false: the process has ended or does not exist, or this user may not.
  bool take_in(int64_t process) const;

 private:
  std::filesystem::path group_;
  bool usable_ = false;
};

}  // namespace longhaul
