// StackArea: room for the stacks of a process's threads, as they were when it was asked last (SIGUSR2; base/process/diagnostics.h), or for the one of
// the thread that crashed. Trivial and of fixed size: it may lie in a SharedFile, where another process reads it. Written inside signal handlers, without allocation or locks.
#pragma once

#include <atomic>
#include <cstdint>

namespace longhaul {

struct StackArea {
  static constexpr int kThreads = 64, kFrames = 40;
  struct Thread {
    int64_t thread;
    char name[16], state[8], waits[48];  // of /proc; ended by 0
    int64_t count;                       // of frames; −1: it did not answer
    uint64_t frames[kFrames];            // addresses, innermost first
  };
  std::atomic<int64_t> begun, answers;  // requests; equal: `threads` is whole
  std::atomic<int64_t> count;           // of threads
  std::atomic<int64_t> crashed;         // the signal that the process ended by; 0: `threads` are of a request
  Thread threads[kThreads];
};

}  // namespace longhaul
