#include "puzzles/wordscapes/wordscapes.h"

namespace longhaul::puzzles::wordscapes {
namespace {

PromptParts english(const Grid<char>& grid) {
  const std::string size = fmt::format("{} rows of {} cells", grid.rows, grid.columns);
  return {
      .openings = {"Fill this crossword with the listed words.",
                   "Here is a crossword without clues. Put the words into it.",
                   "Where do the words below go in the grid?", "Complete the following word grid.",
                   "The grid below has exactly one filling with the listed words. Find it.",
                   "Please put all the words into the grid.",
                   "Place the words in the crossword that follows.",
                   "Work out how the listed words fill the grid."},
      .rules = {fmt::format("The grid has {}. An X is a cell for one letter, a 0 is a cell that stays empty. "
                            "Every run of two or more X "
                            "cells side by side in a row, from the left to the right as far as it goes, must "
                            "be one of the words "
                            "across; every such run in a column, from top to bottom, must be one of the "
                            "words down. Each listed word is "
                            "used exactly once.",
                            size),
                fmt::format("Rules: the grid consists of {}. Put one letter into each cell that is shown as "
                            "X and leave the cells shown "
                            "as 0 empty. Read from left to right, all X cells that stand together in a row "
                            "(two or more) make a word of "
                            "the list of words across; read from top to bottom, those that stand together in "
                            "a column make a word of the "
                            "list of words down. Every word of both lists appears once.",
                            size)},
      .formats = {
          R"(Answer with all rows as a list of lists of cells, " " for an empty cell, in a form like [["a", "b", " "], [" ", "c", " "], …].)",
          R"(Write the filled grid as a list of rows, each a list of letters, with " " in the empty cells, for example [["a", "b", " "], [" ", "c", " "], …].)"}};
}

PromptParts chinese(const Grid<char>& grid) {
  const std::string size = fmt::format("{} 行，每行 {} 格", grid.rows, grid.columns);
  return {
      .openings = {"请用所列单词填满这个填字格。", "下面是一个没有提示的填字游戏，请把单词填进去。",
                   "下面的单词应填在网格的什么地方？", "请完成下面的单词网格。",
                   "下面的网格用所列单词只有一种填法，请找出来。", "请把所有单词填入网格。",
                   "请把单词放进下面的填字格。", "请推出所列单词怎样填满网格。"},
      .rules = {fmt::format("网格有 {}。X 是填一个字母的格，0 是保持空白的格。同一行中相连的两个或更多 X "
                            "格（取到尽头），从左到右必须组成一个横向单词；"
                            "同一列中相连的 X 格，从上到下必须组成一个纵向单词。每个所列单词恰好使用一次。",
                            size),
                fmt::format("规则：网格有 {}。在每个标为 X 的格中填一个字母，标为 0 "
                            "的格保持空白。从左到右读，一行中连在一起的所有 X 格（两个或更多）"
                            "组成横向单词表中的一个单词；从上到下读，一列中连在一起的 X "
                            "格组成纵向单词表中的一个单词。两个表中的每个单词都出现一次。",
                            size)},
      .formats = {
          R"(请把所有行写成由列表组成的列表，空白格写 " "，形式如 [["a", "b", " "], [" ", "c", " "], …]。)",
          R"(请把填好的网格写成各行的列表，每行是字母的列表，空白格用 " "，例如 [["a", "b", " "], [" ", "c", " "], …]。)"}};
}

}  // namespace

std::string prompt(const nlohmann::json& given, Language language, int64_t which) {
  const Board board = read_given(given);
  const bool zh = language == Language::kChinese;
  std::string text;
  for (int64_t r = 0; r < board.grid.rows; ++r) {
    for (int64_t c = 0; c < board.grid.columns; ++c)
      text += fmt::format("{}{}", c == 0 ? "" : " ", board.grid.at(r, c));
    text += '\n';
  }
  text += fmt::format("\n{}{}\n{}{}", zh ? "横向单词：" : "Words across: ", fmt::join(board.across, ", "),
                      zh ? "纵向单词：" : "Words down: ", fmt::join(board.down, ", "));
  return prompt_of(zh ? chinese(board.grid) : english(board.grid), text, which);
}

}  // namespace longhaul::puzzles::wordscapes
