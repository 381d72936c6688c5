// Shares: how ZeRO cuts the contents of an arena over the ranks that have copies of it: into contiguous runs,
// one per rank, so that one collective call brings each rank its own run without copying. A run ends between
// two rows of a matrix or two elements of a vector, so that optimizers that need whole rows have them, and a
// rank's part of a logical tensor is a rectangle. Runs are as even as whole rows allow and may be empty. Pure
// functions of integers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "layout/split.h"

namespace longhaul::layout {

// RowsInArena: a tensor in the arena: `rows` rows of `row` elements from element `begin` on.
struct RowsInArena {
  int64_t begin = 0, row = 1, rows = 0;
  int64_t end() const { return begin + row * rows; }
};

// `tensors` are in the order of memory; padding between them belongs to the share that contains it. The
// shares tile [0, elements).
std::vector<Range> shares_of(std::span<const RowsInArena> tensors, int64_t elements, int64_t ranks);

}  // namespace longhaul::layout
