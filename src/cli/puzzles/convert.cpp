// `longhaul puzzles convert`: the puzzles of one file in the format of another.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/text/path_text.h"
#include "base/text/text.h"
#include "cli/output.h"
#include "cli/puzzles/verbs.h"
#include "puzzles/record_file.h"
#include "puzzles/tasks.h"

namespace longhaul::cli {
namespace {

struct ConvertArguments {
  std::string in, out, task, only;
  bool generator = false;
};

ExitCode convert_puzzles(const ConvertArguments& arguments) {
  const puzzles::TaskEntry* of_generator =
      arguments.task.empty() ? nullptr : &puzzles::task_named(arguments.task);
  const puzzles::TaskEntry* only = arguments.only.empty() ? nullptr : &puzzles::task_named(arguments.only);
  puzzles::RecordWriter writer(path_of_text(arguments.out),
                               puzzles::format_to_write(arguments.out, arguments.generator));
  puzzles::each_record(path_of_text(arguments.in), of_generator,
                       [&](puzzles::ReadRecord&& record, const std::string&) {
                         if (only == nullptr || record.task == only) writer.write(record);
                       });
  if (writer.rows() == 0)
    throw Error({.code = ExitCode::kData,
                 .what = "there are no such puzzles",
                 .expected = only == nullptr ? "puzzles" : fmt::format("puzzles of {}", only->key),
                 .found = "none",
                 .where = arguments.in});
  writer.finish();
  print(fmt::format("{} in {}\n", counted(writer.rows(), "puzzle"), arguments.out));
  return ExitCode::kDone;
}

}  // namespace

void add_puzzles_convert(Command& group) {
  auto arguments = std::make_shared<ConvertArguments>();
  Command convert = group.add(
      "convert", "puzzles between JSON Lines, Parquet and what public generators write",
      {{"for a trainer that reads Parquet", "puzzles convert puzzles.jsonl puzzles.parquet"},
       {"as a public generator writes them",
        "puzzles convert puzzles.parquet sudoku.jsonl --generator --only sudoku"},
       {"what a public generator wrote", "puzzles convert data.jsonl puzzles.parquet --task sudoku"}});
  convert.option("IN", arguments->in, "FILE.jsonl or FILE.parquet").required();
  convert.option("OUT", arguments->out, "the file to write: FILE.jsonl or FILE.parquet").required();
  convert.option("--task", arguments->task, "of lines that do not tell it, as public generators write them");
  convert.option("--only", arguments->only, "leave out the puzzles of other tasks");
  convert.flag("--generator", arguments->generator,
               "write what a public generator of the task would: question, answer, metadata");
  convert.on_run([arguments] { return convert_puzzles(*arguments); });
}

}  // namespace longhaul::cli
