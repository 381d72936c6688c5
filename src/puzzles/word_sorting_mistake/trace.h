// The sort that the thoughts tell of, as steps: which thought comes next, and what changes with it.
#pragma once

#include <optional>

#include "puzzles/word_sorting_mistake/word_sorting_mistake.h"

namespace longhaul::puzzles::word_sorting_mistake {

// Groups in order, and how many letters of each group have been looked at.
struct State {
  Groups groups;
  std::vector<int64_t> depth;
};

State first_state(const std::vector<std::string_view>& words);
// The group that is treated next: the leftmost of several words that have not all ended; none: everything is
// in order.
std::optional<size_t> next_group(const State& state);
Thought places_of(const State& state, size_t group);
// Orders a group by the numbers that a thought names; words that it does not name are gone.
void order_group(State& state, size_t group, const std::vector<Place>& places);
std::string_view letter_of(int64_t number);  // "a" for 1, "-" for 0

}  // namespace longhaul::puzzles::word_sorting_mistake
