#include "puzzles/skyscraper_puzzle/skyscraper_puzzle.h"

#include "puzzles/engine/answers/answer_rows.h"

namespace longhaul::puzzles::skyscraper_puzzle {
namespace {

PromptParts english(int64_t side) {
  return {.openings = {"Solve this skyscraper puzzle.", "Here is a skyscraper puzzle. Please solve it.",
                       "Find the heights of the buildings.",
                       "The skyscraper puzzle below has exactly one solution. Find it.",
                       "Which building stands where in this skyscraper puzzle?",
                       "Fill the grid of this skyscraper puzzle.",
                       "Work out the heights in the following skyscraper puzzle.",
                       "Please solve the skyscraper puzzle that follows."},
          .rules = {fmt::format("The grid has {0} rows and {0} columns. Each cell holds a building of height "
                                "1 to {0}; no height stands twice in a row or in a column. A number beside "
                                "the grid tells how many buildings are seen along its row or column from "
                                "there: a building hides all lower ones behind it. 0 means that "
                                "nothing is told. X marks a height that is to be found; heights that are "
                                "given must not change.",
                                side),
                    fmt::format(
                        "Rules: in a grid of {0} x {0} buildings each row and each column has the heights 1 "
                        "to {0}, each once. Looking from a side along a row or column, one sees "
                        "a building if it is higher than all before it; the numbers tell how many are seen, "
                        "and 0 that nothing is told. X is an unknown height, other "
                        "heights are given and stay.",
                        side)},
          .formats = answer_rows(
              {.language = Language::kEnglish, .rows = side, .columns = side, .cells = "heights"})};
}

PromptParts chinese(int64_t side) {
  return {
      .openings = {"请解这道摩天楼谜题。", "下面是一道摩天楼谜题，请解出。", "请找出各座楼的高度。",
                   "下面的摩天楼谜题只有一个解，请找出来。", "这道摩天楼谜题中哪座楼在哪里？",
                   "请填满这道摩天楼谜题的盘面。", "请推出下列摩天楼谜题中的高度。",
                   "请解出下面的摩天楼谜题。"},
      .rules = {fmt::format("盘面有 {0} 行 {0} 列。每个格子里有一座高度为 1 到 {0} "
                            "的楼；同一行、同一列中没有相同的高度。盘面旁边的数字表示从那里沿该行或该列能看到"
                            "多少座楼：一座楼会挡住它"
                            "后面所有较低的楼。0 表示没有提示。X 表示要找出的高度；已给出的高度不能改动。",
                            side),
                fmt::format(
                    "规则：在 {0} x {0} 的楼群中，每一行和每一列都有高度 1 到 "
                    "{0}，各一次。从一侧沿行或列看去，比前面所有楼都高的楼能被看到；数字表示能看到多少座，0 "
                    "表示没有"
                    "提示。X 是未知的高度，其他高度是已知的，保持不变。",
                    side)},
      .formats =
          answer_rows({.language = Language::kChinese, .rows = side, .columns = side, .cells = "个高度"})};
}

}  // namespace

std::string prompt(const nlohmann::json& given, Language language, int64_t which) {
  const Board board = read_given(given);
  const auto& clues = board.clues;
  const bool is_chinese = language == Language::kChinese;
  const auto line = [](const std::vector<int64_t>& numbers) {
    return fmt::format("{}", fmt::join(numbers, " "));
  };
  const std::string text =
      is_chinese
          ? fmt::format(
                "上方（从左到右）：{}\n下方（从左到右）：{}\n左侧（从上到下）：{}\n右侧（从上到下）：{}\n\n{"
                "}",
                line(clues[0]), line(clues[1]), line(clues[2]), line(clues[3]), grid_lines(board.grid))
          : fmt::format(
                "Top (left to right): {}\nBottom (left to right): {}\nLeft (top to bottom): {}\nRight (top "
                "to bottom): {}\n\n{}",
                line(clues[0]), line(clues[1]), line(clues[2]), line(clues[3]), grid_lines(board.grid));
  return prompt_of(is_chinese ? chinese(board.grid.rows) : english(board.grid.rows), text, which);
}

}  // namespace longhaul::puzzles::skyscraper_puzzle
