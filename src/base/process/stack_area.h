// StackArea: memory for the stacks of a process's threads at the time of the last request (SIGUSR2;
// base/process/diagnostics.h), or for the stack of the thread that crashed. The type is trivial and of fixed
// size, so it may be in a SharedFile that another process reads. It is written inside signal handlers,
// without allocation or locks.
#pragma once

#include <atomic>
#include <cstdint>

namespace longhaul {

struct StackArea {
  static constexpr int kThreads = 64, kFrames = 40;
  struct Thread {
    int64_t thread;
    char name[16], state[8], waits[48];  // from /proc; terminated by 0
    int64_t count;                       // of frames; −1: it did not answer
    uint64_t frames[kFrames];            // addresses, innermost first
  };
  std::atomic<int64_t> begun, answers;  // counts of requests; equal: `threads` is complete
  std::atomic<int64_t> count;           // of threads
  std::atomic<int64_t> crashed;         // the signal that ended the process; 0: `threads` belong to a request
  Thread threads[kThreads];
};

}  // namespace longhaul
