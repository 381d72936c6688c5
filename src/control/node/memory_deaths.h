// MemoryDeaths: whether a rank that was ended by SIGKILL was ended by the kernel for want of memory. The kernel's log names the process; where the log
// cannot be read, or counts processes otherwise than this container does, the memory group that the ranks are in tells that one of it was ended
// (memory.events): each such end explains one rank. What happens elsewhere on the machine explains none.
//
//   MemoryDeaths deaths(root);
//   deaths.begin();                    // before ranks are started: what was ended until now is none of them
//   if (deaths.took(4711)) …           // once its end is known
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
  bool log_is_ours_;  // it can be read, and its process numbers are those that this process sees
  std::filesystem::path group_;
  int64_t explained_ = 0;
  std::set<int64_t> killed_;
};

}  // namespace longhaul::control
