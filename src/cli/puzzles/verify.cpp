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
#include "puzzles/engine/answers/answer.h"
#include "puzzles/level_mixture.h"
#include "puzzles/record_file.h"
#include "puzzles/score.h"
#include "puzzles/tasks.h"

namespace longhaul::cli {
namespace {

struct VerifyArguments {
  std::string file, answers, task, mixture;
  bool json = false;
};

struct Tally {
  int64_t puzzles = 0, accepted = 0, format = 0;
  double cascade = 0;
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
  if (json.is_object() && json.contains("response") && json["response"].is_string())
    return json["response"].get<std::string>();
  throw Error({.code = ExitCode::kData,
               .what = "unusable line of answers",
               .expected = "a JSON text, or {\"response\": \"…\"}: all that was answered, tags included",
               .found = brief(printable(line)),
               .where = where});
}

void print_tallies(const Tallies& tallies, bool stored) {
  std::vector<observe::Column> columns = {
      {"task"}, {"puzzles", observe::Align::kRight}, {"accepted", observe::Align::kRight}};
  if (!stored)
    columns.insert(columns.end(),
                   {{"strict format", observe::Align::kRight}, {"cascade", observe::Align::kRight}});
  columns.push_back({"others"});
  observe::Table table("verdicts", columns);
  for (const auto& [key, tally] : tallies) {
    std::vector<std::string> others;
    for (const auto& [code, count] : tally.codes) {
      if (code != puzzles::name_of(puzzles::VerdictCode::kAccepted))
        others.push_back(fmt::format("{} {}", count, code));
    }
    std::vector<std::string> row = {key, std::to_string(tally.puzzles), std::to_string(tally.accepted)};
    if (!stored) {
      row.push_back(std::to_string(tally.format));
      row.push_back(fmt::format("{:.3f}", tally.cascade / static_cast<double>(tally.puzzles)));
    }
    row.push_back(fmt::format("{}", fmt::join(others, ", ")));
    table.row(row);
  }
  print(table.text(colours_wanted(stdout)));
}

// The verdicts of one call, as they come.
class Judgement {
 public:
  // `response`: all that was answered, or none where the answer that the file itself holds is judged.
  void add(const puzzles::ReadRecord& record, const std::string* response) {
    const puzzles::Verdict verdict =
        response != nullptr ? puzzles::verdict_on(record, *response) : on_stored(record);
    Tally& tally = tallies[std::string(record.task->key)];
    ++tally.puzzles;
    tally.accepted += verdict.accepted() ? 1 : 0;
    ++tally.codes[puzzles::name_of(verdict.code)];
    all_accepted = all_accepted && verdict.accepted();
    nlohmann::ordered_json& row =
        verdicts.emplace_back(nlohmann::ordered_json{{"task", record.task->key},
                                                     {"accepted", verdict.accepted()},
                                                     {"code", puzzles::name_of(verdict.code)},
                                                     {"text", verdict.text}});
    if (response == nullptr) return;
    const puzzles::Score score = puzzles::score_of(*response, verdict);
    tally.format += score.format ? 1 : 0;
    tally.cascade += score.cascade();
    row["score"] = puzzles::to_json(score);
  }

  Tallies tallies;
  nlohmann::ordered_json verdicts = nlohmann::ordered_json::array();
  bool all_accepted = true;

