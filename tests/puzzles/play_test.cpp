// A game as it is typed, with puzzles and pictures written by hand.
#include "puzzles/play/play.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "puzzles/kukurasu/kukurasu.h"
#include "puzzles/mathador/mathador.h"
#include "puzzles/play/picture.h"
#include "puzzles/sudoku/sudoku.h"

namespace longhaul::puzzles {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

const PlayGame kSudoku = {
    &sudoku::kTask,
    {json::parse(R"({"original_sudoku": [[1,2,3,4],[3,4,1,2],["X",1,4,3],[4,3,2,"X"]]})"),
     "[[1, 2, 3, 4], [3, 4, 1, 2], [2, 1, 4, 3], [4, 3, 2, 1]]"},
    "Solve it."};
const PlayGame kMathador = {
    &mathador::kTask,
    {json::parse(R"({"numbers": [8, 4, 6], "operators": ["+","-","*","/"], "result": 24})"), "(8 - 4) * 6"},
    "Reach 24."};

struct Told {
  PlayedPuzzle played;
  std::string text;
};
Told typed(const PlayGame& game, std::deque<std::string> lines) {
  Told told;
  told.played = play(
      game,
      [&]() -> std::optional<std::string> {
        if (lines.empty()) return std::nullopt;
        std::string line = lines.front();
        lines.pop_front();
        return line;
      },
      [&](const std::string& text) { told.text += text; });
  return told;
}

TEST(PuzzlePicture, LinesStandAroundBoxes) {
  EXPECT_EQ(picture_of("sudoku", kSudoku.puzzle.given),
            "┌───────┬───────┐\n"
            "│ 1   2 │ 3   4 │\n"
            "│ 3   4 │ 1   2 │\n"
            "├───────┼───────┤\n"
            "│ X   1 │ 4   3 │\n"
            "│ 4   3 │ 2   X │\n"
            "└───────┴───────┘\n");
}

TEST(PuzzlePicture, LinesStandAroundRegions) {
  EXPECT_EQ(picture_of("star_placement_puzzle", json::parse(R"({"region_grid": [["A","A"],["A","B"]]})")),
            "┌───────┐\n"
            "│ A   A │\n"
            "│   ┌───┤\n"
            "│ A │ B │\n"
            "└───┴───┘\n");
}

TEST(PuzzlePicture, ElseAroundEveryCellWhateverItsWidth) {
  EXPECT_EQ(picture_of("arrow_maze", json::parse(R"({"maze": [["↖", "10"], [3, "X"]]})")),
            "┌────┬────┐\n"
            "│  ↖ │ 10 │\n"
            "├────┼────┤\n"
            "│  3 │  X │\n"
            "└────┴────┘\n");
  EXPECT_EQ(picture_of("kukurasu", json::parse(R"({"row_sums": [1], "col_sums": [1]})")), "");
  EXPECT_EQ(picture_of("x", json::parse(R"({"grid": [[1], [1, 2]]})")), "")
      << "rows of unlike lengths are no grid";
}

TEST(PuzzlePlay, AGridIsTypedInRowsOrAsAList) {
  for (const std::deque<std::string>& lines :
       {std::deque<std::string>{"1 2 3 4", "3 4 1 2", "2 1 4 3", "4 3 2 1", ""},
        {"1 2 3 4", "3 4 1 2", "2 1 4 3", "4 3 2 1"},
        {"[[1,2,3,4],[3,4,1,2],[2,1,4,3],[4,3,2,1]]"},
        {"[[1,2,3,4],", " [3,4,1,2],", " [2,1,4,3],", " [4,3,2,1]]"},
        {"", "  ", "1 2 3 4", "3 4 1 2", "2 1 4 3", "4 3 2 1", ""}}) {
    const Told told = typed(kSudoku, lines);
    EXPECT_TRUE(told.played.solved) << told.text;
    EXPECT_THAT(told.text, HasSubstr("Right, with 1 answer and 0 hints."));
  }
}

TEST(PuzzlePlay, AWrongAnswerIsToldWhyAndTheGameGoesOn) {
  const Told told = typed(kSudoku, {"[[1,2,3,4],[3,4,1,2],[2,1,4,3],[4,3,2,2]]", "1 2", "",
                                    "[[1,2,3,4],[3,4,1,2],[2,1,4,3],[4,3,2,1]]"});
  EXPECT_THAT(told.text, HasSubstr("Not right (rule_broken): 2 stands twice in row 4."));
  EXPECT_THAT(told.text, HasSubstr("Not right (shape): 1 rows of 2 cells, where the puzzle has 4 of 4."));
  EXPECT_THAT(told.text, HasSubstr("Right, with 3 answers"));
}

TEST(PuzzlePlay, HintsTellOpenCellsOneAfterTheOther) {
  const Told told = typed(
      kSudoku, {"hint", "hint", "hint", "solution", "quit", "[[1,2,3,4],[3,4,1,2],[2,1,4,3],[4,3,2,1]]"});
  EXPECT_THAT(
      told.text,
      HasSubstr(
          "Row 3, column 1 is 2.\nRow 4, column 4 is 1.\nEvery cell has been told.\nThe solution: [[1, 2"));
  EXPECT_FALSE(told.played.solved) << "nothing is read behind quit";
  EXPECT_EQ(told.played.hints, 3);
}

TEST(PuzzlePlay, HintsOfATextAreItsLetters) {
  EXPECT_EQ(hint_of(kMathador, 0), "The answer begins with (");
  EXPECT_EQ(hint_of(kMathador, 1), "The answer begins with (8");
  EXPECT_EQ(hint_of(kMathador, 100), "The whole answer: (8 - 4) * 6");
  EXPECT_EQ(hint_of({&mathador::kTask, {json(), "左右"}, ""}, 0), "The answer begins with 左");
  EXPECT_THAT(typed(kMathador, {"solution"}).text, HasSubstr("One of the solutions: (8 - 4) * 6"));
}

TEST(PuzzlePlay, EndsWithTheInputAndTakesAnything) {
  EXPECT_THAT(typed(kSudoku, {}).text, HasSubstr("The input has ended; the puzzle stays unsolved."));
  EXPECT_FALSE(typed(kSudoku, {"[[[[["}).played.solved);
  EXPECT_THAT(typed(kSudoku, {std::string(70'000, '['), ""}).text, HasSubstr("no_payload"));
  const Told odd = typed(kMathador, {"\x1b[2J\xff", "(8 - 4", "(8 - 4) * 6"});
  EXPECT_TRUE(odd.played.solved) << odd.text;
  EXPECT_EQ(odd.played.answers, 3) << "a line is an answer where there is no grid";
  EXPECT_THAT(odd.text, Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace longhaul::puzzles
