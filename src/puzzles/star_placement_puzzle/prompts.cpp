#include "puzzles/star_placement_puzzle/star_placement_puzzle.h"

namespace longhaul::puzzles::star_placement_puzzle {
namespace {

PromptParts english(int64_t side, int64_t stars) {
  const std::string count = stars == 1 ? "exactly 1 star" : fmt::format("exactly {} stars", stars);
  return {
      .openings = {"Solve this star placement puzzle.", "Here is a star placement puzzle. Please solve it.",
                   "Place the stars in the grid below.",
                   "The star puzzle below has exactly one solution. Find it.",
                   "Where do the stars belong in this grid?", "Find the cells of all stars.",
                   "Work out where the stars of the following grid are.",
                   "Please solve the star puzzle that follows."},
      .rules = {fmt::format(
                    "The grid has {0} rows and {0} columns and is divided into {0} regions; cells with the "
                    "same letter form one region. Each row, each column and "
                    "each region must hold {1}. No two stars may touch, neither at a side nor at a corner.",
                    side, count),
                fmt::format("Rules: in the {0} x {0} grid each letter names the region that its cell belongs "
                            "to. Put stars into cells so that there are {1} in every "
                            "row, in every column and in every one of the {0} regions, and so that the up to "
                            "eight cells around a star hold no other star.",
                            side, count)},
      .formats = {"Answer with a Python dictionary that gives for each region letter the list of its stars "
                  "as places (row, column), both counted from 1, in a "
                  "form like {\"A\": [(r, c), …], \"B\": [(r, c), …], …}.",
                  "Write the answer as a dictionary with every region's letter as a key and the list of the "
                  "region's stars as its value; a star is written "
                  "(row, column), rows and columns counted from 1, for example {\"A\": [(r, c), …], \"B\": "
                  "[(r, c), …], …}."}};
}

PromptParts chinese(int64_t side, int64_t stars) {
  return {
      .openings = {"请解这道放星星谜题。", "下面是一道放星星谜题，请解出。", "请在下面的盘面中放置星星。",
                   "下面的星星谜题只有一个解，请找出来。", "这个盘面里的星星应该放在哪里？",
                   "请找出所有星星所在的格子。", "请推出下列盘面中星星的位置。", "请解出下面的星星谜题。"},
      .rules = {fmt::format("盘面有 {0} 行 {0} 列，划分成 {0} "
                            "个区域；字母相同的格子属于同一个区域。每一行、每一列和每个区域都必须恰好有 {1} "
                            "颗星。任何两颗星都不能相接，无论是边还是角。",
                            side, stars),
                fmt::format("规则：在 {0} x {0} "
                            "的盘面中，每个字母表示该格所属的区域。请在格子里放星星，使每一行、每一列以及 "
                            "{0} 个区域中的每一个都恰好有 {1} 颗星，并且一颗星周围"
                            "最多八个格子里没有别的星。",
                            side, stars)},
      .formats = {"请用 Python 字典回答：对每个区域的字母给出它的星星位置列表，位置写成 (行, 列)，都从 1 "
                  "开始计数，形式如 {\"A\": [(r, c), …], \"B\": [(r, c), …], …}。",
                  "请把答案写成字典：每个区域的字母为键，该区域星星的列表为值；一颗星写成 (行, 列)，行和列从 "
                  "1 计数，例如 {\"A\": [(r, c), …], \"B\": [(r, c), …], …}。"}};
}

}  // namespace

std::string prompt(const nlohmann::json& given, Language language, int64_t which) {
  const Board board = read_given(given);
  const int64_t side = board.letters.rows;
  return prompt_of(language == Language::kChinese ? chinese(side, board.stars) : english(side, board.stars),
                   letter_lines(board.letters), which);
}

}  // namespace longhaul::puzzles::star_placement_puzzle