 private:
  static puzzles::Verdict on_stored(const puzzles::ReadRecord& record) {
    if (record.answer.empty()) return {puzzles::VerdictCode::kNoPayload, "the file holds no answer to it"};
    const std::optional<std::string> payload = puzzles::payload_without_tags(record.answer);
    if (!payload) return {puzzles::VerdictCode::kNoPayload, "the answer is too long"};
    return puzzles::verdict_on_payload(record, *payload);
  }
};

// Answers to puzzles whose row tells their level, by task and level.
void add_to_mixture(const std::string& path, const std::vector<puzzles::ReadRecord>& records,
                    const nlohmann::ordered_json& verdicts) {
  const std::filesystem::path file = path_of_text(path);
  puzzles::LevelMixture mixture =
      std::filesystem::exists(file) ? puzzles::LevelMixture::read(file) : puzzles::LevelMixture(0);
  std::map<std::pair<std::string_view, int64_t>, puzzles::LevelAnswers> sums;
  for (size_t i = 0; i < records.size(); ++i) {
    const int64_t level = records[i].columns.value("level", int64_t{-1});
    if (level < 0) continue;
    puzzles::LevelAnswers& sum = sums[{records[i].task->key, level}];
    sum.answers += 1;
    sum.accepted += verdicts[i]["accepted"].get<bool>() ? 1 : 0;
  }
  if (sums.empty())
    throw Error({.code = ExitCode::kData,
                 .what = "the puzzles tell no levels, of which a mixture is made",
                 .expected = "\"level\" from 0 to 10, as puzzles have that were generated without --knob",
                 .where = path});
  for (const auto& [where, sum] : sums) mixture.add(where.first, where.second, sum);
  mixture.write(file);
}

ExitCode verify_answers(const VerifyArguments& arguments) {
  const puzzles::TaskEntry* of_generator =
      arguments.task.empty() ? nullptr : &puzzles::task_named(arguments.task);
  const bool stored = arguments.answers.empty();
  if (stored && !arguments.mixture.empty())
    throw Error({.code = ExitCode::kUsage,
                 .what = "a mixture is made of what a model answered",
                 .expected = "--answers FILE.jsonl beside --mixture"});
  std::vector<puzzles::ReadRecord> asked;
  Judgement judgement;
  puzzles::each_record(path_of_text(arguments.file), of_generator,
                       [&](puzzles::ReadRecord&& record, const std::string&) {
                         if (stored) {
                           judgement.add(record, nullptr);
                         } else {
                           asked.push_back(std::move(record));
                         }
                       });
  const std::vector<std::string> answers = stored ? std::vector<std::string>() : lines_of(arguments.answers);
  if (asked.size() != answers.size())
    throw Error(
        {.code = ExitCode::kData,
         .what = "puzzles and answers do not belong together",
         .expected = fmt::format("{}, one for each puzzle of {}",
                                 counted(static_cast<int64_t>(asked.size()), "answer"), arguments.file),
         .found = fmt::format("{}", answers.size()),
         .where = arguments.answers});
  for (size_t i = 0; i < asked.size(); ++i) {
    const std::string response = response_of(answers[i], fmt::format("{}:{}", arguments.answers, i + 1));
    judgement.add(asked[i], &response);
  }
  if (!arguments.mixture.empty()) add_to_mixture(arguments.mixture, asked, judgement.verdicts);
  if (arguments.json) {
    print_json(judgement.verdicts);
  } else {
    print_tallies(judgement.tallies, stored);
  }
  return stored && !judgement.all_accepted ? ExitCode::kCheckFailed : ExitCode::kDone;
}

}  // namespace

void add_puzzles_verify(Command& group) {
  auto arguments = std::make_shared<VerifyArguments>();
  Command verify = group.add(
      "verify",
      "verdicts on answers to puzzles of a file, or on the answers that the file holds (exit 1: one is "
      "wrong)",
      {{"a table", "puzzles verify puzzles.jsonl --answers answers.jsonl"},
       {"one verdict a puzzle, with scores", "puzzles verify puzzles.parquet --answers answers.jsonl --json"},
       {"whether a public data set is right", "puzzles verify public.parquet"}});
  verify.option("FILE", arguments->file, "puzzles: FILE.jsonl or FILE.parquet").required();
  verify.option("--answers", arguments->answers,
                "JSON Lines: what was answered to each, in order, as a text or {\"response\": …}; without "
                "it, what the file holds");
  verify.option("--task", arguments->task, "of lines that do not tell it, as public generators write them");
  verify.option("--mixture", arguments->mixture,
                "add what was accepted at which level to this file, for `puzzles generate --mixture`");
  verify.json_flag(arguments->json);
  verify.on_run([arguments] { return verify_answers(*arguments); });
}

}  // namespace longhaul::cli
