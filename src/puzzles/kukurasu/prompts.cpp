#include "puzzles/kukurasu/kukurasu.h"

namespace longhaul::puzzles::kukurasu {
namespace {

PromptParts english(size_t rows, size_t columns) {
  return {.openings = {"Solve this Kukurasu puzzle.", "Here is a Kukurasu puzzle. Please solve it.",
                       "Find the marked cells of this Kukurasu.",
                       "Which cells must be marked in the following Kukurasu?",
                       "The Kukurasu below has exactly one solution. Find it.",
                       "Mark the right cells of this Kukurasu grid.",
                       "Work out the solution of this Kukurasu.", "Please solve the Kukurasu that follows."},
          .rules = {fmt::format("The grid has {} rows and {} columns, both numbered from 1. Each cell is "
                                "marked (1) or not (X). A mark in column j adds j to the sum of "
                                "its row; a mark in row i adds i to the sum of its column. Every row and "
                                "every column must reach exactly its sum.",
                                rows, columns),
                    fmt::format("Rules: {} rows and {} columns, counted from 1, hold cells that are marked "
                                "with 1 or left as X. For a row, add up the numbers of the columns "
                                "in which it has marks; for a column, add up the numbers of the rows in "
                                "which it has marks. The results must be the sums that are given.",
                                rows, columns)},
          .formats = {"Give the grid as a list of rows from top to bottom, each a list of \"1\" and \"X\", "
                      "in a form like [[\"1\", \"X\", …], …].",
                      "Write the answer as a list with one list for each row, with \"1\" for a marked cell "
                      "and \"X\" for any other, for example "
                      "[[\"1\", \"X\", …], …]."}};
}

PromptParts chinese(size_t rows, size_t columns) {
  return {
      .openings = {"请解这道 Kukurasu 谜题。", "下面是一道 Kukurasu 谜题，请解出。",
                   "请找出这道 Kukurasu 中被标记的格子。", "下面的 Kukurasu 中哪些格子必须标记？",
                   "下面的 Kukurasu 只有一个解，请找出来。", "请标记这道 Kukurasu 中正确的格子。",
                   "请推出这道 Kukurasu 的解。", "请解出下面的 Kukurasu。"},
      .rules = {fmt::format(
                    "盘面有 {} 行 {} 列，行和列都从 1 开始编号。每个格子要么被标记（1），要么不标记（X）。第 "
                    "j 列的标记给所在行的和加 j；第 i 行的标记给所在列的和"
                    "加 i。每一行和每一列都必须恰好达到给定的和。",
                    rows, columns),
                fmt::format(
                    "规则：{} 行 {} 列（从 1 计数）中的格子用 1 标记，或保留为 "
                    "X。对每一行，把有标记的列的编号相加；对每一列，把有标记的行的编号相加。结果必须等于"
                    "给定的和。",
                    rows, columns)},
      .formats = {
          "请从上到下按行给出盘面，写成列表，每行是由 \"1\" 和 \"X\" 组成的列表，形式如 [[\"1\", \"X\", …], "
          "…]。",
          "请把答案写成列表，每行一个列表，标记的格子写 \"1\"，其他写 \"X\"，例如 [[\"1\", \"X\", …], …]。"}};
}

}  // namespace

std::string prompt(const nlohmann::json& given, Language language, int64_t which) {
  const Sums sums = read_given(given);
  const bool is_chinese = language == Language::kChinese;
  const std::string board =
      is_chinese
          ? fmt::format("各行的和（从上到下）：{}\n各列的和（从左到右）：{}", fmt::join(sums.rows, ", "),
                        fmt::join(sums.columns, ", "))
          : fmt::format(
                "Sums of the rows, from top to bottom: {}\nSums of the columns, from left to right: {}",
                fmt::join(sums.rows, ", "), fmt::join(sums.columns, ", "));
  return prompt_of(is_chinese ? chinese(sums.rows.size(), sums.columns.size())
                              : english(sums.rows.size(), sums.columns.size()),
                   board, which);
}

}  // namespace longhaul::puzzles::kukurasu
