// MemoryDeaths: whether the kernel killed a rank with SIGKILL for lack of memory. The kernel's log names the
// process. Where the log cannot be read, or its process numbers are not those of this container, the memory
// cgroup of the ranks tells that one of its processes was killed (memory.events): each such kill explains the
// death of one rank. Kills elsewhere on the machine explain none.
//
//   MemoryDeaths deaths(root);
//   deaths.begin();                    // before ranks are started: earlier kills are not theirs
//   if (deaths.took(4711)) …           // once it is known that the process has ended
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>

#include "base/machine/kernel_log.h"

namespace longhaul::control {

class MemoryDeaths {
 public:
  explicit MemoryDeaths(const std::filesystem::path& root = "/");
  void begin();
  bool took(int64_t process);

 private:
  bool named(int64_t process);
  KernelLog log_;
  bool log_is_ours_;  // the log can be read, and its process numbers are those that this process sees
  std::filesystem::path group_;
  int64_t explained_ = 0;
  std::set<int64_t> killed_;
};

}  // namespace longhaul::control
