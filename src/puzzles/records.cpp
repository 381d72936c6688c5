#include "puzzles/records.h"

#include "base/error.h"
#include "base/json.h"
#include "puzzles/tasks.h"

namespace longhaul::puzzles {
namespace {

constexpr JsonRules kRecordRules = {
    .code = ExitCode::kData, .what = "unusable record of a puzzle", .hint = "longhaul puzzles generate makes such files", .depth = 16};

[[noreturn]] void refuse_record(const std::string& where, std::string expected) {
  throw Error({.code = ExitCode::kData, .what = "unusable record of a puzzle", .expected = std::move(expected), .where = where});
}

}  // namespace

int64_t template_of(int64_t index) { return index % kTemplates; }

std::string_view name_of(Language language) { return language == Language::kChinese ? "zh" : "en"; }

Puzzle puzzle_in(const TaskEntry& task, const Puzzle& puzzle, Language language) {
  return task.in_language ? task.in_language(puzzle, language) : puzzle;
}

nlohmann::ordered_json to_record(const MadePuzzle& made, const RecordOf& of) {
  const int64_t which = template_of(made.index);
  const Puzzle puzzle = puzzle_in(*of.task, made.puzzle, of.language);
  const std::string question = of.task->prompt(puzzle.given, of.language, which);
  const nlohmann::ordered_json game = {{"question", question},
                                       {"answer", puzzle.solution},
                                       {"difficulty", of.level < 0 ? 1 : of.level},
                                       {"metadata", puzzle.given},
                                       {"gpt_response", ""}};
  return {{"data_source", (of.seed & kValidationSeeds) != 0 ? "val/" + std::string(of.task->key) : std::string(of.task->key)},
          {"prompt", {{{"role", "user"}, {"content", question}}}},
          {"ability", "logic"},
          {"reward_model", {{"answer", ""}, {"solution", ""}, {"style", "rule"}}},
          {"extra_info", {{"game_data_str", game.dump()}, {"index", made.index}}},
          {"task_version", of.task->version},
          {"level", of.level},
          {"knobs", of.knobs.all()},
          {"seed", of.seed},
          {"index", made.index},
          {"lang", name_of(of.language)},
          {"template", which},
          {"solution", puzzle.solution},
          {"n_solutions", of.task->uniqueness == Uniqueness::kAny ? 0 : 1},
          {"payload_hash", fmt::format("{:016x}", made.hash)}};
}

ReadRecord read_record(const std::string& line, const std::string& where) {
  const nlohmann::json record = parse_json(line, where, kRecordRules);
  if (!record.is_object() || !record.contains("data_source") || !record["data_source"].is_string())
    refuse_record(where, "an object with \"data_source\", the key of a task");
  ReadRecord read{.task = &task_named(record["data_source"].get<std::string>())};
  if (!record.contains("extra_info") || !record["extra_info"].is_object() || !record["extra_info"].contains("game_data_str") ||
      !record["extra_info"]["game_data_str"].is_string())
    refuse_record(where, "\"extra_info\" with \"game_data_str\", a text");
  const nlohmann::json game = parse_json(record["extra_info"]["game_data_str"].get<std::string>(), where + ", game_data_str", kRecordRules);
  if (!game.is_object() || !game.contains("metadata")) refuse_record(where + ", game_data_str", "an object with \"metadata\"");
  read.given = game["metadata"];
  return read;
}

}  // namespace longhaul::puzzles
