// Which node has which ranks. A rank is a place in the mesh, not a machine: a node that takes another's place takes its ranks, so that all others keep
// theirs, and what they hold in memory is where it is looked for. Pure functions.
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

// Puts ranks 0 … world-1 on the nodes, those before `before` first if it had as many ranks; else in the order of `places`, whole nodes at a time.
// Nothing where there are too few slots.
std::optional<std::vector<NodeRanks>> place_ranks(int64_t world, const std::vector<Place>& places, const std::vector<NodeRanks>& before);

std::string node_of(const std::vector<NodeRanks>& placement, int64_t rank);  // empty: none

// "node-2" before "node-10".
bool natural_less(const std::string& a, const std::string& b);

}  // namespace longhaul::control
