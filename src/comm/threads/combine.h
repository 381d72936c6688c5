// The arithmetic of reductions, and copying: one pass over a run of elements that lie at the same positions
// of several tensors. The result depends on the values alone, not on which thread computes it or how the
// run was cut into pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/call.h"
#include "tensor/tensor.h"

namespace longhaul::comm {

// Every target ← sources[0] ∘ sources[1] ∘ … element by element, combined in this order. A target may be
// one of the sources.
struct Piece {
  std::vector<const std::byte*> sources;
  std::vector<std::byte*> targets;
  int64_t elements = 0;
  ScalarType type = at::kFloat;
  Reduction reduction = Reduction::kSum;
};

bool can_combine(ScalarType type, Reduction reduction);
void combine(const Piece& piece);  // with one source, of any dtype: a copy

}  // namespace longhaul::comm
