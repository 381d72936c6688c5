// `longhaul puzzles generate`: a data set of puzzles, of tasks that are named or of one of the public sets.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/progress.h"
#include "base/text/path_text.h"
#include "base/text/text.h"
#include "cli/output.h"
#include "cli/puzzles/making.h"
#include "cli/puzzles/verbs.h"
#include "puzzles/calibrate/calibrate.h"
#include "puzzles/data_set.h"
#include "puzzles/record_file.h"
#include "puzzles/tasks.h"

namespace longhaul::cli {
namespace {

struct GenerateArguments {
  MakingArguments making;
  std::vector<std::string> tasks;
  std::string out, set, mixture, levels;
  int64_t count = 100, validation_count = 10;
};

// "hard.parquet" → "hard.validation.parquet"
std::string validation_path(const std::string& out) {
  const size_t dot = out.rfind('.');
  return out.substr(0, dot) + ".validation" + out.substr(dot);
}

puzzles::DataSet data_set_of(const GenerateArguments& arguments) {
  if (!arguments.set.empty())
    return puzzles::public_set(arguments.set, arguments.count, arguments.validation_count);
  std::vector<const puzzles::TaskEntry*> tasks;
  for (const std::string& name : arguments.tasks) tasks.push_back(&puzzles::task_named(name));
  if (!arguments.mixture.empty()) {
    const auto mixture = puzzles::LevelMixture::read(path_of_text(arguments.mixture));
    return puzzles::mixed_set(tasks, mixture, arguments.count, arguments.making.validation);
  }
  if (!arguments.levels.empty())
    return puzzles::banded_set(tasks, puzzles::read_bands(path_of_text(arguments.levels)), arguments.levels,
                               arguments.count, arguments.making.validation);
  puzzles::DataSet set;
  for (const puzzles::TaskEntry* task : tasks) {
    const puzzles::RecordOf of = record_of(*task, arguments.making);
    set.push_back({task, of.knobs, of.level, arguments.count, 0, arguments.making.validation});
  }
  return set;
}

ExitCode generate_puzzles(const GenerateArguments& arguments) {
  if (arguments.tasks.empty() == arguments.set.empty())
    throw Error({.code = ExitCode::kUsage,
                 .what = "it is not clear which puzzles to make",
                 .expected = "keys of tasks, or --set",
                 .found = arguments.set.empty() ? "neither" : "both",
                 .hint = "longhaul puzzles list names the tasks"});
  const puzzles::RecordFormat format = puzzles::format_to_write(arguments.out, false);
  const puzzles::DataSet set = data_set_of(arguments);
  seed_of(arguments.making);  // refuses those of --validation
  puzzles::RecordWriter training(path_of_text(arguments.out), format);
  std::optional<puzzles::RecordWriter> validation;
  if (!arguments.set.empty() && arguments.validation_count > 0)
    validation.emplace(path_of_text(validation_path(arguments.out)), format);
  Progress progress("puzzles", puzzles::puzzles_of(set));
  int64_t told = 0;
  puzzles::make_data_set(
      set, {.seed = arguments.making.seed, .language = language_named(arguments.making.language)},
      [&](const puzzles::MadePuzzle& made, const puzzles::RecordOf& of) {
        const bool apart = validation && (of.seed & puzzles::kValidationSeeds) != 0;
        (apart ? *validation : training).write(puzzles::to_record(made, of));
      },
      [&](int64_t so_far) {
        progress.advance(so_far - told);
        told = so_far;
      });
  if (validation) validation->finish();
  training.finish();
  print(fmt::format("{} in {}\n", counted(training.rows(), "puzzle"), arguments.out));
  if (validation)
    print(fmt::format("{} to test on in {}\n", counted(validation->rows(), "puzzle"),
                      validation_path(arguments.out)));
  return ExitCode::kDone;
}

// A set and a mixture bring their levels with them.
void refuse_level_beside_a_set(const std::vector<std::string>& words) {
  const auto typed = [&](std::string_view name) {
    return std::ranges::any_of(words, [&](const std::string& word) {
      return word == name || word.starts_with(std::string(name) + "=");
    });
  };
  for (const std::string_view levels : {"--set", "--mixture", "--levels"}) {
    for (const std::string_view other : {"--level", "--knob"}) {
      if (typed(levels) && typed(other))
        throw Error({.code = ExitCode::kUsage,
                     .what = fmt::format("{} says which levels there are, so {} cannot", levels, other),
                     .expected = fmt::format("one of {} and {}", levels, other)});
    }
  }
  if (typed("--set") && (typed("--validation") || typed("--mixture")))
    throw Error({.code = ExitCode::kUsage,
                 .what = "--set makes both splits at levels of its own",
                 .expected = "--set without --validation and --mixture",
                 .hint = "--validation-count says how many puzzles of each task are to test on"});
}

}  // namespace

void add_puzzles_generate(Command& group) {
  auto arguments = std::make_shared<GenerateArguments>();
  Command generate =
      group.add("generate", "puzzles of some tasks as JSON Lines or Parquet",
                {{"harder ones of two tasks",
                  "puzzles generate sudoku kukurasu --level 6 --count 1000 --out hard.jsonl"},
                 {"to test on", "puzzles generate mathador --validation --count 50 --out test.jsonl"},
                 {"of the size of the public set, to train and to test on",
                  "puzzles generate --set hard --count 938 --out hard.parquet"}});
  generate.option("TASK", arguments->tasks, "keys of `puzzles list`");
  generate
      .option("--set", arguments->set,
              "hard: all tasks at levels 3 to 7; easy: the 27 of the easier public set at levels 0 to 3")
      .one_of({"hard", "easy"});
  generate.option("--mixture", arguments->mixture,
                  "levels as this file weighs them: what `puzzles verify --mixture` has written");
  generate.option("--levels", arguments->levels,
                  "levels of each task from this file: what `puzzles calibrate` has written");
  add_making(generate, arguments->making);
  generate.option("--count", arguments->count, "puzzles of each task")
      .at_least(1)
      .at_most(10000000)
      .default_shown();
  generate
      .option("--validation-count", arguments->validation_count,
              "of each task of a --set, in FILE.validation.jsonl beside it")
      .at_least(0)
      .at_most(100000)
      .default_shown();
  generate.option("--out", arguments->out, "the file to write: FILE.jsonl or FILE.parquet").required();
  generate.before_reading([](const std::vector<std::string>& words, const std::vector<std::string>&) {
    refuse_level_beside_a_set(words);
  });
  generate.on_run([arguments] { return generate_puzzles(*arguments); });
}

}  // namespace longhaul::cli
