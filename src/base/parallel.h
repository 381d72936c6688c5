// parallel_for: the program's one pool of compute threads. It runs on OpenMP, which LibTorch's operators use too, so the
// two never compete. A call inside a parallel region runs serially. An exception of any piece is rethrown in the caller.
//
//   parallel_for(0, n, /*grain=*/1024, [&](int64_t begin, int64_t end) { … });
//
// Pieces are contiguous, at least `grain` long, and depend only on (begin, end, grain, threads()).
#pragma once

#include <cstdint>
#include <functional>

namespace longhaul {

int threads();               // of the calling thread's pool
void set_threads(int count); // 0: all cores this process may use (affinity and cgroup quota respected)
int usable_cores();

void parallel_for(int64_t begin, int64_t end, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

}  // namespace longhaul
