// `longhaul puzzles verify`: verdicts on answers to the puzzles of a file.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/files/file.h"
#include "base/terminal.h"
#include "base/text/path_text.h"
#include "base/text/text.h"
#include "cli/output.h"
#include "cli/puzzles/verbs.h"
#include "observe/table.h"
#include "puzzles/engine/answer.h"
#include "puzzles/records.h"
#include "puzzles/tasks.h"

namespace longhaul::cli {
namespace {

struct VerifyArguments {
  std::string file, answers;
  bool json = false;
};

struct Tally {
  int64_t puzzles = 0, accepted = 0, format = 0;
  std::map<std::string_view, int64_t> codes;
};
using Tallies = std::map<std::string, Tally>;

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  std::istringstream text(read_text(path_of_text(path)));
  for (std::string line; std::getline(text, line);) {
    if (!line.empty() && line != "\r") lines.push_back(line);
  }
  return lines;
}

// A line of answers: a JSON text, or an object with "response".
std::string response_of(const std::string& line, const std::string& where) {
  const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
  if (json.is_string()) return json.get<std::string>();
  if (json.is_object() && json.contains("response") && json["response"].is_string()) return json["response"].get<std::string>();
  throw Error({.code = ExitCode::kData,
               .what = "unusable line of answers",
               .expected = "a JSON text, or {\"response\": \"…\"}: all that was answered, tags included",
               .found = brief(printable(line)),
               .where = where});
}

void print_tallies(const Tallies& tallies) {
  observe::Table table("verdicts", {{"task"},
                                    {"puzzles", observe::Align::kRight},
                                    {"accepted", observe::Align::kRight},
                                    {"strict format", observe::Align::kRight},
                                    {"others"}});
  for (const auto& [key, tally] : tallies) {
    std::vector<std::string> others;
    for (const auto& [code, count] : tally.codes) {
      if (code != puzzles::name_of(puzzles::VerdictCode::kAccepted)) others.push_back(fmt::format("{} {}", count, code));
    }
    table.row({key, std::to_string(tally.puzzles), std::to_string(tally.accepted), std::to_string(tally.format),
               fmt::format("{}", fmt::join(others, ", "))});
  }
  print(table.text(colours_wanted(stdout)));
}

ExitCode verify_answers(const VerifyArguments& arguments) {
  const std::vector<std::string> asked = lines_of(arguments.file), answers = lines_of(arguments.answers);
  if (asked.size() != answers.size())
    throw Error(
        {.code = ExitCode::kData,
         .what = "puzzles and answers do not belong together",
         .expected = fmt::format("{}, one for each puzzle of {}", counted(static_cast<int64_t>(asked.size()), "answer"), arguments.file),
         .found = fmt::format("{}", answers.size()),
         .where = arguments.answers});
  Tallies tallies;
  nlohmann::ordered_json verdicts = nlohmann::ordered_json::array();
  for (size_t i = 0; i < asked.size(); ++i) {
    const puzzles::ReadRecord record = puzzles::read_record(asked[i], fmt::format("{}:{}", arguments.file, i + 1));
    const std::string response = response_of(answers[i], fmt::format("{}:{}", arguments.answers, i + 1));
    const puzzles::Verdict verdict = puzzles::verdict_on(record, response);
    Tally& tally = tallies[std::string(record.task->key)];
    ++tally.puzzles;
    tally.accepted += verdict.accepted() ? 1 : 0;
    tally.format += puzzles::has_strict_format(response) ? 1 : 0;
    ++tally.codes[puzzles::name_of(verdict.code)];
    verdicts.push_back(
        {{"task", record.task->key}, {"accepted", verdict.accepted()}, {"code", puzzles::name_of(verdict.code)}, {"text", verdict.text}});
  }
  if (arguments.json) {
    print_json(verdicts);
  } else {
    print_tallies(tallies);
  }
  return ExitCode::kDone;
}

}  // namespace

void add_puzzles_verify(Command& group) {
  auto arguments = std::make_shared<VerifyArguments>();
  Command verify = group.add("verify", "verdicts on answers to puzzles of a file",
                             {{"a table", "puzzles verify puzzles.jsonl --answers answers.jsonl"},
                              {"one verdict a puzzle", "puzzles verify puzzles.jsonl --answers answers.jsonl --json"},
                              {"puzzles to answer", "puzzles generate sudoku --out puzzles.jsonl"}});
  verify.option("FILE", arguments->file, "JSON Lines that `puzzles generate` wrote").required();
  verify.option("--answers", arguments->answers, "JSON Lines: what was answered to each, in order, as a text or {\"response\": …}")
      .required();
  verify.json_flag(arguments->json);
  verify.on_run([arguments] { return verify_answers(*arguments); });
}

}  // namespace longhaul::cli
