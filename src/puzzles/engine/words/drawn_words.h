// Different words of the dictionary in a drawn order, for puzzles that sort them. First letters come evenly.
// Pure.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "puzzles/engine/draw.h"

namespace longhaul::puzzles {

// `shared_percent` of the words begin with the same three letters as an earlier one, as far as the dictionary
// has such words.
std::vector<std::string_view> drawn_words(int64_t count, int64_t shared_percent, Draw& draw);

}  // namespace longhaul::puzzles
