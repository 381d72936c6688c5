// Votes on values that should have the same bits. vote(): the most frequent hash is right if more than half
// have it; otherwise nobody knows which is, and all are suspects. vote_in_ring(): each of n ranks has also
// computed what the next one did. Where the two hashes differ, one rank of the pair is wrong, and a rank in
// two such pairs is the wrong one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace longhaul::detect {

struct Vote {
  bool agreed = true;
  bool majority = true;          // false: no more than half agree with each other
  std::vector<size_t> suspects;  // their indices; empty where all agree
};

Vote vote(std::span<const uint64_t> hashes);

// own[i]: hash of i's own work, computed by i; next[i]: hash of the work of i + 1 (of 0 for the last),
// computed by i. A single rank has computed its own work twice.
Vote vote_in_ring(std::span<const uint64_t> own, std::span<const uint64_t> next);

}  // namespace longhaul::detect
