// The threads of any process of this machine, as the kernel reports them, for a process that does not answer
// by itself because it is stopped or hangs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace longhaul {

struct ThreadState {
  int64_t thread = 0;
  std::string name;
  char state = '?';  // R runs, S sleeps, D waits for a device, T stopped, Z ended
  // Kernel function in which it waits: "futex_wait_queue"; empty: it does not wait, or this user may not
  // know.
  std::string waits;
};
std::vector<ThreadState> threads_of(int64_t process);  // sorted by number; empty: there is no such process

// Asks the process to write its diagnostics (base/process/diagnostics.h); false: there is no such process, or
// it is another user's.
bool ask_for_diagnostics(int64_t process);

}  // namespace longhaul
