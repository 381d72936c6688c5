// `longhaul puzzles generate`: a data set of puzzles.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <unordered_set>

#include "base/files/file.h"
#include "base/progress.h"
#include "base/text/path_text.h"
#include "base/text/text.h"
#include "cli/output.h"
#include "cli/puzzles/making.h"
#include "cli/puzzles/verbs.h"
#include "puzzles/calibrate/calibrate.h"
#include "puzzles/tasks.h"

namespace longhaul::cli {
namespace {

struct GenerateArguments {
  MakingArguments making;
  std::vector<std::string> tasks;
  std::string out, levels;
  int64_t count = 100;
};

constexpr int64_t kIndexesOfLevel = int64_t{1} << 40;  // with --levels each level has its own: two levels may have the same knobs

// A share of the count from each level of the task's band, as equal as can be; the easier ones have one more.
void add_band(const puzzles::TaskEntry& task, const GenerateArguments& arguments, std::string& lines) {
  const auto bands = puzzles::read_bands(path_of_text(arguments.levels));
  const auto found = bands.find(std::string(task.key));
  if (found == bands.end())
    throw Error({.code = ExitCode::kData,
                 .what = fmt::format("{} has no band of levels", task.key),
                 .expected = "\"lower\" and \"upper\", the lower one not above",
                 .where = arguments.levels,
                 .hint = "leave the task out, or make its puzzles with --level"});
  const auto [lower, upper] = found->second;
  const int64_t levels = upper - lower + 1;
  std::unordered_set<uint64_t> known;
  Progress progress(std::string(task.key), arguments.count);
  for (int64_t level = lower; level <= upper; ++level) {
    const int64_t count = arguments.count / levels + (level - lower < arguments.count % levels ? 1 : 0);
    MakingArguments making = arguments.making;
    making.level = level;
    const puzzles::RecordOf of = record_of(task, making);
    const auto made = puzzles::make_puzzles(
        {.task = &task, .knobs = of.knobs, .seed = of.seed, .count = count, .first_index = level * kIndexesOfLevel, .known = &known});
    for (const puzzles::MadePuzzle& one : made) lines += puzzles::to_record(one, of).dump() + "\n";
    progress.advance(count);
  }
}

ExitCode generate_puzzles(const GenerateArguments& arguments) {
  if (!arguments.out.ends_with(".jsonl"))
    throw Error(
        {.code = ExitCode::kUsage, .what = "only JSON Lines can be written", .expected = "--out FILE.jsonl", .found = arguments.out});
  std::string lines;
  for (const std::string& name : arguments.tasks) {
    const puzzles::TaskEntry& task = puzzles::task_named(name);
    if (!arguments.levels.empty()) {
      add_band(task, arguments, lines);
      continue;
    }
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
  generate.option("--levels", arguments->levels, "instead of --level: the file of `puzzles calibrate`, whose levels share the count");
  generate.option("--count", arguments->count, "puzzles of each task").at_least(1).at_most(10000000).default_shown();
  generate.option("--out", arguments->out, "the file to write: FILE.jsonl").required();
  generate.on_run([arguments] { return generate_puzzles(*arguments); });
}

}  // namespace longhaul::cli
