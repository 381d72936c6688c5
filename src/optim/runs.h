// Where the logical tensors of a parameter lie in its storage, as runs of consecutive elements: what loops over raw memory need
// and the only way they see parts. Pure functions of the parameter's rectangles.
#pragma once

#include <cstdint>
#include <vector>

#include "model/parameter.h"

namespace longhaul::optim {

struct Run {
  int64_t begin = 0;  // element of the storage
  int64_t length = 0;
  bool operator==(const Run&) const = default;
};

// Of part `part` in parameter.value, in ascending order and as few as possible: one, unless the part is cut out of longer rows.
std::vector<Run> runs_of(const model::Parameter& parameter, size_t part);

}  // namespace longhaul::optim
