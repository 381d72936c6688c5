// How the CUDA matrix product cuts its work: blocks of 128 × 128 of the result, 64 deep at a time; for
// experts, per group of rows. Integers for the host, the device and the tests.
#pragma once

#include "kernels/cuda/fragments.h"

namespace longhaul::kernels::cuda {

constexpr int kBlockRows = 128, kBlockColumns = 128, kBlockDepth = 64, kMatmulStages = 3;
constexpr int kMatmulSharedBytes = kMatmulStages * (kBlockRows + kBlockColumns) * kBlockDepth * 2;

struct MatmulBlock {
  int group;            // expert; 0 where there is one product
  int64_t row, column;  // corner in the result (of the group)
  int64_t first, last;  // rows of the operand that belong to the group: of A, or of the depth
};

// Row blocks that all groups together can need at most: the host need not know the sizes of groups.
LONGHAUL_HD int64_t largest_row_blocks(int64_t rows, int groups) { return rows / kBlockRows + groups; }

// Block `index` of a product whose rows fall into groups, offsets[g] … offsets[g + 1]. group −1: nothing to
// do.
LONGHAUL_HD MatmulBlock row_grouped_block(int64_t index, int64_t column_blocks, const int64_t* offsets,
                                          int groups) {
  int64_t left = index / column_blocks;
  for (int g = 0; g < groups; ++g) {
    const int64_t blocks = divide_up(offsets[g + 1] - offsets[g], kBlockRows);
    if (left < blocks)
      return {g, left * kBlockRows, index % column_blocks * kBlockColumns, offsets[g], offsets[g + 1]};
    left -= blocks;
  }
  return {-1, 0, 0, 0, 0};
}
// Block `index` of products, one a group, whose depth is the group's rows.
LONGHAUL_HD MatmulBlock depth_grouped_block(int64_t index, int64_t row_blocks, int64_t column_blocks,
                                            const int64_t* offsets) {
  const int64_t area = row_blocks * column_blocks, g = index / area;
  return {static_cast<int>(g), index % area / column_blocks * kBlockRows,
          index % column_blocks * kBlockColumns, offsets[g], offsets[g + 1]};
}

}  // namespace longhaul::kernels::cuda
