// Sums over rows that are the same for every number of threads: rows are cut into blocks that depend on the
// number of rows only; each block is summed by one thread, row after row, and the blocks are added in
// order.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tensor/tensor.h"

namespace longhaul::kernels {

struct RowBlocks {
  int64_t rows = 0;
  int64_t rows_each = 0;  // of a block; the last may have fewer
  int64_t count = 0;
  int64_t begin(int64_t block) const { return block * rows_each; }
  int64_t end(int64_t block) const { return std::min(rows, (block + 1) * rows_each); }
};

// About 128 blocks, of eight rows at least.
inline RowBlocks row_blocks(int64_t rows) {
  const int64_t rows_each = std::max<int64_t>(8, (rows + 127) / 128);
  return {rows, rows_each, (rows + rows_each - 1) / rows_each};
}

// Σ of the blocks' sums [blocks, columns] → [columns]; zeros when there are none.
Tensor sum_of_blocks(const Tensor& sums_bc);

}  // namespace longhaul::kernels
