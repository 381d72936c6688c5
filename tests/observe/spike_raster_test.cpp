// The picture of spikes: what stands where, by hand.
#include "observe/charts/spike_raster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul::observe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// Two tokens of 2 steps and 1; three channels. A column is 4 pixels wide, a row 6 high; the first stands at
// x = 12, y = 28 + 44.
TEST(SpikeRaster, ABarForEachSpike) {
  const std::string svg = spike_raster_svg(
      "a <title>",
      {{.name = "layers.0.up",
        .channels = 3,
        .steps = {2, 1},
        .tokens = {"<", "b"},
        .spikes = {{0, 0, 1}, {1, 2, -1}, {2, 1, 1}}},
       {.name = "layers.0.down", .channels = 1, .steps = {1, 0}, .tokens = {"<", "b"}, .spikes = {}}});
  EXPECT_EQ(count_of(svg, "<rect class=\"plus\""), 2);
  EXPECT_EQ(count_of(svg, "<rect class=\"minus\""), 1);
  EXPECT_THAT(svg, HasSubstr("<rect class=\"plus\" x=\"13\" y=\"72\" width=\"3\" height=\"3\"/>"));
  EXPECT_THAT(svg, HasSubstr("<rect class=\"minus\" x=\"17\" y=\"87\" width=\"3\" height=\"3\"/>"))
      << "below the middle of its row";
  EXPECT_THAT(svg, HasSubstr("<rect class=\"plus\" x=\"21\" y=\"78\" width=\"3\" height=\"3\"/>"));
  EXPECT_THAT(svg, HasSubstr("layers.0.up, 3 channels, 3 spikes"));
  // lines before, between and behind two tokens, in each panel: at 12, 20 and 24, and at 12, 16 and 16
  EXPECT_EQ(count_of(svg, "<line class=\"edge\""), 6);
  EXPECT_EQ(count_of(svg, "<line class=\"edge\" x1=\"20\""), 1);
  EXPECT_EQ(count_of(svg, "<line class=\"edge\" x1=\"24\""), 1);
  EXPECT_EQ(count_of(svg, ">&lt;</text>"), 2) << "of the token in both panels";
  EXPECT_THAT(svg, HasSubstr("a &lt;title&gt;"));
  EXPECT_THAT(svg, Not(HasSubstr("><</text>")));
  // 28 + (44 + 18 + 10) + (44 + 6 + 10)
  EXPECT_THAT(svg, HasSubstr("height=\"160\""));
}

}  // namespace
}  // namespace longhaul::observe
