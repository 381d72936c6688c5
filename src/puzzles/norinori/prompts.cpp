#include <algorithm>

#include "puzzles/engine/grids/regions.h"
#include "puzzles/norinori/norinori.h"

namespace longhaul::puzzles::norinori {
namespace {

// The sentence on cells of no region stands only where there are such cells.
PromptParts english(int64_t side, bool marked) {
  const std::string_view first =
      marked ? " Cells marked X belong to no region; every one of them must be covered as well." : "";
  const std::string_view second =
      marked ? " X marks a cell outside all regions, which a domino must cover too." : "";
  return {.openings = {"Solve this Norinori.", "Here is a Norinori puzzle. Please solve it.",
                       "Lay the dominoes of this Norinori.",
                       "The Norinori below has exactly one solution. Find it.",
                       "Where do the dominoes lie in this grid?", "Find the place of every domino.",
                       "Work out the dominoes of the following Norinori.",
                       "Please solve the Norinori that follows."},
          .rules =
              {fmt::format(
                   "The grid has {0} rows and {0} columns; cells with the same letter form one region. Lay "
                   "dominoes, each of which covers two cells that share a "
                   "side, so that every region has exactly two covered cells. A domino may lie across the "
                   "border of two regions. Dominoes must not overlap, "
                   "and cells of two different dominoes must not share a side; they may meet at a corner.{1}",
                   side, first),
               fmt::format("Rules: in the {0} x {0} grid a letter names the region of its cell. Cover cells "
                           "with dominoes of 1 x 2 cells, upright or flat. In each region "
                           "exactly two cells are covered, by one domino or by two. Two dominoes may touch "
                           "at corners, but never overlap or touch along a side.{1}",
                           side, second)},
          .formats = {"Answer with the list of all dominoes, each as a list of its two cells (row, column) "
                      "counted from 1, in a form like "
                      "[[(r, c), (r, c)], [(r, c), (r, c)], …].",
                      "Write the answer as a Python list with one entry for each domino: a list of its two "
                      "cells, each as (row, column), where rows and columns count "
                      "from 1, for example [[(r, c), (r, c)], …]."}};
}

PromptParts chinese(int64_t side, bool marked) {
  const std::string_view first = marked ? "标记为 X 的格子不属于任何区域，每一个也都必须被覆盖。" : "";
  const std::string_view second = marked ? "X 表示不在任何区域里的格子，它也必须被骨牌覆盖。" : "";
  return {
      .openings = {"请解这道 Norinori。", "下面是一道 Norinori 谜题，请解出。",
                   "请放好这道 Norinori 的骨牌。", "下面的 Norinori 只有一个解，请找出来。",
                   "这个盘面里的骨牌在哪里？", "请找出每张骨牌的位置。", "请推出下列 Norinori 的骨牌。",
                   "请解出下面的 Norinori。"},
      .rules = {fmt::format("盘面有 {0} 行 {0} "
                            "列；字母相同的格子属于同一个区域。请放置骨牌，每张覆盖两个有公共边的格子，使每个"
                            "区域恰好有两个被覆盖的格子。一张骨牌可以跨越两个区域的边界。"
                            "骨牌不能重叠，两张不同骨牌的格子不能有公共边；可以在角上相接。{1}",
                            side, first),
                fmt::format(
                    "规则：在 {0} x {0} 的盘面中，字母表示该格所属的区域。用 1 x 2 "
                    "的骨牌（竖放或横放）覆盖格子。每个区域恰好有两个格子被覆盖，可以由一张或两张骨牌覆盖。"
                    "两张骨牌可以在角上相接，但不能重叠，也不能沿边相接。{1}",
                    side, second)},
      .formats = {"请回答所有骨牌的列表，每张骨牌是它的两个格子 (行, 列) 组成的列表，从 1 开始计数，形式如 "
                  "[[(r, c), (r, c)], [(r, c), (r, c)], …]。",
                  "请把答案写成 Python 列表，每张骨牌一项：由它的两个格子组成的列表，格子写成 (行, "
                  "列)，行和列从 1 计数，例如 [[(r, c), (r, c)], …]。"}};
}

}  // namespace

std::string prompt(const nlohmann::json& given, Language language, int64_t which) {
  const NumberGrid regions = read_given(given);
  const bool marked = std::ranges::count(regions.cells, kBlank) > 0;
  return prompt_of(
      language == Language::kChinese ? chinese(regions.rows, marked) : english(regions.rows, marked),
      letter_lines(region_letters(regions)), which);
}

}  // namespace longhaul::puzzles::norinori
