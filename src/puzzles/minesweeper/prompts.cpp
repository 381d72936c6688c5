#include "puzzles/minesweeper/minesweeper.h"

namespace longhaul::puzzles::minesweeper {
namespace {

PromptParts english(int64_t side) {
  return {.openings = {"Find the mines of this Minesweeper board.",
                       "Here is a Minesweeper board. Which cells must be mines?",
                       "Work out which hidden cells are certain to be mines.", "Read this Minesweeper board.",
                       "Which mines can be proved on the following board?",
                       "Tell all mines that follow from the numbers.",
                       "Study the board below and find every certain mine.",
                       "Please solve the Minesweeper board that follows."},
          .rules = {fmt::format("The board has {0} rows and {0} columns. X is a hidden cell, which may hold "
                                "a mine or not. A number is a revealed cell: it holds no mine, and the "
                                "number tells how many of the up to eight cells around it (at its sides and "
                                "corners) hold mines. How many mines there are in all is not "
                                "known. Find all hidden cells that hold a mine in every arrangement of mines "
                                "that fits all the numbers.",
                                side),
                    fmt::format("Rules: on the {0} x {0} board each number stands in a cell without a mine "
                                "and counts the mines in the cells that touch it at a side or a corner. "
                                "Every X is hidden and may be a mine or not; the total number of mines is "
                                "unknown. Consider all ways to place mines that agree with every "
                                "number, and name each hidden cell that is a mine in all of them.",
                                side)},
          .formats = {"Answer with the list of these cells as (row, column), both counted from 0, in a form "
                      "like [(r, c), (r, c), …].",
                      "Write the answer as a Python list with one (row, column) for each of these cells and "
                      "no others, rows and columns counted from 0, "
                      "for example [(r, c), (r, c), …]."}};
}

PromptParts chinese(int64_t side) {
  return {
      .openings = {"请找出这个扫雷盘面中的地雷。", "下面是一个扫雷盘面，哪些格子一定是地雷？",
                   "请推出哪些隐藏的格子一定是地雷。", "请分析这个扫雷盘面。",
                   "在下面的盘面上可以证明哪些地雷？", "请说出由数字推出的所有地雷。",
                   "请研究下面的盘面，找出每个确定的地雷。", "请解出下面的扫雷盘面。"},
      .rules = {fmt::format("盘面有 {0} 行 {0} 列。X "
                            "是隐藏的格子，可能有地雷，也可能没有。数字是已翻开的格子：它没有地雷，数字表示它"
                            "周围（边和角上）最多八个格子中有多少个地雷。"
                            "地雷的总数未知。请找出在所有符合全部数字的地雷布置中都有地雷的隐藏格子。",
                            side),
                fmt::format(
                    "规则：在 {0} x {0} "
                    "的盘面上，每个数字所在的格子没有地雷，数字是与它在边或角上相接的格子中的地雷数。每个 X "
                    "都是隐藏的，可能是地雷，也可能不是；地雷总数"
                    "未知。考虑所有与每个数字一致的布雷方式，写出在所有这些方式中都是地雷的每个隐藏格子。",
                    side)},
      .formats = {"请回答这些格子的列表，写成 (行, 列)，都从 0 开始计数，形式如 [(r, c), (r, c), …]。",
                  "请把答案写成 Python 列表，每个这样的格子一个 (行, 列)，不写其他格子，行和列从 0 "
                  "开始计数，例如 [(r, c), (r, c), …]。"}};
}

}  // namespace

std::string prompt(const nlohmann::json& given, Language language, int64_t which) {
  const NumberGrid grid = read_given(given).grid;
  return prompt_of(language == Language::kChinese ? chinese(grid.rows) : english(grid.rows), grid_lines(grid),
                   which);
}

}  // namespace longhaul::puzzles::minesweeper
