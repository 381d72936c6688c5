// How sums over rows are divided so that they do not depend on how blocks are scheduled. For the host and
// the device.
#pragma once

#include "kernels/cuda/fragments.h"

namespace longhaul::kernels::cuda {

// Rows are cut into at most this many runs for sums over rows; a run is added up in order, then the runs.
constexpr int kRowRuns = 512;
LONGHAUL_HD int64_t rows_per_run(int64_t rows) { return divide_up(rows > 0 ? rows : 1, kRowRuns); }
LONGHAUL_HD int64_t row_runs(int64_t rows) { return divide_up(rows, rows_per_run(rows)); }

}  // namespace longhaul::kernels::cuda
