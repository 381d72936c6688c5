// The grid of a puzzle as a person sees it in a terminal: with lines around the boxes of a sudoku, around
// regions where the cells name theirs, else around every cell.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul::puzzles {

using TextGrid = std::vector<std::vector<std::string>>;

// The grid that a puzzle gives, cells as they are written; none: the puzzle has none.
std::optional<TextGrid> grid_of_given(const nlohmann::json& given);
std::string picture_of(std::string_view task, const nlohmann::json& given);  // empty: there is no grid

}  // namespace longhaul::puzzles
