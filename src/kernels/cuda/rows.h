// How sums over rows are divided so that they do not depend on how blocks are scheduled. For the host and
// the device.
#pragma once

#include "kernels/cuda/fragments.h"

namespace longhaul::kernels::cuda {

// Rows are cut into at most this many runs for sums over rows; a run is added up in order, then the runs.
constexpr int kRowRuns = 512;
LONGHAUL_HD int64_t rows_per_run(int64_t rows) { return divide_up(rows > 0 ? rows : 1, kRowRuns); }
LONGHAUL_HD int64_t row_runs(int64_t rows) { return divide_up(rows, rows_per_run(rows)); }

// How the threads of a block share rows that each is kept in registers: `group` threads take a row, each
// `units` units of eight channels (unit u of thread i begins at channel (u · group + i) · 8), and a block
// takes threads / group rows at a time. A group is a part of a warp, or whole warps.
struct RowShare {
  int group, threads;
};
LONGHAUL_HD RowShare row_share(int channels, int units) {
  constexpr int kThreads = 256;
  const int wanted = static_cast<int>(divide_up(divide_up(channels, kUnit), units));
  if (wanted > kWarp) {
    const int group = static_cast<int>(round_up(wanted, kWarp));
    return {group, group * (group < kThreads ? kThreads / group : 1)};
  }
  int group = 1;
  while (group < wanted) group *= 2;
  return {group, kThreads};
}

}  // namespace longhaul::kernels::cuda
