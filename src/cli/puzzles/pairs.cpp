// `longhaul puzzles pairs`: right and wrong answers to the puzzles of a file, for train.task = preference.
#include "base/files/file.h"
#include "base/log.h"
#include "base/text/path_text.h"
#include "base/text/text.h"
#include "cli/output.h"
#include "cli/puzzles/verbs.h"
#include "puzzles/answer_pairs.h"
#include "puzzles/record_file.h"

namespace longhaul::cli {
namespace {

struct PairsArguments {
  std::string in, out;
  bool messages = false;
};

ExitCode write_pairs(const PairsArguments& arguments) {
  if (!arguments.out.ends_with(".jsonl"))
    throw Error({.code = ExitCode::kUsage,
                 .what = "pairs are written as JSON lines",
                 .expected = "FILE.jsonl",
                 .found = arguments.out,
                 .where = "--out",
                 .hint = "--out pairs.jsonl"});
  std::vector<puzzles::ReadRecord> records;
  puzzles::each_record(
      path_of_text(arguments.in), nullptr,
      [&](puzzles::ReadRecord&& record, const std::string&) { records.push_back(std::move(record)); });
  std::string lines;
  const puzzles::AnswerPairs pairs = puzzles::make_answer_pairs(
      records, {.messages = arguments.messages, .before = "\n", .after = ""},
      [&](const nlohmann::ordered_json& pair) {
        lines += pair.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
      });
  if (pairs.without_answer > 0)
    log_warning("{} left out: their rows hold no answer", counted(pairs.without_answer, "puzzle"));
  if (pairs.without_wrong > 0)
    log_warning("{} left out: no answer to another puzzle is wrong for them",
                counted(pairs.without_wrong, "puzzle"));
  if (pairs.made == 0)
    throw Error({.code = ExitCode::kData,
                 .what = "no pair can be made",
                 .expected = "two puzzles of a task or more, with their answers",
                 .found = counted(static_cast<int64_t>(records.size()), "puzzle"),
                 .where = arguments.in});
  write_text_atomically(path_of_text(arguments.out), lines);
  print(fmt::format("{} in {}\n", counted(pairs.made, "pair"), arguments.out));
  return ExitCode::kDone;
}

}  // namespace

void add_puzzles_pairs(Command& group) {
  auto arguments = std::make_shared<PairsArguments>();
  Command pairs =
      group.add("pairs", "a right and a wrong answer to each puzzle of a file, for train.task = preference",
                {{"as texts", "puzzles pairs puzzles.jsonl --out pairs.jsonl"},
                 {"as conversations, for a model with a chat template",
                  "puzzles pairs puzzles.jsonl --messages --out pairs.jsonl"}});
  pairs.option("IN", arguments->in, "FILE.jsonl or FILE.parquet, as `puzzles generate` writes it").required();
  pairs.option("--out", arguments->out, "the file to write: FILE.jsonl").required();
  pairs.flag("--messages", arguments->messages,
             "prompts and answers as lists of messages, answers between answer tags");
  pairs.on_run([arguments] { return write_pairs(*arguments); });
}

}  // namespace longhaul::cli
