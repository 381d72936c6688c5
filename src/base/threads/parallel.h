// parallel_for: the program's one pool of compute threads. It runs on OpenMP, which LibTorch's operators use too, so the
// two never compete. A call inside a parallel region runs serially. An exception of any piece is rethrown in the caller.
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

// First thing in main. GNU OpenMP's threads spin while they wait, for so long that any other busy process makes a training step several
// times slower (docs/design/threads.md), and it reads its settings before main: so the program starts anew with GOMP_SPINCOUNT=1000 in
// its environment. Returns when OMP_WAIT_POLICY or GOMP_SPINCOUNT is set already, or when the program cannot be started anew.
void let_waiting_threads_sleep(char** arguments);

void parallel_for(int64_t begin, int64_t end, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

// One parallel region in which at most `workers` threads take items 0, 1, … in order until none is left: for items of unlike cost. `thread` runs
// once on each of them and makes what it works with:
//
//   parallel_items(items, threads(), [&](const auto& each) { Worker worker(job); each([&](int64_t item) { worker.run(item); }); });
template <class Thread>
void parallel_items(int64_t items, int64_t workers, const Thread& thread) {
  std::atomic<int64_t> next{0};
  parallel_for(0, std::min(items, workers), 1, [&](int64_t, int64_t) {
    thread([&](auto&& body) {
      for (int64_t item = next++; item < items; item = next++) body(item);
    });
  });
}

int64_t parallel_regions();  // that this thread has opened with parallel_for so far: at each, all threads wait for the last one

}  // namespace longhaul
