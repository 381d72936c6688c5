// Counter-based random numbers (Philox4x32-10, Salmon et al. 2011): a number is a pure function of (seed,
// stream name, position), so results never depend on the number of threads or ranks, and nothing needs to be
// saved to resume.
//
//   RandomStream stream(seed, "init/layers.3.mixer.q.weight");
//   double u = stream.uniform(i);            // the i-th number of that stream, in [0, 1)
//   auto permuted = permutation_at(seed, "data/order/epoch-2", n, i);
//
// Thread-safe: a stream is two keys and has no state.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace longhaul {

// One Philox4x32-10 block. Known value (Random123): counter 0, key 0 → 6627e8d5 e169c58d bc57ac4c 9b00dbd8.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

class RandomStream {
 public:
  RandomStream(uint64_t seed, std::string_view name);  // key = hash of name and seed

  std::array<uint32_t, 4> block(uint64_t index) const;   // 128 fresh bits
  uint64_t bits(uint64_t index) const;                   // 64 bits
  double uniform(uint64_t index) const;                  // [0, 1), 53 bits
  double normal(uint64_t index) const;                   // N(0, 1), Box–Muller on one block
  uint64_t below(uint64_t index, uint64_t bound) const;  // [0, bound), unbiased to 2^-64 (multiply-shift)

 private:
  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 2> high_;  // upper half of the counter: the stream number
};

// Element `index` of a pseudo-random permutation of [0, size): O(1), by a Feistel network with cycle walking
// (sizes up to 64: a shuffle). The stream must serve nothing else.
uint64_t permutation_at(const RandomStream& stream, uint64_t size, uint64_t index);

}  // namespace longhaul
