#include "puzzles/rewards/reward_request.h"

#include "base/text/json.h"
#include "puzzles/tasks.h"

namespace longhaul::puzzles {
namespace {

constexpr JsonRules kRequestRules = {.code = ExitCode::kData,
                                     .what = "unusable request",
                                     .hint = "docs/puzzles.md shows requests of verl and TRL",
                                     .string_bytes = 8 << 20};
constexpr size_t kMostValues = 1'000'000;  // each takes many times the memory of its text

// Where the fields of one answer come from: an object of its own, or the places of one number in columns.
struct Fields {
  const nlohmann::json* object = nullptr;
  std::string source, response, truth, extra;  // names
  std::optional<size_t> row;
  std::string where;

  // Null: there is no such field.
  const nlohmann::json* find(const std::string& name) const {
    const auto found = object->find(name);
    if (found == object->end() || found->is_null()) return nullptr;
    if (!row) return &*found;
    return (*found)[*row].is_null() ? nullptr : &(*found)[*row];
  }
};

[[noreturn]] void refuse_request(const std::string& where, std::string expected, std::string found = "") {
  throw Error({.code = ExitCode::kData,
               .what = std::string(kRequestRules.what),
               .expected = std::move(expected),
               .found = std::move(found),
               .where = where,
               .hint = std::string(kRequestRules.hint)});
}

// No text of JSON holds more values than it has commas, colons and opening brackets outside its strings, and
// one.
size_t values_at_most(std::string_view text) {
  size_t count = 1;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\') {
      ++i;
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string) {
      count += c == ',' || c == ':' || c == '[' || c == '{' ? 1 : 0;
    }
  }
  return count;
}

// A completion of a conversation is a list of messages; the last one is the answer.
std::string response_text(const nlohmann::json& response, const Fields& fields) {
  if (response.is_string()) return response.get<std::string>();
  if (response.is_array() && !response.empty() && response.back().is_object()) {
    const auto content = response.back().find("content");
    if (content != response.back().end() && content->is_string()) return content->get<std::string>();
  }
  refuse_request(fields.where, fmt::format("\"{}\": a text, or messages with \"content\"", fields.response));
}

std::string game_of(const Fields& fields) {
  if (const nlohmann::json* extra = fields.find(fields.extra); extra != nullptr && extra->is_object()) {
    const auto game = extra->find("game_data_str");
    if (game != extra->end() && game->is_string()) return game->get<std::string>();
  }
  const nlohmann::json* truth = fields.find(fields.truth);
  if (truth != nullptr && truth->is_object()) return truth->dump();
  if (truth != nullptr && truth->is_string() && truth->get_ref<const std::string&>().starts_with('{'))
    return truth->get<std::string>();
  refuse_request(fields.where,
                 fmt::format("the puzzle: \"game_data_str\" in \"{}\", or \"{}\" with \"metadata\"",
                             fields.extra, fields.truth),
                 "neither");
}

RewardItem item_of(const Fields& fields) {
  const nlohmann::json* source = fields.find(fields.source);
  if (source == nullptr || !source->is_string())
    refuse_request(fields.where, fmt::format("\"{}\": the key of a task", fields.source));
  const std::string& key = source->get_ref<const std::string&>();
  task_named(key);
  const nlohmann::json* response = fields.find(fields.response);
  if (response == nullptr)
    refuse_request(fields.where, fmt::format("\"{}\": what was answered", fields.response));
  std::string text = response_text(*response, fields);
  return {read_game(key, game_of(fields), fields.where), std::move(text), fields.where};
}

RewardItem placed_item(const Fields& fields) {
  try {
    return item_of(fields);
  } catch (const Error& error) {
    throw placed_error(error, fields.where);
  }
}

RewardRequest read_columns(const nlohmann::json& body, Fields names) {
  RewardRequest request;
  names.object = &body;
  const nlohmann::json& responses = body.at(names.response);
  if (!responses.is_array()) refuse_request("the request", fmt::format("\"{}\": a list", names.response));
  for (const std::string& name : {names.source, names.truth, names.extra}) {
    const auto column = body.find(name);
    if (column == body.end() || column->is_null()) continue;
    if (!column->is_array() || column->size() != responses.size())
      refuse_request(
          "the request",
          fmt::format("\"{}\": a list of {}, one for each of \"{}\"", name, responses.size(), names.response),
          column->is_array() ? fmt::format("{}", column->size()) : std::string("no list"));
  }
  for (size_t row = 0; row < responses.size(); ++row) {
    Fields fields = names;
    fields.row = row;
    fields.where = fmt::format("answer {}", row);
    request.items.push_back(placed_item(fields));
  }
  return request;
}

}  // namespace

Error placed_error(const Error& error, const std::string& where) {
  ErrorFields fields = error.fields();
  if (!fields.where.starts_with(where))
    fields.where = fields.where.empty() ? where : where + ", " + fields.where;
  return Error(std::move(fields));
}

nlohmann::json parse_reward_json(std::string_view body) {
  if (size_t values = values_at_most(body); values > kMostValues)
    refuse_request("the request", fmt::format("at most {} values", kMostValues),
                   fmt::format("up to {}", values));
  return parse_json(body, "the request", kRequestRules);
}

RewardRequest read_reward_request(const nlohmann::json& body) {
  const Fields one{.object = &body,
                   .source = "data_source",
                   .response = "solution_str",
                   .truth = "ground_truth",
                   .extra = "extra_info",
                   .where = "the request"};
  if (body.is_array()) {
    RewardRequest request;
    for (size_t i = 0; i < body.size(); ++i) {
      Fields fields = one;
      fields.object = &body[i];
      fields.where = fmt::format("answer {}", i);
      if (!body[i].is_object()) refuse_request(fields.where, "an object");
      request.items.push_back(placed_item(fields));
    }
    return request;
  }
  if (body.is_object() && body.contains("completions")) {
    Fields columns = one;
    columns.response = "completions";
    return read_columns(body, std::move(columns));
  }
  if (body.is_object() && body.contains("solution_strs"))
    return read_columns(body, {.source = "data_sources",
                               .response = "solution_strs",
                               .truth = "ground_truths",
                               .extra = "extra_infos"});
  if (body.is_object() && body.contains("solution_str")) {
    RewardRequest request{.is_one = true};
    request.items.push_back(placed_item(one));
    return request;
  }
  refuse_request("the request",
                 "\"solution_str\", \"solution_strs\" or \"completions\", or a list of objects");
}

}  // namespace longhaul::puzzles
