// Shares of rows that go to the host, against values made by hand, against every corner of small cases, and
// against the copies' schedule walked second by second.
#include "plan/offload_split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace longhaul::plan {
namespace {

constexpr double kGiB = 1 << 30, kMuch = 1e18;

std::vector<OffloadedLayer> alike(int64_t layers, const OffloadedLayer& layer, int64_t stay = 2) {
  std::vector<OffloadedLayer> all(static_cast<size_t>(layers), layer);
  for (int64_t i = std::max<int64_t>(0, layers - stay); i < layers; ++i)
    all[static_cast<size_t>(i)].moved = false;
  return all;
}

// 32 layers of 16 GiB that go whole and 112 GiB of rows, two of which stay; 2 TiB of the host's memory; a
// link that never limits: (2048 / 30 − 16) / 112.
TEST(OffloadSplit, OfTheHostsMemory) {
  const auto layers =
      alike(32, {.whole_bytes = 16 * kGiB, .row_bytes = 112 * kGiB, .seconds = 1000, .row_seconds = 1});
  const OffloadSplit split = split_offload(layers, 1000 * kGiB, 2048 * kGiB);
  for (size_t i = 0; i < 30; ++i) EXPECT_NEAR(split.shares[i], 0.4666667, 1e-6) << i;
  EXPECT_EQ(split.shares[30], 0);
  EXPECT_EQ(split.shares[31], 0);
  EXPECT_EQ(split.stall_s, 0);
  EXPECT_EQ(split.missing_bytes, 0);
  EXPECT_NEAR(split.again_s, 30 * (1 - 0.4666667), 1e-4);
}

// The closed form of one layer's time: (B T − whole) / rows = (2 · 10 − 8) / 40.
TEST(OffloadSplit, OfALayersTime) {
  const auto layers = alike(8, {.whole_bytes = 8, .row_bytes = 40, .seconds = 10, .row_seconds = 1});
  const OffloadSplit split = split_offload(layers, 2, kMuch);
  for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(split.shares[i], 0.3, 1e-9) << i;
  EXPECT_EQ(split.stall_s, 0);
}

// A dense layer of h 4096, per token: 1.0 µs of compute, 16.4 KB that go whole, 131 − 16.4 KB of rows, 50
// GB/s: about 0.3 at any length, where a softmax layer's share grows to 1.
TEST(OffloadSplit, LinearLayersStayAtTheirShare) {
  for (const double tokens : {1e4, 1e6}) {
    OffloadedLayer linear{.whole_bytes = 16.4e3 * tokens,
                          .row_bytes = 114.6e3 * tokens,
                          .seconds = 1.0e-6 * tokens,
                          .row_seconds = 0.9e-6 * tokens};
    const OffloadSplit split = split_offload(alike(16, linear), 50e9, kMuch);
    EXPECT_NEAR(split.shares[3], (50e9 * 1e-6 - 16.4e3) / 114.6e3, 1e-6);
    linear.seconds = (1.0e-6 + 2 * tokens * 4096 / 400e12) * tokens;  // 2 s h more operations a token
    const double softmax = split_offload(alike(16, linear), 50e9, kMuch).shares[3];
    EXPECT_NEAR(softmax, std::min(1.0, (50e9 * linear.seconds - linear.whole_bytes) / linear.row_bytes),
                1e-6);
    EXPECT_EQ(softmax == 1, tokens > 1e5);
  }
}

// Copies of alike layers before a long one may drain while that runs, as far as the layers ahead allow.
TEST(OffloadSplit, ALongLayerTakesTheCopiesOfThoseBeforeIt) {
  std::vector<OffloadedLayer> layers(6, {.whole_bytes = 4, .row_bytes = 10, .seconds = 5, .row_seconds = 1});
  layers[2].seconds = 50;  // softmax
  layers[4].moved = layers[5].moved = false;
  const OffloadSplit split = split_offload(layers, 1, kMuch);
  // Layer 0: done before layer 2, 5 s behind its end, so 0.1. Layer 1: from 10 s on, before layer 3 at 60 s.
  // Layer 2: from 60 s on, before layer 4 at 65 s: 0.1; and layer 3 shares 65 … 70 s.
  EXPECT_NEAR(split.shares[0], 0.1, 1e-9);
  EXPECT_NEAR(split.shares[1], 1, 1e-9);
  EXPECT_NEAR(split.shares[2], 0.1, 1e-9);
  EXPECT_NEAR(split.shares[3], 0.1, 1e-9);
}

TEST(OffloadSplit, TellsWhatDoesNotFit) {
  // 12 s of copies a layer of 10 s: the k-th layer waits.
  const auto slow = alike(6, {.whole_bytes = 12, .row_bytes = 40, .seconds = 10, .row_seconds = 1});
  const OffloadSplit split = split_offload(slow, 1, kMuch);
  // Copies end at 22, 34, 46, 58; layers would begin at 20, 30, 40, 50: layer 2 waits 2 s, layers 3, 4 and 5
  // 2 s more each.
  EXPECT_NEAR(split.stall_s, 8, 1e-9);
  for (const double share : split.shares) EXPECT_NEAR(share, 0, 1e-9);
  const auto large = alike(6, {.whole_bytes = 12, .row_bytes = 40, .seconds = 1e6, .row_seconds = 1});
  EXPECT_NEAR(split_offload(large, 1, 40).missing_bytes, 8, 1e-9);
  for (const double share : split_offload(large, 1, 40).shares) EXPECT_EQ(share, 0);
}

TEST(OffloadSplit, LayersWithoutProductsOrWithoutAny) {
  EXPECT_TRUE(split_offload({}, 1, 1).shares.empty());
  const OffloadSplit split = split_offload(alike(4, {.whole_bytes = 1, .seconds = 10}), 1, kMuch);
  EXPECT_EQ(split.shares, (std::vector<double>{0, 0, 0, 0}));
  EXPECT_EQ(split_offload(alike(1, {.row_bytes = 1, .seconds = 10, .row_seconds = 1}), 1, kMuch).shares[0],
            0);
}

// Walks the copies of one pass with these shares.
bool hides(const std::vector<OffloadedLayer>& layers, const std::vector<double>& shares, double rate,
           double slack) {
  double now = 0, link = 0;
  std::vector<double> done;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (i >= 2 && done[i - 2] > now + slack) return false;
    now += layers[i].seconds;
    if (layers[i].moved)
      link = std::max(link, now) + (layers[i].whole_bytes + shares[i] * layers[i].row_bytes) / rate;
    done.push_back(layers[i].moved ? link : 0);
  }
  return true;
}

