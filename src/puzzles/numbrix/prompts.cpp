#include "puzzles/engine/answers/answer_rows.h"
#include "puzzles/numbrix/numbrix.h"

namespace longhaul::puzzles::numbrix {
namespace {

PromptParts english(int64_t side) {
  return {.openings = {"Solve this Numbrix.", "Here is a Numbrix puzzle. Please complete it.",
                       "Find the path of numbers through the grid.",
                       "The Numbrix below has exactly one solution. Find it.",
                       "Fill in the numbers that this Numbrix lacks.",
                       "How do the numbers run through this grid?",
                       "Work out the whole grid of the following Numbrix.",
                       "Please solve the Numbrix that follows."},
          .rules = {fmt::format("The grid has {0} rows and {0} columns. Fill it with the numbers from 1 to "
                                "{1}, each exactly once. Numbers that follow each other (1 and 2, "
                                "2 and 3, and so on) must stand in cells that share a side; cells that meet "
                                "at a corner only do not count. X marks an empty cell. "
                                "Numbers that are given stay where they are.",
                                side, side * side),
                    fmt::format("Rules: every empty cell (X) of the {0} x {0} grid gets a number, so that "
                                "all numbers from 1 to {1} are there once and form one path: from "
                                "each number one step up, down, left or right leads to the next one. "
                                "Diagonal steps are not allowed. Given numbers must not "
                                "change.",
                                side, side * side)},
          .formats = answer_rows({.language = Language::kEnglish, .rows = side, .columns = side})};
}

PromptParts chinese(int64_t side) {
  return {
      .openings = {"请解这道 Numbrix。", "下面是一道 Numbrix 谜题，请把它填完整。",
                   "请找出数字穿过盘面的路径。", "下面的 Numbrix 只有一个解，请找出来。",
                   "请填出这道 Numbrix 中缺少的数字。", "数字怎样穿过这个盘面？",
                   "请推出下列 Numbrix 的完整盘面。", "请解出下面的 Numbrix。"},
      .rules = {fmt::format("盘面有 {0} 行 {0} 列。请填入 1 到 {1} 的数字，每个恰好一次。相邻的数字（1 和 "
                            "2、2 和 3，依此类推）必须在有公共边的格子里；只在角上相接的格子不算。"
                            "X 表示空格。已给出的数字不能改动。",
                            side, side * side),
                fmt::format(
                    "规则：在 {0} x {0} 盘面的每个空格（X）里填一个数字，使 1 到 {1} "
                    "的所有数字各出现一次，并连成一条路径：从每个数字向上、下、左、右走一步就到下一个数字。"
                    "不允许斜着走。已给出的数字不能改变。",
                    side, side * side)},
      .formats = answer_rows({.language = Language::kChinese, .rows = side, .columns = side})};
}

}  // namespace

std::string prompt(const nlohmann::json& given, Language language, int64_t which) {
  const NumberGrid board = read_given(given);
  return prompt_of(language == Language::kChinese ? chinese(board.rows) : english(board.rows),
                   grid_lines(board), which);
}

}  // namespace longhaul::puzzles::numbrix
