// `longhaul puzzles generate`: a data set of puzzles.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/path_text.h"
#include "base/progress.h"
#include "base/text.h"
#include "cli/output.h"
#include "cli/puzzles/making.h"
#include "cli/puzzles/verbs.h"
#include "puzzles/tasks.h"

namespace longhaul::cli {
namespace {

struct GenerateArguments {
  MakingArguments making;
  std::vector<std::string> tasks;
  std::string out;
  int64_t count = 100;
};

ExitCode generate_puzzles(const GenerateArguments& arguments) {
  if (!arguments.out.ends_with(".jsonl"))
    throw Error(
        {.code = ExitCode::kUsage, .what = "only JSON Lines can be written", .expected = "--out FILE.jsonl", .found = arguments.out});
  std::string lines;
  for (const std::string& name : arguments.tasks) {
    const puzzles::TaskEntry& task = puzzles::task_named(name);
    const puzzles::RecordOf of = record_of(task, arguments.making);
    Progress progress(std::string(task.key), arguments.count);
    int64_t told = 0;
    const auto made =
        puzzles::make_puzzles({.task = &task, .knobs = of.knobs, .seed = of.seed, .count = arguments.count}, [&](int64_t so_far) {
          progress.advance(so_far - told);
          told = so_far;
        });
    for (const puzzles::MadePuzzle& one : made) lines += puzzles::to_record(one, of).dump() + "\n";
  }
  write_text_atomically(path_of_text(arguments.out), lines);
  print(fmt::format("{} in {}\n", counted(arguments.count * static_cast<int64_t>(arguments.tasks.size()), "puzzle"), arguments.out));
  return ExitCode::kDone;
}

}  // namespace

void add_puzzles_generate(Command& group) {
  auto arguments = std::make_shared<GenerateArguments>();
  Command generate = group.add("generate", "puzzles of some tasks as JSON Lines",
                               {{"a hundred", "puzzles generate sudoku --out sudoku.jsonl"},
                                {"harder ones of two tasks", "puzzles generate sudoku kukurasu --level 6 --count 1000 --out hard.jsonl"},
                                {"to test on", "puzzles generate mathador --validation --count 50 --out test.jsonl"}});
  generate.option("TASK", arguments->tasks, "keys of `puzzles list`").required();
  add_making(generate, arguments->making);
  generate.option("--count", arguments->count, "puzzles of each task").at_least(1).at_most(10000000).default_shown();
  generate.option("--out", arguments->out, "the file to write: FILE.jsonl").required();
  generate.on_run([arguments] { return generate_puzzles(*arguments); });
}

}  // namespace longhaul::cli
