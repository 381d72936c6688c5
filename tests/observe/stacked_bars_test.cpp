// Stacked bars: a part is as wide as its value, in one scale for all bars, and names are escaped.
#include "observe/charts/stacked_bars.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

namespace longhaul::observe {
namespace {

using ::testing::HasSubstr;

std::vector<double> widths_of(const std::string& html) {
  std::vector<double> widths;
  const std::regex rect("<rect class=\"box\"[^>]* width=\"([0-9.]+)\"");
  for (auto it = std::sregex_iterator(html.begin(), html.end(), rect); it != std::sregex_iterator(); ++it)
    widths.push_back(std::stod((*it)[1]));
  return widths;
}

TEST(StackedBars, PartsAreAsWideAsTheirValues) {
  const StackedBars bars{.title = "time",
                         .unit = "s",
                         .parts = {{"a", "train"}, {"b<", "eval", 0.5}},
                         .bars = {{"first", {1, 3}, "4 s"}, {"second", {2, 0}, "2 s"}}};
  const std::string html = bars.html();
  const auto widths = widths_of(html);
  ASSERT_EQ(widths.size(), 3u) << "a part of nothing is not drawn";
  EXPECT_NEAR(widths[1] / widths[0], 3, 0.01);
  EXPECT_NEAR(widths[2] / widths[0], 2, 0.01);
  EXPECT_THAT(html, HasSubstr("b&lt;"));
  EXPECT_THAT(html, HasSubstr("a: 1 s"));
}

TEST(StackedBars, ALimitIsInTheSameScale) {
  StackedBars bars{
      .title = "memory", .unit = "GB", .parts = {{"a", "train"}}, .bars = {{"first", {5}, "5 GB"}}};
  const double whole = widths_of(bars.html()).at(0);
  bars.limit = 20, bars.limit_name = "all";
  EXPECT_NEAR(widths_of(bars.html()).at(0) / whole, 0.25, 0.01);
  EXPECT_THAT(bars.html(), HasSubstr("all"));
}

TEST(StackedBars, NothingIsSaid) {
  EXPECT_THAT(StackedBars{.title = "time"}.html(), HasSubstr("nothing to draw"));
}

}  // namespace
}  // namespace longhaul::observe
