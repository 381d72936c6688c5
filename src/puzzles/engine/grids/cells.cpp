#include "puzzles/engine/grids/cells.h"

#include <algorithm>

#include "base/error.h"

namespace longhaul::puzzles {

Neighbours::Neighbours(int64_t rows, int64_t columns) : columns_(columns) {
  LONGHAUL_ASSERT(rows >= 1 && columns >= 1 && columns < 64 && rows * columns <= kMostCells, "{} x {}", rows,
                  columns);
  for (int64_t cell = 0; cell < rows * columns; ++cell) {
    all_.add(cell);
    if (cell % columns != 0) not_first_.add(cell);
    if (cell % columns != columns - 1) not_last_.add(cell);
  }
  beside_.resize(static_cast<size_t>(rows * columns));
  around_.resize(static_cast<size_t>(rows * columns));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      const auto cell = static_cast<size_t>(r * columns + c);
      for (int64_t y = std::max<int64_t>(r - 1, 0); y <= std::min(r + 1, rows - 1); ++y) {
        for (int64_t x = std::max<int64_t>(c - 1, 0); x <= std::min(c + 1, columns - 1); ++x) {
          if (y == r && x == c) continue;
          around_[cell].add(y * columns + x);
          if (y == r || x == c) beside_[cell].add(y * columns + x);
        }
      }
    }
  }
}

CellSet Neighbours::beside_any(const CellSet& cells) const {
  return ((cells & not_last_).forward(1) | (cells & not_first_).backward(1) | cells.forward(columns_) |
          cells.backward(columns_)) &
         all_;
}

CellSet Neighbours::around_any(const CellSet& cells) const {
  const CellSet wide = cells | (cells & not_last_).forward(1) | (cells & not_first_).backward(1);
  return (wide | wide.forward(columns_) | wide.backward(columns_)) & all_;
}

CellSet Neighbours::connected(int64_t from, const CellSet& within) const {
  CellSet reached;
  reached.add(from);
  for (CellSet edge = reached; !edge.empty();) {
    edge = (beside_any(edge) & within).without(reached);
    reached |= edge;
  }
  return reached;
}

CellSet Neighbours::touching(int64_t from, const CellSet& within) const {
  CellSet reached;
  reached.add(from);
  for (CellSet edge = reached; !edge.empty();) {
    edge = (around_any(edge) & within).without(reached);
    reached |= edge;
  }
  return reached;
}

bool Neighbours::is_connected(const CellSet& cells) const {
  return cells.empty() || connected(cells.first(), cells) == cells;
}

}  // namespace longhaul::puzzles
