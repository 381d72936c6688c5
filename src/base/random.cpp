#include "base/random.h"

#include <xxhash.h>

#include <bit>
#include <cmath>
#include <numbers>
#include <numeric>
#include <string>
#include <utility>

#include "base/error.h"

namespace longhaul {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;  // golden ratio, sqrt(3) - 1
constexpr int kPhiloxRounds = 10;

// Smaller permutations are drawn by a shuffle, because a small Feistel network mixes badly.
constexpr uint64_t kShuffledSize = 64;
constexpr int kFeistelRounds = 6;

uint64_t join(uint32_t low, uint32_t high) { return uint64_t{high} << 32 | low; }
double unit_interval(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

}  // namespace

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t product0 = uint64_t{kMultiplier0} * counter[0];
    const uint64_t product1 = uint64_t{kMultiplier1} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

RandomStream::RandomStream(uint64_t seed, std::string_view name) {
  // little-endian machines only, as everywhere
  std::string text(reinterpret_cast<const char*>(&seed), sizeof seed);
  text += name;
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  key_ = {static_cast<uint32_t>(hash.low64), static_cast<uint32_t>(hash.low64 >> 32)};
  high_ = {static_cast<uint32_t>(hash.high64), static_cast<uint32_t>(hash.high64 >> 32)};
}

std::array<uint32_t, 4> RandomStream::block(uint64_t index) const {
  return philox4x32({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), high_[0], high_[1]},
                    key_);
}

uint64_t RandomStream::bits(uint64_t index) const {
  const auto words = block(index);
  return join(words[0], words[1]);
}

double RandomStream::uniform(uint64_t index) const { return unit_interval(bits(index)); }

double RandomStream::normal(uint64_t index) const {
  const auto words = block(index);
  // (0, 1]: the logarithm is finite
  const double radius_uniform = 1.0 - unit_interval(join(words[0], words[1]));
  const double angle_uniform = unit_interval(join(words[2], words[3]));
  return std::sqrt(-2.0 * std::log(radius_uniform)) * std::cos(2.0 * std::numbers::pi * angle_uniform);
}

uint64_t RandomStream::below(uint64_t index, uint64_t bound) const {
  LONGHAUL_ASSERT(bound > 0, "a number below 0");
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>(Wide{bits(index)} * bound >> 64);
}

uint64_t permutation_at(const RandomStream& stream, uint64_t size, uint64_t index) {
  LONGHAUL_ASSERT(index < size, "index {} size {}", index, size);
  if (size <= kShuffledSize) {
    std::array<uint8_t, kShuffledSize> order;
    std::iota(order.begin(), order.end(), uint8_t{0});
    for (uint64_t last = size - 1; last > 0; --last)
      std::swap(order[last], order[stream.below(last, last + 1)]);
    return order[index];
  }
  const int half_bits = (std::bit_width(size - 1) + 1) / 2;
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  do {  // a value outside [0, size) walks on along its cycle until it is inside: still a bijection
    uint64_t left = index >> half_bits, right = index & mask;
    for (uint64_t round = 0; round < kFeistelRounds; ++round) {
      const uint64_t mixed = left ^ (stream.bits(round << 32 | right) & mask);
      left = right;
      right = mixed;
    }
    index = left << half_bits | right;
  } while (index >= size);
  return index;
}

}  // namespace longhaul
