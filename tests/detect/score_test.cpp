#include "detect/trials/score.h"

#include <gtest/gtest.h>

namespace longhaul::detect {
namespace {

std::vector<Verdict> scored(std::vector<Fault> faults, std::vector<Alert> alerts) {
  return verdicts_of(faults, {"a", "b", "c", "d"}, alerts, {0}, 248);
}

TEST(Score, CountsAsDocumented) {
  const Fault fault{.type = "x", .machine = 1, .group = {3}, .onset_s = 100, .end_s = 900, .metrics = {0}};
  EXPECT_TRUE(scored({}, {})[0].type == "none" && !scored({}, {})[0].false_alarm);
  EXPECT_TRUE(scored({}, {{.machine = "a"}})[0].false_alarm);
  EXPECT_TRUE(scored({fault}, {})[0].missed);
  EXPECT_TRUE(scored({fault}, {{.machine = "b", .raised_s = 400}})[0].found);
  EXPECT_EQ(scored({fault}, {{.machine = "b", .raised_s = 400}})[0].delay_s, 300);
  EXPECT_TRUE(scored({fault}, {{.machine = "d", .raised_s = 400}})[0].by_group);
  const Verdict wrong = scored({fault}, {{.machine = "a", .raised_s = 400}})[0];
  EXPECT_TRUE(wrong.missed && wrong.false_alarm && !wrong.found);
  // the first counts
  EXPECT_TRUE(
      scored({fault}, {{.machine = "b", .raised_s = 400}, {.machine = "a", .raised_s = 300}})[0].false_alarm);
  // before it began
  EXPECT_TRUE(scored({fault}, {{.machine = "b", .raised_s = 50}})[0].missed);
  const Fault second{.type = "x", .machine = 2, .onset_s = 1500, .end_s = 1800, .metrics = {0}};
  const auto both =
      scored({fault, second}, {{.machine = "b", .raised_s = 400}, {.machine = "c", .raised_s = 1750}});
  EXPECT_TRUE(both[0].found && both[1].found);
  Tally tally = tally_of({scored({fault}, {{.machine = "b", .raised_s = 400}})[0], wrong,
                          scored({fault}, {})[0], scored({}, {{.machine = "a"}})[0]});
  EXPECT_DOUBLE_EQ(tally.precision(), 1.0 / 3);
  EXPECT_DOUBLE_EQ(tally.recall(), 1.0 / 3);
  EXPECT_DOUBLE_EQ(tally.f1(), 1.0 / 3);
}

TEST(Score, IntervalsAndPairs) {
  EXPECT_NEAR(wilson(135, 150).low, 0.8415, 1e-3);  // 0.9 of 150: the textbook's 0.841 to 0.939
  EXPECT_NEAR(wilson(135, 150).high, 0.9385, 1e-3);
  std::vector<Verdict> a(12, {.type = "x", .found = true}), b = a;
  for (int i = 0; i < 8; ++i) b[static_cast<size_t>(i)].found = false;
  a[11].found = false;
  const Paired paired = mcnemar(a, b);
  EXPECT_EQ(paired.only_first, 8);
  EXPECT_EQ(paired.only_second, 1);
  EXPECT_NEAR(paired.p, 2 * (1 + 9) / 512.0, 1e-12);  // two-sided, of Binomial(9, 1/2)
}

}  // namespace
}  // namespace longhaul::detect
