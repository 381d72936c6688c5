// The assignment of ranks to nodes. A rank is a position in the mesh, not a machine: a node that replaces
// another takes over its ranks, so that all other nodes keep theirs, and what they hold in memory is where it
// is looked for. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "control/journal.h"

namespace longhaul::control {

struct Place {
  std::string node;
  int64_t slots = 1;
};

// Assigns ranks 0 … world-1 to the nodes. If `before` had the same number of ranks, its nodes keep theirs;
// otherwise the nodes are filled in the order of `places`, one whole node after the other. Returns nothing
// where there are too few slots.
std::optional<std::vector<NodeRanks>> place_ranks(int64_t world, const std::vector<Place>& places,
                                                  const std::vector<NodeRanks>& before);

std::string node_of(const std::vector<NodeRanks>& placement, int64_t rank);  // empty: no node has the rank

// Orders names by their numbers: "node-2" before "node-10".
bool natural_less(const std::string& a, const std::string& b);

}  // namespace longhaul::control
