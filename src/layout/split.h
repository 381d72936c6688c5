// Even splits of a range: how anything one-dimensional is distributed over ranks. `parts` pieces whose
// lengths differ by at most one, longer ones first; pieces are empty when there are more parts than units.
// Pure functions of integers.
#pragma once

#include <cstdint>

namespace longhaul::layout {

struct Range {
  int64_t begin = 0;
  int64_t length = 0;
  int64_t end() const { return begin + length; }
  bool operator==(const Range&) const = default;
};

Range even_part(int64_t total, int64_t parts, int64_t index);
Range even_part(Range whole, int64_t parts, int64_t index,
                int64_t unit = 1);  // cuts at whole units; length is a multiple of unit
// The index of the part that contains `element`.
int64_t even_owner(int64_t total, int64_t parts, int64_t element);

}  // namespace longhaul::layout
