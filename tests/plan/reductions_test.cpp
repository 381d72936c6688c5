// Exchanges that ZeRO makes layer by layer: how fast their rings are and what of them shows, by hand.
#include "plan/reductions.h"

#include <gtest/gtest.h>

#include <cmath>

#include "plan/calibration.h"
#include "plan/link_rates.h"
#include "plan/published.h"
#include "recipe/architecture/presets.h"

namespace longhaul::plan {
namespace {

Cluster h100s(int64_t gpus) { return load_cluster("h100", gpus); }

// Up to eight nodes all cards of a node's members, from 48 on one; half way between in logarithms the
// geometric mean.
TEST(LayerRings, LoseCardsFrom8To48Nodes) {
  const Cluster cluster = h100s(8);
  const double card = 48.5e9;
  EXPECT_EQ(layer_ring_rate(cluster, 8, 1), cluster.device.link_rate) << "a node";
  EXPECT_NEAR(layer_ring_rate(cluster, 64, 1), cluster.device.link_rate, 1)
      << "eight cards are faster than the link";
  for (const auto& [stride, members] : {std::pair<int64_t, double>{2, 4}, {4, 2}, {8, 1}}) {
    const auto ranks_of = [&](int64_t nodes) { return nodes * 8 / stride; };
    EXPECT_NEAR(layer_ring_rate(cluster, ranks_of(2), stride), members * card, 1);
    EXPECT_NEAR(layer_ring_rate(cluster, ranks_of(8), stride), members * card, 1);
    EXPECT_NEAR(layer_ring_rate(cluster, ranks_of(48), stride), card, 1);
    EXPECT_NEAR(layer_ring_rate(cluster, ranks_of(1000), stride), card, 1);
    const double share = std::log(48 / 16.0) / std::log(6.0);
    EXPECT_NEAR(layer_ring_rate(cluster, ranks_of(16), stride), std::pow(members, share) * card, 1);
    EXPECT_NEAR(ring_rate(cluster, ranks_of(1000), stride), members * card, 1)
        << "once a step all cards serve";
  }
}

// The shorter of exchange and passes hides, but for one layer's, and half of what hides shows.
TEST(Reductions, WhatShowsOfALayersExchanges) {
  const PlanLayout sharded{.dp = 8, .zero = 3}, summed{.dp = 8, .zero = 2};
  const Practice practice{.data_exposed = 0.25, .layer_exposed = 0.5};
  StepParts pass;
  pass.forward = 1, pass.backward_input = 1.5, pass.backward_weight = 0.5;
  const double m = 3, layers = 4, hides = 0.5 * 3 / 4;
  // Beside backward passes, which take 6 s: sums and half of the values; beside forward ones, 3 s, the other
  // half.
  EXPECT_NEAR(exposed_seconds({.sums = 2, .values = 4}, sharded, practice, pass, m, layers),
              4 - hides * 4 + 2 - hides * 2, 1e-12);
  EXPECT_NEAR(exposed_seconds({.sums = 20, .values = 10}, sharded, practice, pass, m, layers),
              25 - hides * 6 + 5 - hides * 3, 1e-12);
  // Values of stage 2 come once a step, as those of stage 1.
  EXPECT_NEAR(exposed_seconds({.sums = 20, .values = 10}, summed, practice, pass, m, layers),
              20 - hides * 6 + 0.25 * 10, 1e-12);
  EXPECT_NEAR(exposed_seconds({.sums = 2, .values = 4}, sharded, practice, pass, m, 1), 6, 1e-12)
      << "one layer has nothing beside it";
}

// Values for both passes of each micro-batch and a sum after each, of a sixteenth of the rank's parameters
// from every other rank.
TEST(Reductions, ValuesAndSumsOfEveryPass) {
  Cluster cluster = h100s(128);
  cluster.efficiency.by_size = false;
  const PlanLayout layout{.dp = 16, .tp = 8, .zero = 3};
  const Reduction all = reduction_of(1e9, 16, 8, layout, 4, 10, cluster, 4);
  EXPECT_NEAR(all.sums, 4 * 4e9 * 15 / 16 / 48.5e9, 1e-9);
  EXPECT_NEAR(all.values, 4 * 2 * 2e9 * 15 / 16 / 48.5e9, 1e-9);
  const Reduction once = reduction_of(1e9, 16, 8, {.dp = 16, .tp = 8, .zero = 1}, 4, 10, cluster, 4);
  EXPECT_NEAR(once.sums + once.values, (4e9 + 2e9) * 15 / 16 / 48.5e9, 1e-9);
  // Two copies of shares: rings of eight, then what each has of the sums between the copies.
  const Reduction copies =
      reduction_of(1e9, 16, 8, {.dp = 16, .tp = 8, .zero = 1, .zero_copies = 2}, 4, 10, cluster, 4);
  EXPECT_NEAR(copies.sums, (4e9 * 7 / 8 + 2 * 4e9 / 8 / 2) / 48.5e9, 1e-9);
}

// What shows of a layer's exchanges, fitted again on the rows that say so, all of one program.
TEST(CalibrationOfLayers, OfLlmFoundrysRowsGivesWhatShows) {
  std::vector<PublishedRow> rows;
  for (const PublishedRow& row : published_rows()) {
    EXPECT_EQ(row.use == RowUse::kOverlap, row.family.starts_with("LLM Foundry")) << row.name;
    if (row.use == RowUse::kOverlap) rows.push_back(row);
  }
  ASSERT_EQ(rows.size(), 17u);
  EXPECT_EQ(fitted_layer_exposed(rows), kLayerExposed);
}

}  // namespace
}  // namespace longhaul::plan
