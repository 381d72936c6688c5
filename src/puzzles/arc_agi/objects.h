// Objects of a grid: sets of cells that are not 0 and hang together by their sides, in the order of their
// first cells.
#pragma once

#include <vector>

#include "puzzles/engine/grids/grid.h"

namespace longhaul::puzzles::arc_agi {

struct Object {
  std::vector<size_t> cells;
};
std::vector<Object> objects_of(const NumberGrid& grid);
bool touches_border(const NumberGrid& grid, const Object& object);
NumberGrid only(const NumberGrid& grid, const std::vector<Object>& objects);  // everything else becomes 0
// The part between the outermost of these cells.
NumberGrid cropped(const NumberGrid& grid, const std::vector<size_t>& cells);

}  // namespace longhaul::puzzles::arc_agi
