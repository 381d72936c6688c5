// Shares: how ZeRO cuts what an arena holds over the ranks that have copies of it: into runs that follow each other in memory, one a rank, so
// one collective call brings each rank its own, and nothing is copied. A run ends between two rows of a matrix or two elements of a vector:
// optimizers that need whole rows have them, and what a rank holds of a logical tensor is a rectangle. Runs are as even as whole rows allow
// and may be empty. Pure functions of integers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "layout/split.h"

namespace longhaul::layout {

// A tensor in the arena: `rows` rows of `row` elements from element `begin` on.
struct RowsInArena {
  int64_t begin = 0, row = 1, rows = 0;
  int64_t end() const { return begin + row * rows; }
};

// `tensors` in the order of memory; what lies between them (padding) belongs to whoever has it. The shares tile [0, elements).
std::vector<Range> shares_of(std::span<const RowsInArena> tensors, int64_t elements, int64_t ranks);

}  // namespace longhaul::layout
