#include "puzzles/engine/answers/answer_rows.h"
#include "puzzles/survo/survo.h"

namespace longhaul::puzzles::survo {
namespace {

PromptParts english(int64_t side) {
  return {.openings = {"Solve this Survo puzzle.", "Here is a Survo puzzle. Please complete its matrix.",
                       "Put the missing numbers back into the matrix.",
                       "The Survo below has exactly one solution. Find it.",
                       "Which number belongs into which open cell?",
                       "Complete the matrix so that all sums are right.",
                       "Work out the full matrix of the following Survo.",
                       "Please solve the Survo that follows."},
          .rules = {fmt::format("The matrix has {0} rows and {0} columns. The last number of each row is the "
                                "sum of the other numbers in that row, and the last number of each "
                                "column is the sum of the other numbers in that column; this holds for the "
                                "last row and the last column too. X marks an open cell. Put the "
                                "candidate numbers into the open cells, each as often as it is listed, so "
                                "that all sums are right. Numbers that are given must not "
                                "change.",
                                side),
                    fmt::format("Rules: in a {0} x {0} matrix the last column holds the sums of the rows and "
                                "the last row holds the sums of the columns, with the sum of all "
                                "in the corner. Some numbers were taken out and their cells marked with X; "
                                "they are listed as candidate numbers. Use all of them, each "
                                "as many times as it stands in the list, one for each X, so that every sum "
                                "comes out. All other numbers stay.",
                                side)},
          .formats = answer_rows({.language = Language::kEnglish, .rows = side, .columns = side})};
}

PromptParts chinese(int64_t side) {
  return {
      .openings = {"请解这道 Survo 谜题。", "下面是一道 Survo 谜题，请把矩阵填完整。",
                   "请把缺少的数字放回矩阵。", "下面的 Survo 只有一个解，请找出来。",
                   "哪个数字应该放进哪个空格？", "请补全矩阵，使所有的和都正确。",
                   "请推出下列 Survo 的完整矩阵。", "请解出下面的 Survo。"},
      .rules = {fmt::format(
                    "矩阵有 {0} 行 {0} "
                    "列。每一行的最后一个数是该行其他数的和，每一列的最后一个数是该列其他数的和；最后一行和最"
                    "后一列也是如此。X 表示空格。请把候选数字放进空格，"
                    "每个数字使用的次数与它在列表中出现的次数相同，使所有的和都正确。已给出的数字不能改动。",
                    side),
                fmt::format("规则：在 {0} x {0} "
                            "的矩阵中，最后一列是各行的和，最后一行是各列的和，角上是全部的和。有些数字被取出"
                            "，它们的格子用 X 标记，这些数字列为候选数字。请全部用上，"
                            "每个数字用的次数与列表中相同，每个 X 放一个，使每个和都成立。其他数字保持不变。",
                            side)},
      .formats = answer_rows({.language = Language::kChinese, .rows = side, .columns = side})};
}

}  // namespace

std::string prompt(const nlohmann::json& given, Language language, int64_t which) {
  const Board board = read_given(given);
  const bool is_chinese = language == Language::kChinese;
  const std::string text =
      fmt::format("{}\n\n{}{}", grid_lines(board.matrix),
                  is_chinese ? "候选数字：" : "Candidate numbers: ", fmt::join(board.candidates, ", "));
  return prompt_of(is_chinese ? chinese(board.matrix.rows) : english(board.matrix.rows), text, which);
}

}  // namespace longhaul::puzzles::survo
