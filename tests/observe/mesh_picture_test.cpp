// The mesh as a picture: every rank once, at its place; arrows between the right fields; text of others
// escaped.
#include "observe/charts/mesh_picture.h"
#include "support/text.h"

#include <gtest/gtest.h>

#include <regex>

namespace longhaul::observe {
namespace {

TEST(MeshPicture, HasEveryRankAtItsPlace) {
  const MeshPicture picture{.title = "T", .axes = {{"pp", 2}, {"dp", 3}, {"cp", 2}, {"tp", 2}}};
  const std::string svg = picture.svg();
  const std::regex field("<title>rank (\\d+)</title><rect x=\"([0-9.]+)\" y=\"([0-9.]+)\"");
  std::map<int64_t, std::pair<double, double>> places;
  for (std::sregex_iterator each(svg.begin(), svg.end(), field), end; each != end; ++each)
    places[std::stoll((*each)[1])] = {std::stod((*each)[2]), std::stod((*each)[3])};
  ASSERT_EQ(places.size(), 24u);
  for (int64_t rank = 0; rank < 24; ++rank) {
    const auto [x, y] = places[rank];
    // tp across, cp down, dp across in blocks, pp down in blocks.
    EXPECT_EQ(rank % 2 == 1, x > places[rank - rank % 2].first);
    EXPECT_EQ(y, places[rank - rank % 2].second);
    EXPECT_EQ(rank / 2 % 2 == 1, y > places[rank - rank / 2 % 2 * 2].second);
    if (rank / 4 % 3 > 0) {
      EXPECT_GT(x, places[rank - 4].first + 46);
      EXPECT_EQ(y, places[rank - 4].second);
    }
    if (rank >= 12) {
      EXPECT_EQ(x, places[rank - 12].first);
    }
  }
}

TEST(MeshPicture, MarksAndArrows) {
  MeshPicture picture{.title = "who <waits>", .axes = {{"dp", 4}}};
  picture.fields = {{1, MeshPicture::Mark::kSuspect, "rank 1 & 'x'"},
                    {2, MeshPicture::Mark::kWaits, "waits"},
                    {9, MeshPicture::Mark::kWaits, "no such rank"}};
  picture.arrows = {{2, 1, "2 for 1"}, {3, 9, "to no rank"}};
  const std::string svg = picture.svg();
  EXPECT_EQ(testing::count_of(svg, "class=\"field suspect\""), 1u);
  EXPECT_EQ(testing::count_of(svg, "class=\"field waits\""), 1u);
  EXPECT_EQ(testing::count_of(svg, "class=\"field plain\""), 2u);
  EXPECT_EQ(testing::count_of(svg, "class=\"arrow\""), 1u);
  EXPECT_NE(svg.find("who &lt;waits&gt;"), std::string::npos);
  EXPECT_NE(svg.find("rank 1 &amp; "), std::string::npos);
  EXPECT_EQ(svg.find("<waits>"), std::string::npos);
}

TEST(MeshPicture, LargeOnesStaySmallEnough) {
  MeshPicture picture{.title = "T", .axes = {{"pp", 16}, {"dp", 32}, {"cp", 2}, {"tp", 8}}};
  for (int64_t rank = 1; rank < 8192; ++rank) picture.arrows.push_back({rank, 0, "x"});
  const std::string svg = picture.svg();
  EXPECT_EQ(testing::count_of(svg, "class=\"arrow\""), MeshPicture::kMostArrows);
  EXPECT_NE(svg.find("7791 more arrows"), std::string::npos);
  EXPECT_LT(svg.size(), 2'000'000u);
}

}  // namespace
}  // namespace longhaul::observe
