// A person solves one puzzle: what `puzzles play` says and reads, without a terminal.
//
//   PlayedPuzzle played = play({&task, made.puzzle, question}, read_line, write);
//
// An answer is one line, or several ended by an empty one: rows of a grid, as "1 2 3 4" or as a list. Beside
// answers there are four words: hint, solution, help and quit. The end of the input ends the game. Whatever
// is typed is judged or refused with a reason; nothing throws.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "puzzles/task.h"

namespace longhaul::puzzles {

struct PlayGame {
  const TaskEntry* task = nullptr;
  Puzzle puzzle;
  std::string question;
};
struct PlayedPuzzle {
  bool solved = false;
  int64_t answers = 0, hints = 0;
};
using ReadLine = std::function<std::optional<std::string>()>;  // none: the input has ended
PlayedPuzzle play(const PlayGame& game, const ReadLine& read_line,
                  const std::function<void(const std::string&)>& write);

// The hint of this number, from 0: a cell of the solution's grid that the puzzle leaves open, or one letter
// more of its text.
std::string hint_of(const PlayGame& game, int64_t number);

}  // namespace longhaul::puzzles
