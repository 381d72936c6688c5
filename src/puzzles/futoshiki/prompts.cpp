#include "puzzles/futoshiki/futoshiki.h"

#include "puzzles/engine/answers/answer_rows.h"

namespace longhaul::puzzles::futoshiki {
namespace {

PromptParts english(int64_t side) {
  return {
      .openings = {"Solve this Futoshiki puzzle.", "Here is a Futoshiki. Please complete it.",
                   "Fill in the missing numbers of the following Futoshiki.",
                   "The Futoshiki below has exactly one solution. Find it.", "Complete the Futoshiki.",
                   "Which numbers are missing in this Futoshiki?",
                   "Work out the full grid of this Futoshiki.", "Please solve the Futoshiki that follows."},
      .rules = {fmt::format("The grid has {0} rows and {0} columns. Each row and each column must hold every "
                            "number from 1 to {0} exactly once. X marks an empty cell. "
                            "Numbers that are given stay where they are. Every inequality must hold; (r,c) "
                            "is the cell in row r and column c, both counted from 1.",
                            side),
                fmt::format("Rules: put a number from 1 to {0} into every empty cell (X) of the {0} x {0} "
                            "grid so that no number stands twice in a row or in a column and all "
                            "inequalities are true. In them (r,c) means row r, column c, counted from 1. "
                            "Given numbers must not change.",
                            side)},
      .formats = answer_rows({.language = Language::kEnglish, .rows = side, .columns = side})};
}

PromptParts chinese(int64_t side) {
  return {
      .openings = {"请解这道不等式数独（Futoshiki）。", "下面是一道 Futoshiki，请把它填完整。",
                   "请填出下列 Futoshiki 中缺少的数字。", "下面的 Futoshiki 只有一个解，请找出来。",
                   "请完成这道 Futoshiki。", "这道 Futoshiki 中缺少哪些数字？",
                   "请推出这道 Futoshiki 的完整盘面。", "请解出下面的 Futoshiki。"},
      .rules = {fmt::format("盘面有 {0} 行 {0} 列。每一行和每一列都必须恰好包含 1 到 {0} 的每个数字各一次。X "
                            "表示空格。已给出的数字不能改动。所有不等式都必须成立；(r,c) 表示第 r 行"
                            "第 c 列的格子，行和列都从 1 开始计数。",
                            side),
                fmt::format("规则：在 {0} x {0} 盘面的每个空格（X）里填入 1 到 {0} "
                            "的一个数字，使同一行、同一列中没有重复的数字，并且所有不等式都成立。其中 (r,c) "
                            "表示第 r 行第 c 列，"
                            "从 1 开始计数。已给出的数字不能改变。",
                            side)},
      .formats = answer_rows({.language = Language::kChinese, .rows = side, .columns = side})};
}

}  // namespace

std::string prompt(const nlohmann::json& given, Language language, int64_t which) {
  const Board board = read_given(given);
  const int64_t side = board.grid.rows;
  const bool is_chinese = language == Language::kChinese;
  // The public verifier looks for the line "Current puzzle:".
  std::string text = fmt::format("Current puzzle:\n{}", grid_lines(board.grid));
  if (!board.signs.empty()) text += is_chinese ? "\n\n不等式：" : "\n\nInequalities:";
  for (const Sign& sign : board.signs) {
    text += fmt::format("\n({},{}) > ({},{})", sign.larger / side + 1, sign.larger % side + 1,
                        sign.smaller / side + 1, sign.smaller % side + 1);
  }
  return prompt_of(is_chinese ? chinese(side) : english(side), text, which);
}

}  // namespace longhaul::puzzles::futoshiki
