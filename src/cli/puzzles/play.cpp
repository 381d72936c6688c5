// `longhaul puzzles play`: a person solves one in the terminal.
#include "puzzles/play/play.h"

#include <iostream>

#include "base/terminal.h"
#include "cli/output.h"
#include "cli/puzzles/making.h"
#include "cli/puzzles/verbs.h"
#include "puzzles/tasks.h"

namespace longhaul::cli {
namespace {

struct PlayArguments {
  MakingArguments making;
  std::string task;
  int64_t index = 0;
};

ExitCode play_puzzle(const PlayArguments& arguments) {
  const puzzles::TaskEntry& task = puzzles::task_named(arguments.task);
  const puzzles::RecordOf of = record_of(task, arguments.making);
  const puzzles::MadePuzzle made = puzzle_at(of, arguments.index);
  const bool person = is_terminal(stdin);
  const auto read_line = [&]() -> std::optional<std::string> {
    if (person) print("> ");
    std::string line;
    if (!std::getline(std::cin, line)) return std::nullopt;
    return line;
  };
  const puzzles::Puzzle puzzle = puzzles::puzzle_in(task, made.puzzle, of.language);
  puzzles::play(
      {&task, puzzle, task.prompt(puzzle.given, of.language, puzzles::template_of(arguments.index))},
      read_line, print);
  return ExitCode::kDone;
}

}  // namespace

void add_puzzles_play(Command& group) {
  auto arguments = std::make_shared<PlayArguments>();
  Command play = group.add("play", "solve one yourself",
                           {{"an easy sudoku", "puzzles play sudoku --level 1"},
                            {"another puzzle, in Chinese", "puzzles play kukurasu --seed 5 --language zh"},
                            {"answers from a file", "puzzles play mathador < answers.txt"}});
  play.option("TASK", arguments->task, "a key of `puzzles list`").required();
  add_making(play, arguments->making);
  play.option("--index", arguments->index, "which puzzle of the seed").at_least(0).default_shown();
  play.on_run([arguments] { return play_puzzle(*arguments); });
}

}  // namespace longhaul::cli
