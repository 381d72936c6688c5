#include "puzzles/records.h"

#include <algorithm>

#include "base/error.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "puzzles/engine/answers/answer.h"
#include "puzzles/tasks.h"

namespace longhaul::puzzles {
namespace {

constexpr JsonRules kRecordRules = {.code = ExitCode::kData,
                                    .what = "unusable record of a puzzle",
                                    .hint = "longhaul puzzles generate makes such files",
                                    .depth = 16};

// The columns of a row in their order, and the kind of JSON value that each must be.
struct Column {
  const char* name;
  bool (*fits)(const nlohmann::json&);
  const char* kind;
  bool needed = false;
};
bool is_text(const nlohmann::json& value) { return value.is_string(); }
bool is_integer(const nlohmann::json& value) { return value.is_number_integer(); }
bool is_natural(const nlohmann::json& value) {
  return value.is_number_unsigned() || (value.is_number_integer() && value >= 0);
}
bool is_object(const nlohmann::json& value) { return value.is_object(); }
bool is_messages(const nlohmann::json& value) {
  return value.is_array() && std::ranges::all_of(value, [](const nlohmann::json& each) {
           return each.is_object() && each.contains("role") && each["role"].is_string() &&
                  each.contains("content") && each["content"].is_string();
         });
}
bool is_level(const nlohmann::json& value) {
  return value.is_number_integer() && value >= -1 && value <= kHardestLevel;
}
constexpr Column kColumns[] = {
    {"data_source", is_text, "the key of a task, a text", true},
    {"prompt", is_messages, "a list of messages, each with \"role\" and \"content\""},
    {"ability", is_text, "a text"},
    {"reward_model", is_object, "an object"},
    {"extra_info", is_object, "an object with \"game_data_str\"", true},
    {"task_version", is_integer, "a whole number"},
    {"level", is_level, "-1, or a level from 0 to 10"},
    {"knobs", is_object, "an object"},
    {"seed", is_natural, "a whole number from 0"},
    {"index", is_natural, "a whole number from 0"},
    {"lang", is_text, "a text"},
    {"template", is_natural, "a whole number from 0"},
    {"solution", is_text, "a text"},
    {"n_solutions", is_natural, "a whole number from 0"},
    {"payload_hash", is_text, "a text"}};

[[noreturn]] void refuse_record(const std::string& where, std::string expected, std::string found = "") {
  throw Error({.code = ExitCode::kData,
               .what = "unusable record of a puzzle",
               .expected = std::move(expected),
               .found = std::move(found),
               .where = where});
}

// A row of a task that nobody here can judge is an error, never a wrong answer.
const TaskEntry& task_of_row(const std::string& key, const std::string& where) {
  try {
    return task_named(key);
  } catch (const Error& error) {
    ErrorFields fields = error.fields();
    fields.code = ExitCode::kData;
    fields.where = where + ", \"data_source\"";
    throw Error(fields);
  }
}

// An object of a public generator as a row of its task.
nlohmann::json row_of_generator(const nlohmann::json& object, const std::string& line,
                                const TaskEntry& task) {
  return {{"data_source", task.key},
          {"prompt", {{{"role", "user"}, {"content", object.value("question", nlohmann::json())}}}},
          {"ability", "logic"},
          {"reward_model", {{"answer", ""}, {"solution", ""}, {"style", "rule"}}},
          {"extra_info", {{"game_data_str", line}}}};
}

nlohmann::ordered_json game_data(const nlohmann::json& row, const std::string& where) {
  const nlohmann::json& extra = row["extra_info"];
  if (!extra.contains("game_data_str") || !extra["game_data_str"].is_string())
    refuse_record(where, "\"extra_info\" with \"game_data_str\", a text");
  const std::string text = extra["game_data_str"].get<std::string>();
  const nlohmann::json game = parse_json(text, where + ", game_data_str", kRecordRules);
  if (!game.is_object() || !game.contains("metadata") || !game["metadata"].is_object())
    refuse_record(where + ", game_data_str", "an object with \"metadata\", an object");
  if (game.contains("question") && !game["question"].is_string())
    refuse_record(where + ", game_data_str", "\"question\": a text");
  return nlohmann::ordered_json::parse(text);
}

// With the role in front of the content, as to_record() has them.
nlohmann::ordered_json messages_of(const nlohmann::json& prompt) {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  for (const nlohmann::json& each : prompt)
    messages.push_back({{"role", each["role"]}, {"content", each["content"]}});
  return messages;
}

std::string answer_text(const nlohmann::ordered_json& game, const nlohmann::json& row) {
  if (row.contains("solution") && row["solution"].is_string() && !row["solution"].get<std::string>().empty())
    return row["solution"].get<std::string>();
  if (!game.contains("answer") || game["answer"].is_null()) return "";
  return game["answer"].is_string() ? game["answer"].get<std::string>() : game["answer"].dump();
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
  return {{"data_source", (of.seed & kValidationSeeds) != 0 ? "val/" + std::string(of.task->key)
                                                            : std::string(of.task->key)},
          {"prompt", {{{"role", "user"}, {"content", question}}}},
          {"ability", "logic"},
          {"reward_model",
           {{"answer", ""}, {"ground_truth", puzzle.solution}, {"solution", ""}, {"style", "rule"}}},
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

ReadRecord read_record(const std::string& line, const std::string& where, const TaskEntry* of_generator) {
  const nlohmann::json object = parse_json(line, where, kRecordRules);
  if (!object.is_object() || object.contains("data_source") || !object.contains("metadata"))
    return read_row(object, where);
  if (of_generator == nullptr)
    throw Error({.code = ExitCode::kData,
                 .what = "a line that does not tell its task",
                 .expected = "\"data_source\", the key of a task",
                 .found = "what a public generator writes: question, answer, metadata",
                 .where = where,
                 .hint = "say which task it is: --task KEY"});
  return read_row(row_of_generator(object, line, *of_generator), where);
}

ReadRecord read_game(std::string_view data_source, const std::string& game_data_str,
                     const std::string& where) {
  return read_row({{"data_source", data_source}, {"extra_info", {{"game_data_str", game_data_str}}}}, where);
}

ReadRecord read_row(const nlohmann::json& row, const std::string& where) {
  if (!row.is_object()) refuse_record(where, "an object", row.type_name());
  ReadRecord read;
  for (const Column& column : kColumns) {
    const bool there = row.contains(column.name) && !row[column.name].is_null();
    if (!there && column.needed)
      refuse_record(where, fmt::format("\"{}\": {}", column.name, column.kind), "none");
    if (there && !column.fits(row[column.name]))
      refuse_record(where, fmt::format("\"{}\": {}", column.name, column.kind),
                    brief(row[column.name].dump()));
    if (there) read.columns[column.name] = row[column.name];
    if (there && column.fits == is_messages) read.columns[column.name] = messages_of(row[column.name]);
  }
  read.task = &task_of_row(row["data_source"].get<std::string>(), where);
  const nlohmann::ordered_json game = game_data(row, where);
  try {
    read.given = read.task->from_reference != nullptr ? read.task->from_reference(game)
                                                      : nlohmann::json(game["metadata"]);
    const PublicAnswer* compared = public_answer_of(read.task->key);
    if (compared != nullptr && !read.given.contains(compared->own_key)) {
      read.compared = compared;
      read.right = read_public_answer(
          *compared, game.contains("answer") ? nlohmann::json(game["answer"]) : nlohmann::json());
    }
  } catch (const Error& error) {
    ErrorFields fields = error.fields();
    fields.where = where + (fields.where.empty() ? "" : ", " + fields.where);
    throw Error(fields);
  }
  read.answer = answer_text(game, row);
  if (read.answer.empty()) read.answer = read.right;
  return read;
}

nlohmann::ordered_json generator_object(const ReadRecord& record) {
  const auto game =
      nlohmann::ordered_json::parse(record.columns["extra_info"]["game_data_str"].get<std::string>());
  const auto field = [&](const char* name, nlohmann::ordered_json otherwise) {
    return game.contains(name) ? game[name] : otherwise;
  };
  return {{"question", field("question", "")},
          {"answer", field("answer", "")},
          {"difficulty", field("difficulty", 1)},
          {"metadata", field("metadata", nullptr)},
          {"gpt_response", ""}};
}

Verdict verdict_on_payload(const ReadRecord& record, std::string_view payload) {
  if (record.compared != nullptr) return verdict_by(*record.compared, record.right, payload);
  return record.task->verify(record.given, payload);
}

Verdict verdict_on(const ReadRecord& record, std::string_view response) {
  const std::optional<std::string> payload = payload_of(response);
  if (!payload) return {VerdictCode::kNoPayload, "no text between the tags <answer> and </answer>"};
  return verdict_on_payload(record, *payload);
}

}  // namespace longhaul::puzzles
