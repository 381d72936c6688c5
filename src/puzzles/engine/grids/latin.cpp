#include "puzzles/engine/grids/latin.h"

namespace longhaul::puzzles {
namespace {

bool fill(NumberGrid& grid, LatinCells& cells, int64_t cell, Draw& draw) {
  if (cell == grid.rows * grid.columns) return true;
  const int64_t row = cell / grid.columns, column = cell % grid.columns;
  std::vector<int64_t> numbers;
  for (int64_t number = 1; number <= grid.rows; ++number) {
    if ((cells.free(row, column) >> number & 1) != 0) numbers.push_back(number);
  }
  draw.shuffle(numbers);
  for (const int64_t number : numbers) {
    cells.put(row, column, number);
    grid.at(row, column) = number;
    if (fill(grid, cells, cell + 1, draw)) return true;
    cells.take(row, column, number);
  }
  return false;
}

}  // namespace

NumberGrid random_latin_square(int64_t side, Draw& draw) {
  NumberGrid grid(side, side);
  LatinCells cells(side);
  fill(grid, cells, 0, draw);
  return grid;
}

Verdict judged_as_latin(const NumberGrid& grid) {
  std::vector<uint64_t> rows(static_cast<size_t>(grid.rows)), columns(static_cast<size_t>(grid.columns));
  for (int64_t r = 0; r < grid.rows; ++r) {
    for (int64_t c = 0; c < grid.columns; ++c) {
      const int64_t number = grid.at(r, c);
      if (number < 1 || number > grid.rows)
        return {VerdictCode::kRuleBroken,
                fmt::format("{} in row {}, column {} is not from 1 to {}", number, r + 1, c + 1, grid.rows)};
      const uint64_t bit = uint64_t{1} << number;
      if ((rows[static_cast<size_t>(r)] & bit) != 0)
        return {VerdictCode::kRuleBroken, fmt::format("{} stands twice in row {}", number, r + 1)};
      if ((columns[static_cast<size_t>(c)] & bit) != 0)
        return {VerdictCode::kRuleBroken, fmt::format("{} stands twice in column {}", number, c + 1)};
      rows[static_cast<size_t>(r)] |= bit;
      columns[static_cast<size_t>(c)] |= bit;
    }
  }
  return {};
}

}  // namespace longhaul::puzzles
