// `longhaul puzzles import`: puzzles of public files of a task as records of ours.
#include <fmt/ranges.h>

#include "base/checksum.h"
#include "base/error.h"
#include "base/files/file.h"
#include "base/progress.h"
#include "base/text/path_text.h"
#include "base/text/text.h"
#include "cli/output.h"
#include "cli/puzzles/verbs.h"
#include "puzzles/arc_agi/arc_agi.h"
#include "puzzles/record_file.h"
#include "puzzles/tasks.h"

namespace longhaul::cli {
namespace {

struct ImportArguments {
  std::string task, file, out;
  int64_t variants = 0, seed = 0;
};

const puzzles::TaskEntry& importable_task(const std::string& name) {
  const puzzles::TaskEntry& task = puzzles::task_named(name);
  if (task.read_public_file != nullptr) return task;
  std::vector<std::string_view> known;
  for (const puzzles::TaskEntry* each : puzzles::tasks()) {
    if (each->read_public_file != nullptr) known.push_back(each->key);
  }
  throw Error({.code = ExitCode::kUsage,
               .what = fmt::format("no public files of {} are known", task.key),
               .expected = fmt::format("one of {}", fmt::join(known, ", ")),
               .found = std::string(task.key),
               .hint = "longhaul puzzles generate makes puzzles of every task"});
}

puzzles::Puzzle variant_of(const puzzles::Puzzle& puzzle, int64_t index, int64_t seed) {
  puzzles::Draw draw({.task = "arc_agi/variants",
                      .version = puzzles::arc_agi::kTask.version,
                      .seed = static_cast<uint64_t>(seed),
                      .index = static_cast<uint64_t>(index)});
  return puzzles::arc_agi::varied(puzzle, draw);
}

// The records are in English. Nothing is proved of these puzzles, and no seed makes them again.
ExitCode import_puzzles(const ImportArguments& arguments) {
  const puzzles::RecordFormat format = puzzles::format_to_write(arguments.out, false);
  const puzzles::TaskEntry& task = importable_task(arguments.task);
  if (arguments.variants > 0 && &task != &puzzles::arc_agi::kTask)
    throw Error({.code = ExitCode::kUsage,
                 .what = "only puzzles of arc_agi can be varied",
                 .found = std::string(task.key),
                 .where = "--variants"});
  const std::filesystem::path from = path_of_text(arguments.file);
  puzzles::RecordWriter writer(path_of_text(arguments.out), format);
  int64_t index = 0;
  for (const std::filesystem::path& file :
       std::filesystem::is_directory(from) ? list_files(from) : std::vector{from}) {
    if (file != from && file.extension() != ".json" && file.extension() != ".jsonl") continue;
    for (const puzzles::Puzzle& puzzle : task.read_public_file(read_text(file), file.string())) {
      for (int64_t variant = 0; variant <= arguments.variants; ++variant) {
        puzzles::MadePuzzle made{.puzzle = variant == 0 ? puzzle : variant_of(puzzle, index, arguments.seed),
                                 .index = index};
        ++index;
        made.hash = xxh3(task.canonical(made.puzzle.given));
        nlohmann::ordered_json record = puzzles::to_record(made, {.task = &task});
        record["n_solutions"] = 0;
        writer.write(record);
      }
    }
  }
  writer.finish();
  print(fmt::format("{} in {}\n", counted(index, "puzzle"), arguments.out));
  return ExitCode::kDone;
}

}  // namespace

void add_puzzles_import(Command& group) {
  auto arguments = std::make_shared<ImportArguments>();
  Command importing =
      group.add("import", "puzzles of public files of a task, in English",
                {{"ZebraLogic", "puzzles import zebra_puzzle grid_mode.json --out zebra.jsonl"},
                 {"all files of a folder, and seven variants of each puzzle",
                  "puzzles import arc_agi FOLDER --variants 7 --out arc.jsonl"}});
  importing.option("TASK", arguments->task, "the task that they belong to").required();
  importing.option("FILE", arguments->file, "a .json or .jsonl file, or a folder of them").required();
  importing.option("--out", arguments->out, "the file to write: FILE.jsonl or FILE.parquet").required();
  importing
      .option("--variants", arguments->variants,
              "so many others of each puzzle of arc_agi: turned, mirrored, in other colours and orders")
      .at_least(0);
  importing.option("--seed", arguments->seed, "of the variants").at_least(0);
  importing.on_run([arguments] { return import_puzzles(*arguments); });
}

}  // namespace longhaul::cli
