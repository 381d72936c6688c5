#include "puzzles/engine/answers/answer_rows.h"
#include "puzzles/number_wall/number_wall.h"

namespace longhaul::puzzles::number_wall {
namespace {

constexpr std::string_view kExample = "[[3, \"X\", \"A\", …], [\"A\", \"A\", \"X\", …], …]";

PromptParts english(const NumberGrid& board) {
  return {.openings = {"Solve this number wall puzzle.", "Here is a number wall puzzle. Please solve it.",
                       "Build the walls around the islands of numbers.",
                       "The number wall puzzle below has exactly one solution. Find it.",
                       "Which cells of this grid are walls?", "Find the walls and the islands of this grid.",
                       "Work out every wall of the following grid.",
                       "Please solve the puzzle of walls and islands that follows."},
          .rules = {fmt::format("The grid has {} rows and {} columns. Each open cell (X) becomes a wall (A) "
                                "or stays part of an island (X). An island is a group of cells without "
                                "walls that hang together at their sides. Each island holds exactly one of "
                                "the given numbers and has as many cells as that number says, the "
                                "cell of the number included. No square of 2 x 2 cells may be all walls. Two "
                                "different islands must not touch, not even at a corner. Walls "
                                "need not hang together. Cells with numbers stay as they are.",
                                board.rows, board.columns),
                    fmt::format("Rules: in the grid of {} rows and {} columns put walls (A) into some of the "
                                "cells marked X so that the rest falls into islands, whose cells are "
                                "connected up, down, left and right. There is exactly one number in each "
                                "island, and it is the count of the island's cells, its own one "
                                "included. Cells of different islands never share a side or a corner. "
                                "Nowhere may four walls form a 2 x 2 square. The walls may be "
                                "separate pieces. Numbers are never walls and do not change.",
                                board.rows, board.columns)},
          .formats = answer_rows(
              {.language = Language::kEnglish,
               .rows = board.rows,
               .columns = board.columns,
               .cells = "cells (the given numbers, \"A\" for a wall, \"X\" for any other cell of an island)",
               .example = kExample})};
}

PromptParts chinese(const NumberGrid& board) {
  return {
      .openings = {"请解这道数墙谜题。", "下面是一道数墙谜题，请解出。", "请在数字岛屿的周围筑墙。",
                   "下面的数墙谜题只有一个解，请找出来。", "这个盘面里哪些格子是墙？",
                   "请找出这个盘面里的墙和岛屿。", "请推出下列盘面中的每一面墙。",
                   "请解出下面的墙与岛屿谜题。"},
      .rules =
          {fmt::format(
               "盘面有 {} 行 {} "
               "列。每个空格（X）要么变成墙（A），要么仍是岛屿的一部分（X）。岛屿是由边相连的一组非墙格子。每"
               "个岛屿恰好包含一个给出的数字，它的格子数等于"
               "这个数字，数字所在的格子也算在内。任何 2 x 2 "
               "的方块都不能全是墙。两个不同的岛屿不能相接，在角上也不行。墙不必连成一片。数字格保持不变。",
               board.rows, board.columns),
           fmt::format("规则：在 {} 行 {} 列的盘面中，把一些标为 X "
                       "的格子变成墙（A），使其余格子分成若干岛屿，岛屿的格子上下左右相连。每个岛屿里恰好有一"
                       "个数字，它就是岛屿的格子数，"
                       "包括数字自己的格子。不同岛屿的格子既不能有公共边，也不能在角上相接。任何地方都不能有"
                       "四面墙组成 2 x 2 的方块。墙可以是分开的几片。数字不是墙，也不能改变。",
                       board.rows, board.columns)},
      .formats = answer_rows({.language = Language::kChinese,
                              .rows = board.rows,
                              .columns = board.columns,
                              .cells = "个格子（给出的数字；墙写 \"A\"；岛屿的其他格子写 \"X\"）",
                              .example = kExample})};
}

}  // namespace

std::string prompt(const nlohmann::json& given, Language language, int64_t which) {
  const NumberGrid board = read_given(given);
  return prompt_of(language == Language::kChinese ? chinese(board) : english(board), grid_lines(board),
                   which);
}

}  // namespace longhaul::puzzles::number_wall
