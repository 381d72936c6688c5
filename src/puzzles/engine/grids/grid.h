// Grids as tasks hold them: rows of cells in one vector, and how they come from and go to JSON, answers and
// prompts.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace longhaul::puzzles {

template <class Cell>
struct Grid {
  int64_t rows = 0, columns = 0;
  std::vector<Cell> cells;

  Grid() = default;
  Grid(int64_t row_count, int64_t column_count, Cell cell = {})
      : rows(row_count), columns(column_count), cells(static_cast<size_t>(row_count * column_count), cell) {}
  Cell& at(int64_t row, int64_t column) { return cells[static_cast<size_t>(row * columns + column)]; }
  const Cell& at(int64_t row, int64_t column) const {
    return cells[static_cast<size_t>(row * columns + column)];
  }
  bool holds(int64_t row, int64_t column) const {
    return row >= 0 && row < rows && column >= 0 && column < columns;
  }
  bool operator==(const Grid&) const = default;
};

using NumberGrid = Grid<int64_t>;

inline constexpr int64_t kBlank = -1;  // a cell that a puzzle leaves open

// [[5, "X"], …] with `blank` for open cells; kData errors name `where`. Sides of 1 to `most`.
NumberGrid number_grid(const nlohmann::json& json, const std::string& where, int64_t most,
                       const std::string& blank = "X");
nlohmann::json grid_json(const NumberGrid& grid, const std::string& blank = "X");

// An answer of whole numbers only, in rows of one length. Word cells that `blank` names are kBlank.
std::optional<NumberGrid> answered_grid(std::string_view payload, const std::string& blank = "");

// "5 X\n3 1", columns aligned
std::string grid_lines(const NumberGrid& grid, const std::string& blank = "X");
std::string grid_payload(const NumberGrid& grid, const std::string& blank = "X");  // "[[5, 6], [3, 1]]"

// The eight ways to turn and mirror a grid (four for one that is not square), the first being the grid
// itself.
template <class Cell>
std::vector<Grid<Cell>> turned(const Grid<Cell>& grid) {
  std::vector<Grid<Cell>> all;
  Grid<Cell> now = grid;
  for (int turn = 0; turn < 4; ++turn) {
    if (now.rows == grid.rows && now.columns == grid.columns) {
      all.push_back(now);
      Grid<Cell>& mirrored = all.emplace_back(now.rows, now.columns);
      for (int64_t r = 0; r < now.rows; ++r) {
        for (int64_t c = 0; c < now.columns; ++c) mirrored.at(r, now.columns - 1 - c) = now.at(r, c);
      }
    }
    Grid<Cell> quarter(now.columns, now.rows);
    for (int64_t r = 0; r < now.rows; ++r) {
      for (int64_t c = 0; c < now.columns; ++c) quarter.at(c, now.rows - 1 - r) = now.at(r, c);
    }
    now = quarter;
  }
  return all;
}
// The same ways for places: [way][place] is where the cell of that place comes to stand.
std::vector<std::vector<int64_t>> turned_places(int64_t rows, int64_t columns);

// The least text, a character a cell, of those of a grid's eight ways (four: it is not square, or
// `quarter_turns` is false). `reader()` gives for each way a function from a cell of the grid to its
// character; it is called in the order of the text, so that it may rename what it meets.
template <class Reader>
std::string least_turned(int64_t rows, int64_t columns, bool quarter_turns, const Reader& reader) {
  std::string least, text;
  for (int way = 0; way < (rows == columns && quarter_turns ? 8 : 4); ++way) {
    auto character = reader();
    bool smaller = way == 0;
    text.clear();
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        const int64_t y = way % 2 == 1 ? rows - 1 - r : r, x = way / 2 % 2 == 1 ? columns - 1 - c : c;
        const char one = character(static_cast<size_t>(way < 4 ? y * columns + x : x * columns + y));
        const char other = smaller ? one : least[text.size()];
        if (one != other && static_cast<unsigned char>(one) > static_cast<unsigned char>(other)) goto next;
        smaller |= one != other;
        text += one;
      }
    }
    if (smaller) least.swap(text);
  next:;
  }
  return least;
}

// A grid of numbers as a text; the least of those of its eight (or four) ways, equal for grids that are one
// when turned or mirrored.
std::string canonical_grid(const NumberGrid& grid);

}  // namespace longhaul::puzzles
