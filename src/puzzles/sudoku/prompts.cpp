#include "puzzles/sudoku/sudoku.h"

namespace longhaul::puzzles::sudoku {
namespace {

PromptParts english(int64_t side, const Boxes& boxes) {
  const std::string size = fmt::format("{0} rows and {0} columns, cut into boxes of {1} rows and {2} columns",
                                       side, boxes.rows, boxes.columns);
  return {.openings = {"Solve this Sudoku.", "Here is a Sudoku. Please complete it.",
                       "Fill in the missing digits of the following Sudoku.",
                       "The Sudoku below has exactly one solution. Find it.", "Complete the Sudoku.",
                       "You are given a partly filled Sudoku. What does the full grid look like?",
                       "Work out the full grid of this Sudoku.", "Please solve the Sudoku that follows."},
          .rules = {fmt::format("The grid has {}. Each row, each column and each box must hold every digit "
                                "from 1 to {} exactly once. X marks an empty "
                                "cell. Digits that are given must stay where they are.",
                                size, side),
                    fmt::format("Rules: put a digit from 1 to {1} into every empty cell, which is shown as "
                                "X, and change no given digit. The grid has "
                                "{0}. No digit may stand twice in a row, in a column or in a box.",
                                size, side)},
          .formats = {fmt::format("Give all {0} rows from top to bottom as a list of {0} lists of {0} "
                                  "digits, in a form like [[1, 2, …], [3, 4, …], …].",
                                  side),
                      fmt::format("Write the answer as a Python list of the {0} rows, each a list of {0} "
                                  "digits from left to right, for example "
                                  "[[1, 2, …], [3, 4, …], …].",
                                  side)}};
}

PromptParts chinese(int64_t side, const Boxes& boxes) {
  const std::string size =
      fmt::format("{0} 行 {0} 列，分成 {1} 行 {2} 列的宫", side, boxes.rows, boxes.columns);
  return {.openings = {"请解这道数独。", "下面是一道数独，请把它填完整。", "请填出下列数独中缺少的数字。",
                       "下面的数独只有一个解，请找出来。", "请完成这道数独。",
                       "给你一个没有填完的数独，完整的盘面是什么？", "请推出这道数独的完整盘面。",
                       "请解出下面的数独。"},
          .rules = {fmt::format("盘面有 {}。每一行、每一列、每一宫都必须恰好包含 1 到 {} 的每个数字各一次。X "
                                "表示空格。已给出的数字不能改动。",
                                size, side),
                    fmt::format(
                        "规则：在每个空格（用 X 表示）里填入 1 到 {1} 的一个数字，不改动已给出的数字。盘面有 "
                        "{0}。同一个数字在一行、一列或一宫中不能出现两次。",
                        size, side)},
          .formats = {fmt::format("请从上到下给出全部 {0} 行，写成 {0} 个列表组成的列表，每个列表有 {0} "
                                  "个数字，形式如 [[1, 2, …], [3, 4, …], …]。",
                                  side),
                      fmt::format("请把答案写成 Python 列表：共 {0} 行，每行是从左到右的 {0} 个数字，例如 "
                                  "[[1, 2, …], [3, 4, …], …]。",
                                  side)}};
}

}  // namespace

std::string prompt(const nlohmann::json& given, Language language, int64_t which) {
  const NumberGrid board = board_of(given);
  const Boxes boxes = boxes_of(board.rows);
  return prompt_of(language == Language::kChinese ? chinese(board.rows, boxes) : english(board.rows, boxes),
                   grid_lines(board), which);
}

}  // namespace longhaul::puzzles::sudoku
