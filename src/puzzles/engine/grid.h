// Grids as tasks hold them: rows of cells in one vector, and how they come from and go to JSON, answers and prompts.
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
  const Cell& at(int64_t row, int64_t column) const { return cells[static_cast<size_t>(row * columns + column)]; }
  bool holds(int64_t row, int64_t column) const { return row >= 0 && row < rows && column >= 0 && column < columns; }
  bool operator==(const Grid&) const = default;
};

using NumberGrid = Grid<int64_t>;

inline constexpr int64_t kBlank = -1;  // a cell that a puzzle leaves open

// [[5, "X"], …] with `blank` for open cells; kData errors name `where`. Sides of 1 to `most`.
NumberGrid number_grid(const nlohmann::json& json, const std::string& where, int64_t most, const std::string& blank = "X");
nlohmann::json grid_json(const NumberGrid& grid, const std::string& blank = "X");

// An answer of whole numbers only, in rows of one length. Word cells that `blank` names are kBlank.
std::optional<NumberGrid> answered_grid(std::string_view payload, const std::string& blank = "");

std::string grid_lines(const NumberGrid& grid, const std::string& blank = "X");    // "5 X\n3 1", columns aligned
std::string grid_payload(const NumberGrid& grid, const std::string& blank = "X");  // "[[5, 6], [3, 1]]"

// The eight ways to turn and mirror a grid (four for one that is not square), the first being the grid itself.
std::vector<NumberGrid> turned(const NumberGrid& grid);

}  // namespace longhaul::puzzles
