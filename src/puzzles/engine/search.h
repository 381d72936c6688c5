// What searches for solutions share: how many there are, as far as somebody asked, and how much work may be
// spent on the answer.
#pragma once

#include <cstdint>
#include <optional>

namespace longhaul::puzzles {

struct SearchBudget {
  int64_t nodes = 2'000'000;  // places of a search tree that are still allowed
  int64_t used = 0;
  bool spend() { return ++used <= nodes; }  // false: stop, nothing is known
  bool spent() const { return used > nodes; }
};

// How many solutions were found, and whether the search was whole. At most `limit` are looked for.
struct SolutionCount {
  int64_t found = 0;
  bool known = true;  // false: the budget was spent first
  bool unique() const { return known && found == 1; }
};

// The two questions that generators ask. `search(budget, found)` must call `found(solution)` for each
// solution, until that returns false.
template <class Solution, class Search>
SolutionCount count_with(int64_t limit, SearchBudget& budget, const Search& search) {
  SolutionCount count;
  search(budget, [&](const Solution&) { return ++count.found < limit; });
  count.known = !budget.spent();
  return count;
}

template <class Solution>
struct Other {
  std::optional<Solution> solution;
  bool known = true;  // false: the budget was spent before one was found
  bool unique() const { return known && !solution; }
};
// A solution that differs from the given one, if there is any.
template <class Solution, class Search>
Other<Solution> other_than(const Solution& given, SearchBudget& budget, const Search& search) {
  Other<Solution> other;
  search(budget, [&](const Solution& found) {
    if (found == given) return true;
    other.solution = found;
    return false;
  });
  other.known = other.solution.has_value() || !budget.spent();
  return other;
}

}  // namespace longhaul::puzzles