double saved(const std::vector<OffloadedLayer>& layers, const std::vector<double>& shares) {
  double sum = 0;
  for (size_t i = 0; i < layers.size(); ++i) sum += shares[i] * layers[i].row_seconds;
  return sum;
}

// At random: the shares hide, and none of many others that hide saves more.
TEST(OffloadSplit, NothingBetterIsFound) {
  std::mt19937 random(7);
  const auto draw = [&](double least, double most) {
    return std::uniform_real_distribution<double>(least, most)(random);
  };
  int better_than_nothing = 0;
  for (int round = 0; round < 60; ++round) {
    std::vector<OffloadedLayer> layers;
    const int count = 3 + round % 4;
    for (int i = 0; i < count; ++i)
      layers.push_back({.moved = i + 2 < count,
                        .whole_bytes = draw(0, 3),
                        .row_bytes = draw(1, 20),
                        .seconds = draw(3, 12),
                        .row_seconds = draw(0.1, 2)});
    const double host = draw(10, 40);
    const OffloadSplit split = split_offload(layers, 1, host);
    EXPECT_TRUE(hides(layers, split.shares, 1, 1e-6)) << round;
    double bytes = 0;
    for (int i = 0; i + 2 < count; ++i)
      bytes += layers[static_cast<size_t>(i)].whole_bytes +
               split.shares[static_cast<size_t>(i)] * layers[static_cast<size_t>(i)].row_bytes;
    EXPECT_LE(bytes, host + 1e-6);
    better_than_nothing += saved(layers, split.shares) > 0.1;
    for (int trial = 0; trial < 2000; ++trial) {
      std::vector<double> shares(layers.size(), 0);
      double sum = 0;
      for (size_t i = 0; i + 2 < layers.size(); ++i) {
        shares[i] = std::clamp(draw(-0.3, 1.3), 0.0, 1.0);
        sum += layers[i].whole_bytes + shares[i] * layers[i].row_bytes;
      }
      if (sum > host || !hides(layers, shares, 1, 0)) continue;
      // Alike layers may share a number at the price of a hundredth; these are all different.
      EXPECT_LE(saved(layers, shares), saved(layers, split.shares) / 0.99 + 1e-6) << round;
    }
  }
  EXPECT_GT(better_than_nothing, 30);
}

TEST(OffloadSplit, AHundredLayersInASecond) {
  std::mt19937 random(3);
  std::vector<OffloadedLayer> layers;
  for (int i = 0; i < 100; ++i) {
    const double noise = std::uniform_real_distribution<double>(0.9, 1.1)(random);
    layers.push_back({.moved = i < 98,
                      .whole_bytes = 2,
                      .row_bytes = 14,
                      .seconds = (i % 8 == 7 ? 30 : 3) * noise,
                      .row_seconds = 2 * noise});
  }
  const OffloadSplit split = split_offload(layers, 1, kMuch);
  EXPECT_TRUE(hides(layers, split.shares, 1, 1e-6));
  EXPECT_GT(saved(layers, split.shares), 0);
}

TEST(OffloadSplit, AsText) {
  auto layers = alike(8, {.whole_bytes = 8, .row_bytes = 40, .seconds = 10, .row_seconds = 1});
  OffloadSplit split = split_offload(layers, 2, kMuch);
  EXPECT_EQ(text_of(layers, split), "layers 0–5: 0.30; 6–7: stay");
  split.shares[2] = 1;
  EXPECT_EQ(text_of(layers, split, 10), "layers 10–11, 13–15: 0.30; 12: 1.00; 16–17: stay");
}

}  // namespace
}  // namespace longhaul::plan
