// Goods exchange: each kind of step by hand, that each kind comes, and the answers that are read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "puzzles/goods_exchange/goods_exchange.h"
#include "puzzles/maker.h"

namespace longhaul::puzzles {
namespace {

using goods_exchange::Step;
using goods_exchange::step_kinds;
using ::testing::ElementsAre;

// Owners of the things 0, 1, 2, 3 after a step from owners 1, 0, 2, 3.
std::vector<size_t> owners_after(std::string_view kind, std::vector<size_t> parts) {
  std::vector<size_t> owners = {1, 0, 2, 3};
  const auto found =
      std::ranges::find(step_kinds(), kind, &goods_exchange::StepKind::name) - step_kinds().begin();
  goods_exchange::apply(Step{static_cast<size_t>(found), std::move(parts)}, owners);
  return owners;
}

TEST(GoodsExchange, StepsByHand) {
  EXPECT_THAT(owners_after("swap", {0, 2}), ElementsAre(1, 2, 0, 3));
  EXPECT_THAT(owners_after("swap_things", {0, 2}), ElementsAre(2, 0, 1, 3));
  EXPECT_THAT(owners_after("owners_swap", {0, 2}), ElementsAre(2, 0, 1, 3));
  EXPECT_THAT(owners_after("owner_swaps_with", {0, 2}), ElementsAre(2, 0, 1, 3));
  EXPECT_THAT(owners_after("swap_with_owner", {2, 0}), ElementsAre(2, 0, 1, 3));
  EXPECT_THAT(owners_after("trade_for", {1, 0, 3}), ElementsAre(3, 0, 2, 1));
  EXPECT_THAT(owners_after("give_and_get", {1, 0, 3, 3}), ElementsAre(3, 0, 2, 1));
  EXPECT_THAT(owners_after("exchange", {1, 0, 3, 3}), ElementsAre(3, 0, 2, 1));
  EXPECT_THAT(owners_after("circle", {0, 1, 2}), ElementsAre(2, 1, 0, 3));  // 0 had thing 1, 1 had thing 0
  EXPECT_THAT(owners_after("refuse", {0, 1}), ElementsAre(1, 0, 2, 3));
  EXPECT_THAT(owners_after("like", {0, 2}), ElementsAre(1, 0, 2, 3));
  EXPECT_THAT(owners_after("look_for", {0, 2}), ElementsAre(1, 0, 2, 3));
}

TEST(GoodsExchange, AllStepsAreToldAndEachKindComes) {
  const TaskEntry& task = goods_exchange::kTask;
  std::set<std::string> kinds;
  for (int64_t index = 0; index < 20; ++index) {
    const auto made = make_puzzle(task, at_level(task.knobs, 5), 1, index);
    // none is dropped
    EXPECT_EQ(made->puzzle.given["steps"].size(), static_cast<size_t>(at_level(task.knobs, 5)["steps"]));
    for (const auto& step : made->puzzle.given["steps"]) kinds.insert(step[0]);
  }
  EXPECT_EQ(kinds.size(), step_kinds().size());
  EXPECT_EQ(kinds.size(), 12u);
}

TEST(GoodsExchange, AnswersAreEverybodysThing) {
  const TaskEntry& task = goods_exchange::kTask;
  const nlohmann::json given = {{"owns_after", "(('Alice','red lamp'),('Bob','blue game console'))"}};
  for (const char* good :
       {"(('Alice','red lamp'),('Bob','blue game console'))",
        "[[\"bob\", \"Blue game console\"], [\"Alice\", \"the red lamp\"]]",
        "{'Alice': 'red lamp', 'Bob': 'blue game console'}", "(('爱丽丝','红色台灯'),('鲍勃','蓝色游戏机'))"})
    EXPECT_TRUE(task.verify(given, good).accepted()) << good;
  for (const char* bad :
       {"(('Alice','blue game console'),('Bob','red lamp'))", "(('Alice','red lamp'))",
        "('Alice','red lamp')", "", "()",
        "(('Alice','red lamp'),('Bob','blue game console'),('Carol','red lamp'))",
        "(('Alice','red lamp'),('Alice','blue game console'))",
        "(('Alice','red lamp'),('Alice','red lamp'),('Bob','blue game console'))", "__import__('os')"})
    EXPECT_FALSE(task.verify(given, bad).accepted()) << bad;
  EXPECT_THROW(task.verify({{"owns_after", "__import__('os')"}}, "()"), Error);
}

}  // namespace
}  // namespace longhaul::puzzles
