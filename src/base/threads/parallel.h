// parallel_for: the program's only pool of compute threads. It runs on OpenMP, which LibTorch's operators use
// too, so the two never compete. A call inside a parallel region runs serially. An exception in any piece is
// rethrown in the caller.
//
//   parallel_for(0, n, /*grain=*/1024, [&](int64_t begin, int64_t end) { … });
//
// Pieces are contiguous, at least `grain` long, and depend only on (begin, end, grain, threads()).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>

namespace longhaul {

int threads();                // of the calling thread's pool
void set_threads(int count);  // 0: all cores this process may use (affinity and cgroup quota respected)
int usable_cores();

// Call it first in main. GNU OpenMP's threads spin while they wait, for so long that any other busy process
// makes a training step several times slower (docs/design/threads.md), and OpenMP reads its settings before
// main. Therefore the program restarts itself with GOMP_SPINCOUNT=1000 in its environment. It returns if
// OMP_WAIT_POLICY or GOMP_SPINCOUNT is already set, or if the program cannot be restarted.
void let_waiting_threads_sleep(char** arguments);

void parallel_for(int64_t begin, int64_t end, int64_t grain,
                  const std::function<void(int64_t, int64_t)>& body);

// One parallel region in which at most `workers` threads take items 0, 1, … in order until none is left, for
// items of different cost. `thread` runs once on each thread and makes what it needs there:
//
//   parallel_items(items, threads(), [&](const auto& each) { Worker worker(job); each([&](int64_t item) {
//       worker.run(item); }); });
template <class Thread>
void parallel_items(int64_t items, int64_t workers, const Thread& thread) {
  std::atomic<int64_t> next{0};
  parallel_for(0, std::min(items, workers), 1, [&](int64_t, int64_t) {
    thread([&](auto&& body) {
      for (int64_t item = next++; item < items; item = next++) body(item);
    });
  });
}

// Number of parallel_for regions that this thread has opened; at the end of each, all threads wait for the
// last.
int64_t parallel_regions();

}  // namespace longhaul
