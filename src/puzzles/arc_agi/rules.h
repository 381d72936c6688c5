// The rules that ARC puzzles of our own are made of, each with its parameters: a function from grid to grid.
// 0 is the background; an object is a set of cells of other colours that hang together by their sides.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "puzzles/engine/grids/grid.h"

namespace longhaul::puzzles::arc_agi {

inline constexpr int64_t kLongestSide = 30;

struct Rule {
  std::string name;  // "gravity down", "recolour 3 4"
  // None: the rule says nothing of such a grid, or the result is too large.
  std::function<std::optional<NumberGrid>(const NumberGrid& grid)> apply;
};
std::span<const Rule> rules();

// Whether all sequences of at most `depth` rules that turn the inputs shown into their outputs turn `test`
// into `output`.
struct Demonstration {
  const NumberGrid* input = nullptr;
  const NumberGrid* output = nullptr;
};
bool agree_on(std::span<const Demonstration> shown, const NumberGrid& test, const NumberGrid& output,
              int64_t depth);

}  // namespace longhaul::puzzles::arc_agi
