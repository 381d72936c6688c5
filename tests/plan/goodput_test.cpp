// What weeks of training cost: time, money and energy, by hand.
#include "plan/reliability/goodput.h"

#include <gtest/gtest.h>

#include <cmath>

#include "recipe/architecture/presets.h"

namespace longhaul::plan {
namespace {

TEST(GoodputOfAPlan, PriceIsOfEveryDevice) {
  Cluster cluster = load_cluster("h100", 24);
  cluster.failures_per_node_day = 0;
  cluster.price_per_gpu_hour = 2.5;
  const Goodput goodput = goodput_of(cluster, 7.2e9, 1e6);  // two hours
  EXPECT_EQ(goodput.effective, 1);
  EXPECT_EQ(goodput.failures, 0);
  EXPECT_NEAR(goodput.days, 2 / 24.0, 1e-12);
  EXPECT_NEAR(goodput.price, 2 * 24 * 2.5, 1e-9);
}

TEST(GoodputOfAPlan, FailuresAndYoungsInterval) {
  Cluster cluster = load_cluster("h100", 16);
  cluster.failures_per_node_day = 4;  // of two nodes one each 10,800 s
  cluster.checkpoint_s = 54;
  cluster.restart_s = 900;
  const Goodput goodput = goodput_of(cluster, 1e12, 1e6);
  EXPECT_NEAR(goodput.mean_to_failure_s, 10'800, 1e-9);
  EXPECT_NEAR(goodput.interval_s, std::sqrt(2 * 54 * 10'800.0), 1e-9);
  const double expected =
      goodput.interval_s / (std::expm1((goodput.interval_s + 54) / 10'800) * (10'800 + 900));
  EXPECT_NEAR(goodput.effective, expected, 1e-12);
  EXPECT_NEAR(goodput.days * 86400, 1e6 / expected, 1e-3);
  EXPECT_NEAR(goodput.failures, 1e6 / expected / 10'800, 1e-9);
}

TEST(GoodputOfAPlan, TheFootprintHasTheTimeThatFailuresCost) {
  const Work work = work_of(recipe::preset_model("llama-3-8b"), 4096);
  const Cluster cluster = load_cluster("h100", 64);
  const PlanCandidate plan = evaluate(work, {.dp = 64}, cluster, 64);
  const Footprint all = footprint_of_plan(work, plan, cluster, 1e12, {.effective = 1});
  const Footprint less = footprint_of_plan(work, plan, cluster, 1e12, {.effective = 0.8});
  EXPECT_NEAR(less.input.device_hours / all.input.device_hours, 1 / 0.8, 1e-9);
  EXPECT_NEAR(all.input.device_hours, 64 * 1e12 / plan.tokens_per_second / 3600,
              1e-6 * all.input.device_hours);
  EXPECT_EQ(all.input.devices, 64);
  EXPECT_EQ(all.input.flops, work.flops.causal() * 1e12);
}

}  // namespace
}  // namespace longhaul::plan
