// What attention's kernels by wgmma share: warp groups and their registers, filling and emptying panels.
#pragma once

#include "kernels/attention/kernel_parts.h"
#include "kernels/cuda/barriers.h"

namespace longhaul::kernels::cuda {
namespace {

constexpr int kComputeGroups = 2, kGroupRows = 64, kComputeWarps = kComputeGroups * 4;
constexpr int kLoadRegisters = 40, kComputeRegisters = 232;                     // 168 a thread at the start: 65,536 / 384, in eights
constexpr int kTurnBarrier = 1, kGroupBarrier = kTurnBarrier + kComputeGroups;  // one for each group

// Rows first … first + kRows − 1 of a tile by kThreads threads, of which this is `thread`; rows from `rows` on are zeros. A thread keeps to
// one unit of the panels' rows, and to rows with one remainder by 8, so that the swizzle is computed once.
template <int kRows, int kThreads, int kTileRows, int kWidth>
LONGHAUL_DEVICE void load_panels(Panels<kTileRows, kWidth> tile, const Side& side, int64_t token, int head, int first, int rows,
                                 int thread) {
  constexpr int kUnits = kPanelColumns / kUnit, kStep = kThreads / kUnits;
  static_assert(kStep % 8 == 0 && kRows % kStep == 0);
  const int unit = thread % kUnits * kUnit, begin = first + thread / kUnits;
  LONGHAUL_ROLL
  for (int panel = 0; panel < kWidth; panel += kPanelColumns) {
    Bf16* to = tile.at(begin, panel + unit);
    const int last = panel + unit < side.width ? rows : 0;
    int64_t from = side.at(token + begin, head) - side.data + panel + unit;
    LONGHAUL_UNROLL_BY_4
    for (int row = begin; row < first + kRows; row += kStep) {
      copy_async(to, side.data + (row < last ? from : 0), row < last ? 16 : 0);
      to += kStep * kPanelColumns;
      from += kStep * side.stride();
    }
  }
}
// Of this thread's copies: products may read them after a barrier.
LONGHAUL_DEVICE void finish_panels() {
  end_copy_group();
  wait_for_copies<0>();
  fence_async_proxy();
}

// One arrival a warp, when all its lanes are through.
LONGHAUL_DEVICE void release(PhaseBarrier& barrier) {
  synchronize_warp();
  if (lane_index() == 0) barrier.arrive();
}

template <int kColumns>
LONGHAUL_DEVICE void scale_rows(float (&o)[kColumns][4], const float (&factor)[2]) {
  LONGHAUL_UNROLL
  for (int column = 0; column < kColumns; ++column) {
    LONGHAUL_UNROLL
    for (int i = 0; i < 4; ++i) o[column][i] *= factor[i >> 1];
  }
}

// Columns of 64 rows of a warp group to global memory, by way of rows row0 … of `own`, which is of no more use to this warp.
template <class Rows, int kColumns, class RowPointer>
LONGHAUL_DEVICE void store_panels(Rows own, int row0, const float (&x)[kColumns][4], int rows, int cols, const RowPointer& row_pointer) {
  LONGHAUL_UNROLL
  for (int col = 0; col < kColumns * 8; col += kPanelColumns) {
    store_rows(own.panel(col), row0, 0, reinterpret_cast<const float(&)[kPanelColumns / 8][4]>(x[col / 8]), rows, cols - col,
               [&](int row) { return row_pointer(row) + col; });
  }
}

}  // namespace
}  // namespace longhaul::kernels::cuda
