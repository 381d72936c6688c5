// The threads of any process of this machine, as the kernel tells them: for one that does not answer by itself, since it is stopped or hangs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace longhaul {

struct ThreadState {
  int64_t thread = 0;
  std::string name;
  char state = '?';   // R runs, S sleeps, D waits for a device, T stopped, Z ended
  std::string waits;  // in the kernel: "futex_wait_queue"; empty: it does not, or this user may not know
};
std::vector<ThreadState> threads_of(int64_t process);  // by number; empty: there is no such process

// Asks it to write what it does (base/process/diagnostics.h); false: there is no such process, or it is another user's.
bool ask_for_diagnostics(int64_t process);

}  // namespace longhaul
