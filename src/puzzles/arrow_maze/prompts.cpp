#include <algorithm>

#include "puzzles/arrow_maze/arrow_maze.h"
#include "puzzles/engine/answers/answer_rows.h"

namespace longhaul::puzzles::arrow_maze {
namespace {

constexpr std::string_view kExample = "[[\"2\", \"→\", …], [\"↘\", \"↑\", …], …]";

PromptParts english(int64_t rows, int64_t columns) {
  return {
      .openings = {"Solve this arrow maze.", "Here is an arrow maze. Please complete it.",
                   "Fill the empty cells of the grid with arrows.",
                   "The arrow maze below has exactly one solution. Find it.",
                   "Which arrows are missing in this maze?", "Find all missing arrows of this arrow maze.",
                   "Work out the whole grid of the following arrow maze.",
                   "Please solve the arrow maze that follows."},
      .rules = {fmt::format(
                    "The grid has {} rows and {} columns. Its cells hold numbers, arrows (↑ ↓ ← → ↖ ↗ ↙ ↘) "
                    "or X, an empty cell. Put one of the eight arrows into every "
                    "empty cell. From each number a ray runs in each of the eight directions: it begins with "
                    "the next cell in that direction and goes on as "
                    "long as the cells hold the arrow of that direction; it may be empty. The number is the "
                    "count of all arrows in its eight rays. Every arrow "
                    "must be in a ray of some number. Numbers and arrows that are given must not change.",
                    rows, columns),
                fmt::format("Rules: in a grid of {} rows and {} columns every X is to be replaced by an "
                            "arrow: ↑ ↓ ← → ↖ ↗ ↙ or ↘. Walking away from a number in a straight "
                            "line (across, down or diagonally), count the arrows that point in the direction "
                            "of the walk, up to the first cell that holds anything "
                            "else or to the border. Over all eight directions these counts must add up to "
                            "the number. And for every arrow, walking against its "
                            "direction over arrows equal to it must lead to a number. What is given stays.",
                            rows, columns)},
      .formats = answer_rows({.language = Language::kEnglish,
                              .rows = rows,
                              .columns = columns,
                              .cells = "texts (numbers and arrows)",
                              .example = kExample})};
}

PromptParts chinese(int64_t rows, int64_t columns) {
  return {
      .openings = {"请解这道箭头迷宫。", "下面是一道箭头迷宫，请把它填完整。", "请在盘面的空格里填入箭头。",
                   "下面的箭头迷宫只有一个解，请找出来。", "这个迷宫中缺少哪些箭头？",
                   "请找出这道箭头迷宫缺少的所有箭头。", "请推出下列箭头迷宫的完整盘面。",
                   "请解出下面的箭头迷宫。"},
      .rules = {fmt::format(
                    "盘面有 {} 行 {} 列。格子里是数字、箭头（↑ ↓ ← → ↖ ↗ ↙ ↘）或表示空格的 "
                    "X。请在每个空格里填入八种箭头之一。从每个数字向八个方向各有一条射线：它从该方向的下一格"
                    "开始，只要格子里是该方向的箭头就继续；射线可以为空。数字等于它八条射线中箭头的总数。每个"
                    "箭头都必须在某个数字的射线中。已给出的数字和箭头不能改动。",
                    rows, columns),
                fmt::format(
                    "规则：在 {} 行 {} 列的盘面中，把每个 X 换成一个箭头：↑ ↓ ← → ↖ ↗ ↙ 或 "
                    "↘。从一个数字出发沿直线（横、竖或斜）走，数出指向行走方向的箭头，直到第一个不是这种"
                    "箭头的格子或边界为止。八个方向的个数之和必须等于这个数字。并且从每个箭头出发，逆着它的方"
                    "向经过与它相同的箭头，必须到达一个数字。已给出的内容保持不变。",
                    rows, columns)},
      .formats = answer_rows({.language = Language::kChinese,
                              .rows = rows,
                              .columns = columns,
                              .cells = "个文本（数字和箭头）",
                              .example = kExample})};
}

}  // namespace

std::string prompt(const nlohmann::json& given, Language language, int64_t which) {
  const NumberGrid maze = read_given(given);
  const bool wide = std::ranges::any_of(maze.cells, [](int64_t cell) { return cell >= 10; });
  std::string text;
  for (int64_t r = 0; r < maze.rows; ++r) {
    for (int64_t c = 0; c < maze.columns; ++c) {
      const int64_t cell = maze.at(r, c);
      text += fmt::format("{}{}{}", c == 0 ? "" : " ", wide && cell < 10 ? " " : "", text_of(cell));
    }
    if (r + 1 < maze.rows) text += '\n';
  }
  return prompt_of(
      language == Language::kChinese ? chinese(maze.rows, maze.columns) : english(maze.rows, maze.columns),
      text, which);
}

}  // namespace longhaul::puzzles::arrow_maze
