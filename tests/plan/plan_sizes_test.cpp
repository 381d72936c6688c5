// How many devices a training should have: reports made by hand, whose days, price and energy are known.
#include "plan/search/plan_sizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "recipe/architecture/presets.h"

namespace longhaul::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// One layout on `gpus` devices that never fail: so many tokens a second, at two units an hour and device.
PlanReport report_at(int64_t gpus, double tokens_per_second, double price = 2) {
  PlanReport report{.recipe = "a", .cluster = load_cluster("a100", gpus), .work = {}};
  report.work = work_of(recipe::preset_model("gpt2-124m"), 1024);
  report.cluster.failures_per_node_day = 0;
  report.cluster.price_per_gpu_hour = price;
  report.tokens = 86400e6;
  if (tokens_per_second <= 0) return report;
  PlanCandidate plan{.layout = {.dp = gpus}, .parts = {}, .memory = {}};
  plan.tokens_per_second = tokens_per_second;
  plan.mfu = tokens_per_second * report.work.flops.causal() / (static_cast<double>(gpus) * 312e12);
  report.found.best = {plan};
  return report;
}

std::vector<int64_t> order_of(const PlanSizes& sizes) {
  std::vector<int64_t> gpus;
  for (const PlannedSize& size : sizes.sizes) gpus.push_back(size.gpus);
  return gpus;
}

// A million tokens a second end 86,400 million in a day. 16 devices are 1.6 times as fast as 8, and 32 are
// slower than 16: whoever takes 32 waits longer and pays more.
std::vector<PlanReport> three_sizes(double price = 2) {
  return {report_at(4, 0, price), report_at(8, 1e6, price), report_at(16, 1.6e6, price),
          report_at(32, 1.25e6, price)};
}

TEST(PlanSizes, DaysAndPriceByHand) {
  const PlanSizes sizes = plan_sizes(three_sizes(), PlanGoal::kDays);
  EXPECT_EQ(order_of(sizes), (std::vector<int64_t>{16, 32, 8}));
  EXPECT_NEAR(sizes.sizes[0].goodput.days, 1 / 1.6, 1e-12);
  EXPECT_NEAR(sizes.sizes[1].goodput.days, 1 / 1.25, 1e-12);
  EXPECT_NEAR(sizes.sizes[2].goodput.days, 1, 1e-12);
  EXPECT_NEAR(sizes.sizes[2].goodput.price, 24 * 8 * 2, 1e-9);
  EXPECT_NEAR(sizes.sizes[0].goodput.price, 24 * 16 * 2 / 1.6, 1e-9);
  EXPECT_THAT(sizes.impossible, ElementsAre(4));
}

TEST(PlanSizes, TheLeastOfTheGoalComesFirst) {
  EXPECT_EQ(order_of(plan_sizes(three_sizes(), PlanGoal::kPrice)), (std::vector<int64_t>{8, 16, 32}));
  EXPECT_EQ(order_of(plan_sizes(three_sizes(), PlanGoal::kEnergy)), (std::vector<int64_t>{8, 16, 32}));
  const PlanSizes carbon = plan_sizes(three_sizes(), PlanGoal::kCarbon);
  EXPECT_EQ(order_of(carbon), (std::vector<int64_t>{8, 16, 32}));
  EXPECT_GT(carbon.sizes[2].carbon_kg, carbon.sizes[0].carbon_kg);
}

// 32 devices take longer than 16 and cost more; 8 cost least and 16 are fastest, so nobody beats these.
TEST(PlanSizes, WhoIsBeatenByWhom) {
  for (const double price : {2.0, 0.0}) {
    const PlanSizes sizes = plan_sizes(three_sizes(price), PlanGoal::kDays);
    EXPECT_EQ(sizes.sizes[0].beaten_by, 0) << price;
    EXPECT_EQ(sizes.sizes[1].beaten_by, 16) << price;
    EXPECT_EQ(sizes.sizes[2].beaten_by, 0) << price;
  }
  const PlanSizes twins = plan_sizes({report_at(8, 1e6), report_at(8, 1e6)}, PlanGoal::kDays);
  EXPECT_EQ(twins.sizes[0].beaten_by, 0) << "a size as good as another is not beaten by it";
}

TEST(PlanSizes, TextAndJsonSayTheSame) {
  const PlanSizes sizes = plan_sizes(three_sizes(), PlanGoal::kPrice);
  const std::string text = sizes_text(sizes, PlanGoal::kPrice, false);
  EXPECT_THAT(text, HasSubstr("the least price first"));
  EXPECT_THAT(text, HasSubstr("16 devices"));
  EXPECT_THAT(text, HasSubstr("No layout can be on 4 devices"));
  const auto json = sizes_json(sizes, PlanGoal::kPrice);
  EXPECT_EQ(json["by"], "price");
  EXPECT_EQ(json["sizes"][0]["gpus"], 8);
  EXPECT_NEAR(json["sizes"][0]["price"].get<double>(), 384, 1e-9);
  EXPECT_EQ(json["sizes"][2]["beaten_by"], 16);
  EXPECT_EQ(json["impossible"][0], 4);
}

TEST(PlanSizes, APriceThatNobodyTold) {
  try {
    plan_sizes(three_sizes(0), PlanGoal::kPrice);
    FAIL() << "a price of 0 is no price";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("price_per_gpu_hour"));
  }
}

}  // namespace
}  // namespace longhaul::plan
