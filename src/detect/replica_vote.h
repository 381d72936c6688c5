// Who of those that should hold the same bits does not: the most frequent hash is right where more than half have it; otherwise nobody knows who is, and
// all are suspects. And who computed wrongly, when each of n has also computed what the next one did (a ring): where the two differ one of the pair is
// wrong, and whoever stands in two such pairs is it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace longhaul::detect {

struct Vote {
  bool agreed = true;
  bool majority = true;          // false: no more than half agree with each other
  std::vector<size_t> suspects;  // places; empty where all agree
};

Vote vote(std::span<const uint64_t> hashes);

// own[i]: of i's own work by i; next[i]: of the work of i + 1 (of 0 for the last), by i. One alone has computed its own twice.
Vote vote_in_ring(std::span<const uint64_t> own, std::span<const uint64_t> next);

}  // namespace longhaul::detect
