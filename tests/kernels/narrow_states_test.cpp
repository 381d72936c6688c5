// Narrow optimizer states: the map is the published one, what comes back lies within a neighbour of what was
// kept and is right in the mean, and every instruction set gives the bits of a plain reference.
#include "kernels/quantized_state/loops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "kernels/quantized_state/code_map.h"
#include "support/instruction_sets.h"
#include "support/tensors.h"

namespace longhaul::kernels::narrow_states_test {
namespace {

using longhaul::testing::for_each_instruction_set;
using longhaul::testing::random_tensor;

// docs/sources/optimizers.md §8, §12.
TEST(CodeMap, KnownValues) {
  for (const CodeMap* map : {&signed_map(), &unsigned_map()}) {
    EXPECT_TRUE(std::ranges::is_sorted(map->values));
    EXPECT_EQ(std::ranges::adjacent_find(map->values), map->values.end()) << "256 different numbers";
    EXPECT_EQ(map->values.back(), 1.0f);
    EXPECT_EQ(std::ranges::count(map->values, 0.0f), 1);
  }
  EXPECT_FLOAT_EQ(signed_map().values.front(), -0.99296875f);
  EXPECT_EQ(std::ranges::count_if(signed_map().values, [](float x) { return x > 0; }), 128);
  EXPECT_EQ(std::ranges::count_if(signed_map().values, [](float x) { return x < 0; }), 127);
  EXPECT_FLOAT_EQ(signed_map().values[128], 0.55e-6f)
      << "the least decade has one number: the middle of (0.1, 1) times 1e-6";
  EXPECT_FLOAT_EQ(signed_map().values[129], 3.25e-6f);
  EXPECT_FLOAT_EQ(signed_map().values[130], 7.75e-6f);
  EXPECT_FLOAT_EQ(unsigned_map().values[1], 3.25e-7f);
  EXPECT_FLOAT_EQ(unsigned_map().values[2], 7.75e-7f);
  EXPECT_FLOAT_EQ(unsigned_map().values[254], 0.996484375f);
}

// What loops.h promises, in plain words.
uint32_t plain_bits(uint64_t key, int64_t place) {
  uint32_t h = static_cast<uint32_t>(place) * 0x9E3779B9u + static_cast<uint32_t>(key);
  h ^= h >> 16;
  h = h * 0x85EBCA6Bu ^ static_cast<uint32_t>(key >> 32);
  h ^= h >> 13;
  h *= 0xC2B2AE35u;
  return h ^ h >> 16;
}

uint8_t plain_code(float x, Signs signs, uint32_t random) {
  const auto& values = (signs == Signs::kBoth ? signed_map() : unsigned_map()).values;
  const float size = std::abs(x), share = static_cast<float>(random >> 8) * 0x1p-24f;
  std::vector<float> sizes;
  for (const float value : values) {
    if (value >= 0) sizes.push_back(value);
  }
  auto above = static_cast<int>(std::ranges::upper_bound(sizes, size) - sizes.begin());
  int place = above - 1;
  if (above < static_cast<int>(sizes.size())) {
    const float low = sizes[static_cast<size_t>(place)], high = sizes[static_cast<size_t>(above)];
    if (share * (high - low) < size - low) place = above;
  }
  if (signs == Signs::kPositive) return static_cast<uint8_t>(size > 0 ? std::max(place, 1) : place);
  return static_cast<uint8_t>(x < 0 ? 127 - std::min(place, 127) : 127 + place);
}

template <class Real>
std::vector<Real> numbers(int64_t count, uint64_t seed, Signs signs) {
  std::vector<Real> result(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {  // over nine decades
    const double x = random_tensor({1}, seed * 1000 + static_cast<uint64_t>(i)).item<double>();
    const double size = x * std::pow(10.0, -static_cast<double>(i % 10));
    result[static_cast<size_t>(i)] = static_cast<Real>(signs == Signs::kBoth ? size : size * size);
  }
  return result;
}

template <class Real>
void expect_reference(int64_t count, Signs signs) {
  constexpr uint64_t kKey = 0x123456789abcdef0;
  const std::vector<Real> x = numbers<Real>(count, 7, signs);
  std::vector<uint8_t> codes(static_cast<size_t>(count) + 1, 77);
  const float scale = narrow_loops<Real>().encode(x.data(), count, signs, kKey, codes.data());
  EXPECT_EQ(codes.back(), 77) << "nothing behind the run is written";
  std::vector<Real> back(static_cast<size_t>(count) + 1, 99);
  narrow_loops<Real>().decode(codes.data(), scale, count, signs, back.data());
  EXPECT_EQ(back.back(), 99);
  Real largest = 0;
  for (const Real each : x) largest = std::abs(each) > std::abs(largest) ? each : largest;
  EXPECT_EQ(scale, static_cast<float>(largest));
  const auto& values = (signs == Signs::kBoth ? signed_map() : unsigned_map()).values;
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    const auto scaled = static_cast<float>(x[at] / static_cast<Real>(scale));
    ASSERT_EQ(codes[at], plain_code(scaled, signs, plain_bits(kKey, i))) << i << " " << x[at];
    ASSERT_EQ(back[at], static_cast<Real>(values[codes[at]]) * static_cast<Real>(scale));
    // Within the gap that it lies in.
    const size_t low = codes[at] == 0 ? 0 : codes[at] - 1u, high = std::min<size_t>(codes[at] + 1u, 255);
    ASSERT_GE(scaled, values[low]);
    ASSERT_LE(scaled, values[high]);
  }
}

TEST(NarrowStates, CodesAreThoseOfThePlainReference) {
  const longhaul::testing::PoisonFreshMemory poison;
  for_each_instruction_set([] {
    for (const int64_t count : {1, 2, 15, 16, 17, 255, 256}) {
      for (const Signs signs : {Signs::kBoth, Signs::kPositive}) {
        expect_reference<float>(count, signs);
        expect_reference<double>(count, signs);
      }
    }
  });
}

TEST(NarrowStates, LargestZeroAndDenormalsAreExact) {
  for (const float largest : {3.7f, -2.9e-20f, 1e30f}) {
    const std::vector<float> x = {0, largest, largest / 2, 0, -largest / 3};
    std::vector<uint8_t> codes(5);
    std::vector<float> back(5);
    const float scale = narrow_loops<float>().encode(x.data(), 5, Signs::kBoth, 1, codes.data());
    narrow_loops<float>().decode(codes.data(), scale, 5, Signs::kBoth, back.data());
    EXPECT_EQ(back[1], largest);
    EXPECT_EQ(back[0], 0);
    EXPECT_NEAR(back[2] / largest, 0.5, 0.015);
  }
  for (const float tiny : {0.0f, 1e-40f}) {
    const std::vector<float> x = {tiny, 0, tiny};
    std::vector<uint8_t> codes(3);
    std::vector<float> back(3, 1);
    narrow_loops<float>().decode(codes.data(),
                                 narrow_loops<float>().encode(x.data(), 3, Signs::kPositive, 1, codes.data()),
                                 3, Signs::kPositive, back.data());
    EXPECT_EQ(back, std::vector<float>(3, 0));
  }
  // A second moment that is there stays there: a step is never divided by nothing.
  const std::vector<float> x = {1, 1e-12f, 0};
  std::vector<uint8_t> codes(3);
  narrow_loops<float>().encode(x.data(), 3, Signs::kPositive, 1, codes.data());
  EXPECT_EQ(codes, (std::vector<uint8_t>{255, 1, 0}));
}

// The mean over many keys is the number: 4 standard errors of at most half a gap.
TEST(NarrowStates, RoundingIsRightInTheMean) {
  constexpr int kKeys = 4000;
  const std::vector<float> x = {1, 0.3333f, -0.0717f, 0.00123f, 4.4e-6f, -0.871f};
  std::vector<double> codes_mean(x.size()), bf16_mean(x.size());
  for (int key = 0; key < kKeys; ++key) {
    std::vector<uint8_t> codes(x.size());
    std::vector<uint16_t> bf16(x.size());
    std::vector<float> back(x.size());
    const auto count = static_cast<int64_t>(x.size());
    const uint64_t bits = static_cast<uint64_t>(key) * 0x9E3779B97F4A7C15;
    narrow_loops<float>().decode(
        codes.data(), narrow_loops<float>().encode(x.data(), count, Signs::kBoth, bits, codes.data()), count,
        Signs::kBoth, back.data());
    for (size_t i = 0; i < x.size(); ++i) codes_mean[i] += static_cast<double>(back[i]) / kKeys;
    narrow_loops<float>().narrow(x.data(), count, bits, 0, bf16.data());
    narrow_loops<float>().widen(bf16.data(), count, back.data());
    for (size_t i = 0; i < x.size(); ++i) bf16_mean[i] += static_cast<double>(back[i]) / kKeys;
  }
  const auto& values = signed_map().values;
  for (size_t i = 0; i < x.size(); ++i) {
    const auto above = std::ranges::upper_bound(values, x[i]);
    const double gap = above == values.end() ? 0 : *above - *std::prev(above);
    EXPECT_NEAR(codes_mean[i], x[i], 4 * 0.5 * gap / std::sqrt(kKeys) + 1e-7) << x[i];
    EXPECT_NEAR(bf16_mean[i], x[i], 4 * 0.5 * std::abs(x[i]) * 0x1p-7 / std::sqrt(kKeys)) << x[i];
  }
}

TEST(NarrowStates, Bf16IsOneOfTheNeighboursWhicheverShareItIsIn) {
  constexpr uint64_t kKey = 42;
  for_each_instruction_set([] {
    for (const int64_t count : {1, 3, 16, 31, 200}) {
      const std::vector<float> x = numbers<float>(count, 3, Signs::kBoth);
      std::vector<uint16_t> all(static_cast<size_t>(count) + 1, 7);
      narrow_loops<float>().narrow(x.data(), count, kKey, 5, all.data());
      EXPECT_EQ(all.back(), 7);
      for (int64_t i = 0; i < count; ++i) {
        const uint32_t bits =
            std::bit_cast<uint32_t>(x[static_cast<size_t>(i)]) + (plain_bits(kKey, 5 + i) >> 16);
        ASSERT_EQ(all[static_cast<size_t>(i)], bits >> 16) << i;
      }
      // The later half by itself.
      const int64_t half = count / 2;
      std::vector<uint16_t> part(static_cast<size_t>(count - half));
      narrow_loops<float>().narrow(x.data() + half, count - half, kKey, 5 + half, part.data());
      EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + half));
      const std::vector<double> wide(x.begin(), x.end());
      std::vector<uint16_t> of_doubles(static_cast<size_t>(count));
      narrow_loops<double>().narrow(wide.data(), count, kKey, 5, of_doubles.data());
      EXPECT_TRUE(std::equal(of_doubles.begin(), of_doubles.end(), all.begin()));
    }
  });
}

}  // namespace
}  // namespace longhaul::kernels::narrow_states_test
