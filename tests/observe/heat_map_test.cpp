// Heat maps and plots: every number is there, in its field, and names from outside cannot become markup.
#include "observe/charts/heat_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "observe/charts/log_plot.h"
#include "support/text.h"

namespace longhaul::observe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(HeatMaps, HaveAFieldForEveryNumber) {
  const HeatMap map{.title = "Found <b>",
                    .row_axis = "depth",
                    .column_axis = "tokens",
                    .rows = {"0 %", "100 %"},
                    .columns = {"512", "1,024"},
                    .values = {{1, 0.25}, {NAN, 0}}};
  const std::string html = map.html();
  EXPECT_THAT(html, AllOf(HasSubstr("Found &lt;b&gt;"), HasSubstr(">100.0</text>"), HasSubstr(">25.0</text>"),
                          HasSubstr(">0.0</text>"), HasSubstr("0 %, 1,024: 0.2500"), Not(HasSubstr("nan"))));
  EXPECT_EQ(testing::count_of(html, "<rect"), 3u);
  const std::string page = ResultPage{
      .title = "T & U",
      .kicker = {},
      .summary = {},
      .tiles = {{"a", "b"}},
      .maps = {map},
      .body = {},
      .facts = {{"x", "<y>"}}}.html();
  EXPECT_THAT(page, AllOf(HasSubstr("<!doctype html>"), HasSubstr("T &amp; U"), HasSubstr("&lt;y&gt;"),
                          Not(HasSubstr("http"))));
}

// Straight in the logarithm: the middle of 1 … 100 is 10.
TEST(LogPlots, AreLogarithmic) {
  const LogPlot plot{
      .title = "t",
      .x_name = "x",
      .y_name = "y",
      .series = {
          {.name = "s", .style = "train", .points = {{1, 4}, {10, 2}, {100, 1}, {0, 1}}, .dots = true}}};
  const std::string html = plot.html();
  std::vector<double> x;
  for (size_t at = 0; (at = html.find("cx=\"", at)) != std::string::npos; ++at)
    x.push_back(std::stod(html.substr(at + 4)));
  ASSERT_EQ(x.size(), 3u) << "a point that is not above 0 has no place";
  EXPECT_NEAR(x[1] - x[0], x[2] - x[1], 0.11);
  EXPECT_THAT(LogPlot{.title = "empty"}.html(), HasSubstr("nothing to draw"));
}

}  // namespace
}  // namespace longhaul::observe
