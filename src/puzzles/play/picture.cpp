#include "puzzles/play/picture.h"

#include <fmt/format.h>

#include <algorithm>

#include "puzzles/sudoku/sudoku.h"

namespace longhaul::puzzles {
namespace {

constexpr std::string_view kRegions = "region_grid";

// As a border's four arms meet: up 1, right 2, down 4, left 8.
constexpr const char* kJoints[16] = {" ", "╵", "╶", "└", "╷", "│", "┌", "├",
                                     "╴", "┘", "─", "┴", "┐", "┤", "┬", "┼"};

size_t characters(const std::string& text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::optional<TextGrid> text_grid(const nlohmann::json& json) {
  if (!json.is_array() || json.empty()) return std::nullopt;
  TextGrid grid;
  for (const nlohmann::json& row : json) {
    if (!row.is_array() || row.empty() || row.size() != json.front().size()) return std::nullopt;
    grid.emplace_back();
    for (const nlohmann::json& cell : row) {
      if (cell.is_structured()) return std::nullopt;
      grid.back().push_back(cell.is_string() ? cell.get<std::string>() : cell.dump());
    }
  }
  return grid;
}

// Whether a line stands between two neighbours.
class Lines {
 public:
  Lines(std::string_view task, bool regions, const TextGrid& grid) : grid_(grid), regions_(regions) {
    if (task == sudoku::kTask.key) boxes_ = sudoku::boxes_of(static_cast<int64_t>(grid.size()));
  }
  bool below(int64_t row, int64_t column) const { return between(row, column, row + 1, column); }
  bool behind(int64_t row, int64_t column) const { return between(row, column, row, column + 1); }

 private:
  bool holds(int64_t row, int64_t column) const {
    return row >= 0 && column >= 0 && row < static_cast<int64_t>(grid_.size()) &&
           column < static_cast<int64_t>(grid_.front().size());
  }
  bool between(int64_t row, int64_t column, int64_t other_row, int64_t other_column) const {
    const bool here = holds(row, column), there = holds(other_row, other_column);
    if (!here || !there) return here != there;
    if (boxes_.rows > 0)
      return row / boxes_.rows != other_row / boxes_.rows ||
             column / boxes_.columns != other_column / boxes_.columns;
    if (!regions_) return true;
    return grid_[static_cast<size_t>(row)][static_cast<size_t>(column)] !=
           grid_[static_cast<size_t>(other_row)][static_cast<size_t>(other_column)];
  }

  const TextGrid& grid_;
  bool regions_;
  sudoku::Boxes boxes_;
};

std::string line_below(const Lines& lines, int64_t row, int64_t columns, size_t width) {
  std::string text;
  bool any = false;
  for (int64_t column = -1; column < columns; ++column) {
    const bool right = column + 1 < columns && lines.below(row, column + 1),
               left = column >= 0 && lines.below(row, column);
    text += kJoints[(lines.behind(row, column) ? 1 : 0) + (right ? 2 : 0) +
                    (lines.behind(row + 1, column) ? 4 : 0) + (left ? 8 : 0)];
    if (column + 1 == columns) break;
    for (size_t i = 0; i < width + 2; ++i) text += right ? "─" : " ";
    any |= right;
  }
  return any ? text + "\n" : "";
}

}  // namespace

std::optional<TextGrid> grid_of_given(const nlohmann::json& given) {
  if (!given.is_object()) return std::nullopt;
  for (const char* key : {"original_sudoku", "original_matrix", "grid", "maze", "region_grid"}) {
    if (const auto found = given.find(key); found != given.end()) {
      if (auto grid = text_grid(*found)) return grid;
    }
  }
  return std::nullopt;
}

std::string picture_of(std::string_view task, const nlohmann::json& given) {
  const std::optional<TextGrid> grid = grid_of_given(given);
  if (!grid) return "";
  size_t width = 1;
  for (const auto& row : *grid) {
    for (const std::string& cell : row) width = std::max(width, characters(cell));
  }
  const Lines lines(task, given.contains(kRegions), *grid);
  const auto rows = static_cast<int64_t>(grid->size()), columns = static_cast<int64_t>(grid->front().size());
  std::string text = line_below(lines, -1, columns, width);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = -1; column < columns; ++column) {
      text += lines.behind(row, column) ? "│" : " ";
      if (column + 1 == columns) break;
      const std::string& cell = (*grid)[static_cast<size_t>(row)][static_cast<size_t>(column + 1)];
      text += std::string(1 + width - characters(cell), ' ') + cell + " ";
    }
    text += "\n" + line_below(lines, row, columns, width);
  }
  return text;
}

}  // namespace longhaul::puzzles
