// `longhaul puzzles show`: one puzzle as a model is asked it.
#include <nlohmann/json.hpp>

#include "cli/output.h"
#include "cli/puzzles/making.h"
#include "cli/puzzles/verbs.h"
#include "puzzles/tasks.h"

namespace longhaul::cli {
namespace {

struct ShowArguments {
  MakingArguments making;
  std::string task;
  int64_t index = 0;
  bool json = false, solution = false;
};

ExitCode show_puzzle(const ShowArguments& arguments) {
  const puzzles::TaskEntry& task = puzzles::task_named(arguments.task);
  const puzzles::RecordOf of = record_of(task, arguments.making);
  const puzzles::MadePuzzle made = puzzle_at(of, arguments.index);
  if (arguments.json) {
    print_json(puzzles::to_record(made, of));
    return ExitCode::kDone;
  }
  const puzzles::Puzzle puzzle = puzzles::puzzle_in(task, made.puzzle, of.language);
  print(task.prompt(puzzle.given, of.language, puzzles::template_of(arguments.index)) + "\n");
  if (arguments.solution) print("\nSolution: " + puzzle.solution + "\n");
  return ExitCode::kDone;
}

}  // namespace

void add_puzzles_show(Command& group) {
  auto arguments = std::make_shared<ShowArguments>();
  Command show =
      group.add("show", "one puzzle as a model is asked it",
                {{"with its solution", "puzzles show mathador --solution"},
                 {"another one, in Chinese", "puzzles show kukurasu --index 5 --language zh"},
                 {"with few clues, as a record", "puzzles show sudoku --knob clues_percent=32 --json"}});
  show.option("TASK", arguments->task, "a key of `puzzles list`").required();
  add_making(show, arguments->making);
  show.option("--index", arguments->index, "which puzzle of the seed").at_least(0).default_shown();
  show.flag("--solution", arguments->solution, "print it too");
  show.json_flag(arguments->json, "print the record that generate writes");
  show.on_run([arguments] { return show_puzzle(*arguments); });
}

}  // namespace longhaul::cli
