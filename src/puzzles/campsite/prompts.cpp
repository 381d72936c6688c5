#include "puzzles/campsite/campsite.h"
#include "puzzles/engine/answers/answer_rows.h"

namespace longhaul::puzzles::campsite {
namespace {

constexpr std::string_view kExample = "[[\"T\", \"C\", …], [\"X\", \"X\", …], …]";

PromptParts english(int64_t rows, int64_t columns) {
  return {.openings = {"Solve this Campsite puzzle.",
                       "Here is a Campsite puzzle (tents and trees). Please solve it.",
                       "Pitch the tents on this campsite.",
                       "The Campsite puzzle below has exactly one solution. Find it.",
                       "Where do the tents stand?", "Find a place for every tent on the campsite.",
                       "Work out where the tents of the following campsite are.",
                       "Please solve the puzzle of tents and trees that follows."},
          .rules = {fmt::format("The grid has {} rows and {} columns. T is a tree, X an empty cell. Put "
                                "tents (C) into empty cells, as many as there are trees, so that trees "
                                "and tents can be paired: each tree with one tent that shares a side with "
                                "it, and each tent with one tree. Tents must not touch each "
                                "other, neither at a side nor at a corner. The numbers tell how many tents "
                                "each row and each column holds. Trees stay where they are.",
                                rows, columns),
                    fmt::format("Rules: a grid of {} rows and {} columns shows trees (T) and empty cells "
                                "(X). Some empty cells get a tent (C). Every tree has a tent of its own "
                                "directly above, below, left or right of it, every tent belongs to exactly "
                                "one tree, and there are no other tents. The up to eight cells "
                                "around a tent hold no other tent. Each row and column has as many tents as "
                                "its number says. Trees must not change.",
                                rows, columns)},
          .formats = answer_rows({.language = Language::kEnglish,
                                  .rows = rows,
                                  .columns = columns,
                                  .cells = "letters (\"T\", \"C\" or \"X\")",
                                  .example = kExample})};
}

PromptParts chinese(int64_t rows, int64_t columns) {
  return {.openings = {"请解这道露营谜题。", "下面是一道露营谜题（帐篷与树），请解出。",
                       "请在这个营地里搭好帐篷。", "下面的露营谜题只有一个解，请找出来。", "帐篷搭在哪里？",
                       "请为营地里的每顶帐篷找到位置。", "请推出下列营地中帐篷的位置。",
                       "请解出下面的帐篷与树谜题。"},
          .rules = {fmt::format(
                        "盘面有 {} 行 {} 列。T 是树，X "
                        "是空格。请在空格里放帐篷（C），数量与树相同，使树和帐篷能够配对：每棵树配一顶与它有"
                        "公共边的帐篷，每顶帐篷配一棵树。帐篷之间"
                        "不能相接，无论是边还是角。数字表示每一行和每一列有多少顶帐篷。树的位置不能改动。",
                        rows, columns),
                    fmt::format("规则：{} 行 {} "
                                "列的盘面上有树（T）和空格（X）。有些空格里要放帐篷（C）。每棵树在它的正上、"
                                "正下、左边或右边有一顶属于自己的帐篷，每顶帐篷恰好属于一棵树，没有"
                                "其他帐篷。一顶帐篷周围最多八个格子里没有别的帐篷。每一行和每一列的帐篷数等于"
                                "给出的数字。树不能改变。",
                                rows, columns)},
          .formats = answer_rows({.language = Language::kChinese,
                                  .rows = rows,
                                  .columns = columns,
                                  .cells = "个字母（\"T\"、\"C\" 或 \"X\"）",
                                  .example = kExample})};
}

}  // namespace

std::string prompt(const nlohmann::json& given, Language language, int64_t which) {
  const Board board = read_given(given);
  const bool is_chinese = language == Language::kChinese;
  const std::string text =
      fmt::format("{}\n\n{}{}\n{}{}", letter_lines(board.grid),
                  is_chinese ? "各行的帐篷数（从上到下）：" : "Tents in the rows, from top to bottom: ",
                  fmt::join(board.rows, ", "),
                  is_chinese ? "各列的帐篷数（从左到右）：" : "Tents in the columns, from left to right: ",
                  fmt::join(board.columns, ", "));
  return prompt_of(is_chinese ? chinese(board.grid.rows, board.grid.columns)
                              : english(board.grid.rows, board.grid.columns),
                   text, which);
}

}  // namespace longhaul::puzzles::campsite
