// The order of the passes of one rank for each method, without transfers. Called by passes_of() (schedule.h).
#pragma once

#include <vector>

#include "layout/schedule/schedule.h"

namespace longhaul::layout {

using Passes = std::vector<Action>;

Passes gpipe_passes(int64_t rank, int64_t ranks, int64_t micro_batches);
Passes one_forward_one_backward(int64_t rank, int64_t ranks, int64_t micro_batches);
// `run`: consecutive micro-batches of a chunk before the next chunk (N of docs/sources/megascale.md §10.2).
Passes interleaved_passes(int64_t rank, int64_t ranks, int64_t chunks, int64_t micro_batches, int64_t run);
int64_t interleaved_warm_up(int64_t rank, int64_t ranks, int64_t chunks, int64_t micro_batches, int64_t run);
// The shortest allowed run; 0: none is allowed.
int64_t interleaved_run(int64_t ranks, int64_t micro_batches);
Passes zero_bubble_h1(int64_t rank, int64_t ranks, int64_t micro_batches);
Passes zero_bubble_v(int64_t rank, int64_t ranks, int64_t micro_batches);
Passes dual_pipe(int64_t rank, int64_t ranks, int64_t micro_batches);

}  // namespace longhaul::layout
