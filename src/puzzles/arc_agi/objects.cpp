#include "puzzles/arc_agi/objects.h"

#include <algorithm>

namespace longhaul::puzzles::arc_agi {

std::vector<Object> objects_of(const NumberGrid& grid) {
  std::vector<Object> objects;
  std::vector<bool> known(grid.cells.size(), false);
  for (size_t first = 0; first < grid.cells.size(); ++first) {
    if (grid.cells[first] == 0 || known[first]) continue;
    Object object{{first}};
    known[first] = true;
    for (size_t next = 0; next < object.cells.size(); ++next) {
      const int64_t row = static_cast<int64_t>(object.cells[next]) / grid.columns,
                    column = static_cast<int64_t>(object.cells[next]) % grid.columns;
      for (const auto& [dr, dc] : {std::pair<int64_t, int64_t>{0, 1}, {1, 0}, {0, -1}, {-1, 0}}) {
        if (!grid.holds(row + dr, column + dc)) continue;
        const auto cell = static_cast<size_t>((row + dr) * grid.columns + column + dc);
        if (grid.cells[cell] == 0 || known[cell]) continue;
        known[cell] = true;
        object.cells.push_back(cell);
      }
    }
    objects.push_back(std::move(object));
  }
  return objects;
}

bool touches_border(const NumberGrid& grid, const Object& object) {
  return std::ranges::any_of(object.cells, [&](size_t cell) {
    const int64_t row = static_cast<int64_t>(cell) / grid.columns,
                  column = static_cast<int64_t>(cell) % grid.columns;
    return row == 0 || column == 0 || row + 1 == grid.rows || column + 1 == grid.columns;
  });
}

NumberGrid only(const NumberGrid& grid, const std::vector<Object>& objects) {
  NumberGrid out(grid.rows, grid.columns);
  for (const Object& object : objects) {
    for (const size_t cell : object.cells) out.cells[cell] = grid.cells[cell];
  }
  return out;
}

NumberGrid cropped(const NumberGrid& grid, const std::vector<size_t>& cells) {
  int64_t top = grid.rows, left = grid.columns, bottom = -1, right = -1;
  for (const size_t cell : cells) {
    const int64_t row = static_cast<int64_t>(cell) / grid.columns,
                  column = static_cast<int64_t>(cell) % grid.columns;
    top = std::min(top, row), bottom = std::max(bottom, row);
    left = std::min(left, column), right = std::max(right, column);
  }
  NumberGrid out(bottom - top + 1, right - left + 1);
  for (int64_t r = top; r <= bottom; ++r) {
    for (int64_t c = left; c <= right; ++c) out.at(r - top, c - left) = grid.at(r, c);
  }
  return out;
}

}  // namespace longhaul::puzzles::arc_agi
