#include "puzzles/calcudoko/calcudoko.h"
#include "puzzles/engine/answers/answer_rows.h"

namespace longhaul::puzzles::calcudoko {
namespace {

PromptParts english(int64_t side) {
  return {.openings = {"Solve this Calcudoko.", "Here is a Calcudoko puzzle. Please fill in its grid.",
                       "Complete the grid of this Calcudoko.",
                       "The Calcudoko below has exactly one solution. Find it.",
                       "Which numbers belong into this Calcudoko?",
                       "Work out the whole grid of the following Calcudoko.",
                       "Please solve this calculation square.",
                       "Fill the square so that all calculations come out right."},
          .rules =
              {fmt::format("The grid has {0} rows and {0} columns. Each row and each column must hold every "
                           "number from 1 to {0} exactly once. The grid is cut "
                           "into cages. A cage is written as its cells, its target and its operator, in a "
                           "form like ((1,1),(1,2)):5 +, where (r,c) is the cell "
                           "in row r and column c, both counted from 1. The numbers in a cage must all be "
                           "different. With + they add up to the target; with * "
                           "their product is the target; with - the larger of the two numbers minus the "
                           "smaller is the target; with ÷ the larger of the two "
                           "divided by the smaller is the target, without a remainder.",
                           side),
               fmt::format(
                   "Rules: put a number from 1 to {0} into each cell of the {0} x {0} grid so that no number "
                   "stands twice in a row, in a column or in a "
                   "cage. Each line below is one cage: the list of its cells, a colon, the target and the "
                   "operator. (r,c) means row r, column c, "
                   "counted from 1. The operator tells what the numbers of the cage make: + the sum, * the "
                   "product, - the difference of two numbers "
                   "(larger minus smaller), ÷ the exact quotient of two numbers (larger divided by smaller).",
                   side)},
          .formats = answer_rows({.language = Language::kEnglish, .rows = side, .columns = side})};
}

PromptParts chinese(int64_t side) {
  return {.openings = {"请解这道算独（Calcudoko）。", "下面是一道 Calcudoko 谜题，请填满它的盘面。",
                       "请完成这道 Calcudoko 的盘面。", "下面的 Calcudoko 只有一个解，请找出来。",
                       "这道 Calcudoko 里应该填哪些数字？", "请推出下列 Calcudoko 的完整盘面。",
                       "请解出这道计算方阵。", "请填满方阵，使所有算式都成立。"},
          .rules = {fmt::format(
                        "盘面有 {0} 行 {0} 列。每一行和每一列都必须恰好包含 1 到 {0} "
                        "的每个数字各一次。盘面被划分成若干个笼子。笼子写成它的格子、目标值和运算符，形式如 "
                        "((1,1),(1,2)):5 +，其中 (r,c) 表示第 r 行第 c 列的格子，行和列都从 1 "
                        "开始计数。一个笼子里的数字必须各不相同。运算符为 + 时，它们的和等于目标值；"
                        "为 * 时，它们的乘积等于目标值；为 - 时，两个数中较大的减去较小的等于目标值；为 ÷ "
                        "时，两个数中较大的除以较小的等于目标值，且没有余数。",
                        side),
                    fmt::format("规则：在 {0} x {0} 盘面的每个格子里填入 1 到 {0} "
                                "的一个数字，使同一行、同一列、同一个笼子里都没有重复的数字。下面每一行文字是"
                                "一个笼子：它的格子列表、"
                                "冒号、目标值和运算符。(r,c) 表示第 r 行第 c 列，从 1 "
                                "开始计数。运算符说明笼子里的数字得出什么：+ 是和，* 是乘积，- "
                                "是两个数的差（较大的减较小的），"
                                "÷ 是两个数的整除商（较大的除以较小的）。",
                                side)},
          .formats = answer_rows({.language = Language::kChinese, .rows = side, .columns = side})};
}

}  // namespace

std::string prompt(const nlohmann::json& given, Language language, int64_t which) {
  const Board board = read_given(given);
  std::string text = language == Language::kChinese ? "笼子：" : "Cages:";
  for (const Cage& cage : board.cages) {
    std::vector<std::string> cells;
    for (const int64_t cell : cage.cells)
      cells.push_back(fmt::format("({},{})", cell / board.side + 1, cell % board.side + 1));
    text += fmt::format("\n({}):{} {}", fmt::join(cells, ","), cage.target, text_of(cage.sign));
  }
  return prompt_of(language == Language::kChinese ? chinese(board.side) : english(board.side), text, which);
}

}  // namespace longhaul::puzzles::calcudoko
