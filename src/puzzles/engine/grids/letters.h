// Grids whose cells are single letters, as they come from and go to JSON, answers and prompts: [["T", "X"],
// ["X", "X"]].
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "puzzles/engine/grids/grid.h"

namespace longhaul::puzzles {

using LetterGrid = Grid<char>;

// Rows of one length, with sides of 1 to `most`, of letters that `allowed` holds; kData errors name `where`.
LetterGrid letter_grid(const nlohmann::json& json, const std::string& where, int64_t most,
                       std::string_view allowed);
nlohmann::json letters_json(const LetterGrid& grid);

// An answer in rows of one length whose cells are all one of the letters `allowed`.
std::optional<LetterGrid> answered_letters(std::string_view payload, std::string_view allowed);

std::string letter_lines(const LetterGrid& grid);     // "T X\nX X"
std::string letters_payload(const LetterGrid& grid);  // [["T", "X"], ["X", "X"]]

}  // namespace longhaul::puzzles
