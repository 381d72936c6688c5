// What searches for solutions share: how many there are, as far as somebody asked, and how much work may be spent on the answer.
#pragma once

#include <cstdint>

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

}  // namespace longhaul::puzzles
