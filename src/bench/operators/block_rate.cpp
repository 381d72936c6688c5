#include "bench/operators/block_rate.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/threads/parallel.h"
#include "kernels/gemm/block.h"

namespace longhaul::bench {

double block_rate_bf16() {
  // Every tile divides them; A and B together are 21 KiB.
  constexpr int64_t kRows = 48, kColumns = 64, kDepth = 96, kTimes = 2000, kRounds = 20;
  double best = 0;
  for (int64_t round = 0; round < kRounds; ++round) {
    const Stopwatch watch;
    parallel_for(0, threads(), 1, [&](int64_t begin, int64_t end) {
      const kernels::BlockScope block;
      const std::vector<uint16_t> a(kRows * kDepth, 0x3f80);  // ones
      std::vector<uint16_t> panels(
          static_cast<size_t>(kernels::packed_k(kDepth) * kernels::packed_n(kColumns)));
      std::vector<float> c(kRows * kColumns);
      block->pack(a.data(), kDepth, /*transposed=*/true, kDepth, std::min(kRows, kColumns), panels.data());
      for (int64_t i = begin; i < end; ++i) {
        for (int64_t time = 0; time < kTimes; ++time)
          block->multiply(a.data(), kDepth, panels.data(), kRows, kColumns, kDepth, c.data(), kColumns);
      }
    });
    best = std::max(best, 2.0 * kRows * kColumns * kDepth * kTimes * threads() / watch.seconds());
  }
  return best;
}

}  // namespace longhaul::bench
