#include "posttrain/preference/answer_rows.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/files/file.h"
#include "base/text/text.h"
#include "data/chat/chat_format.h"
#include "data/corpus/byte_stream.h"

namespace longhaul::posttrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kForms =
    "{\"prompt\", \"chosen\", \"rejected\"}, {\"prompt\", \"completion\", \"label\"}, {\"prompt\", "
    "\"completion\", \"reward\"} or "
    "{\"prompt\", \"completions\", \"rewards\"}";
constexpr std::array kReadFields = {"prompt",      "chosen", "rejected", "completion",
                                    "completions", "label",  "reward",   "rewards"};
constexpr size_t kMostLineBytes = 64 << 20;

[[noreturn]] void refuse_row(const std::string& where, const std::string& expected,
                             const std::string& found) {
  throw Error(
      {.code = ExitCode::kData,
       .what = "a row of answers cannot be read",
       .expected = expected,
       .found = brief(printable(found)),
       .where = where,
       .hint = "mend the row, or preference.skip_bad_rows=true (docs/guides/preferences.md has the forms)"});
}

std::string dumped(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

const ordered_json& field_of(const ordered_json& object, const char* name, const std::string& where) {
  const auto found = object.find(name);
  if (found == object.end()) refuse_row(where, fmt::format("\"{}\": {}", name, kForms), dumped(object));
  return *found;
}

// A text or messages.
ordered_json said(const ordered_json& object, const char* name, const std::string& where) {
  const ordered_json& value = field_of(object, name, where);
  if (value.is_string()) return value;
  if (!value.is_array())
    refuse_row(fmt::format("{}, \"{}\"", where, name), "a text, or a list of messages", dumped(value));
  try {
    data::chat::check_messages(value, name);
  } catch (const Error& error) {
    refuse_row(fmt::format("{}, {}", where, error.fields().where), error.fields().expected,
               error.fields().found);
  }
  return value;
}

double number_of(const ordered_json& value, const std::string& name, const std::string& where) {
  const bool good = value.is_number() && std::isfinite(value.get<double>());
  if (!good) refuse_row(fmt::format("{}, \"{}\"", where, name), "a number that is finite", dumped(value));
  return value.get<double>();
}

// A prompt of messages is followed by messages: a text is what the assistant said.
ordered_json as_answer_to(const ordered_json& prompt, ordered_json answer, const std::string& where) {
  if (prompt.is_array() && answer.is_string())
    return ordered_json::array({{{"role", "assistant"}, {"content", answer}}});
  if (prompt.is_string() && answer.is_array())
    refuse_row(where, "an answer that is a text, as the prompt is", dumped(answer));
  return answer;
}

// The messages that both begin with; an answer is not empty.
void split_messages(AnswerRow& row, const ordered_json& chosen, const ordered_json& rejected) {
  size_t same = 0;
  while (same < std::min(chosen.size(), rejected.size()) && chosen[same] == rejected[same]) ++same;
  if (same > 0 && same == std::min(chosen.size(), rejected.size())) --same;
  row.prompt = ordered_json::array();
  for (size_t i = 0; i < same; ++i) row.prompt.push_back(chosen[i]);
  for (const ordered_json* side : {&chosen, &rejected}) {
    ordered_json answer = ordered_json::array();
    for (size_t i = same; i < side->size(); ++i) answer.push_back((*side)[i]);
    row.answers.push_back(std::move(answer));
  }
  if (same == 0)
    refuse_row(row.where, "a \"prompt\", or messages with which both answers begin", dumped(chosen));
}

// The text with which both begin, up to a blank or a line end: no word is cut.
void split_texts(AnswerRow& row, const std::string& chosen, const std::string& rejected) {
  size_t same = 0;
  while (same < std::min(chosen.size(), rejected.size()) && chosen[same] == rejected[same]) ++same;
  while (same > 0 && chosen[same - 1] != ' ' && chosen[same - 1] != '\n') --same;
  if (same == 0) refuse_row(row.where, "a \"prompt\", or a text with which both answers begin", chosen);
  row.prompt = chosen.substr(0, same);
  row.answers = {chosen.substr(same), rejected.substr(same)};
}

void read_pair(AnswerRow& row, const ordered_json& object) {
  const ordered_json chosen = said(object, "chosen", row.where),
                     rejected = said(object, "rejected", row.where);
  if (object.contains("prompt")) {
    row.prompt = said(object, "prompt", row.where);
    row.answers = {as_answer_to(row.prompt, chosen, row.where),
                   as_answer_to(row.prompt, rejected, row.where)};
    return;
  }
  if (chosen.type() != rejected.type())
    refuse_row(row.where, "\"chosen\" and \"rejected\" of one form", dumped(rejected));
  if (chosen.is_string()) return split_texts(row, chosen.get<std::string>(), rejected.get<std::string>());
  split_messages(row, chosen, rejected);
}

void read_group(AnswerRow& row, const ordered_json& object) {
  const ordered_json &answers = field_of(object, "completions", row.where),
                     &rewards = field_of(object, "rewards", row.where);
  if (!answers.is_array() || !rewards.is_array() || answers.size() != rewards.size() || answers.empty())
    refuse_row(row.where, "\"completions\" and \"rewards\" as lists of one length", dumped(rewards));
  for (size_t i = 0; i < answers.size(); ++i) {
    const ordered_json one = {{"completion", answers[i]}};
    row.answers.push_back(as_answer_to(row.prompt, said(one, "completion", row.where), row.where));
    row.rewards.push_back(number_of(rewards[i], fmt::format("rewards[{}]", i), row.where));
  }
}

void read_single(AnswerRow& row, const ordered_json& object) {
  row.answers = {as_answer_to(row.prompt, said(object, "completion", row.where), row.where)};
  if (row.form == RowForm::kScored) {
    row.rewards = {number_of(object.at("reward"), "reward", row.where)};
    return;
  }
  const ordered_json& label = field_of(object, "label", row.where);
  const bool good = label.is_boolean() || (label.is_number_integer() && (label == 0 || label == 1));
  if (!good) refuse_row(row.where + ", \"label\"", "true or false", dumped(label));
  row.good = label.is_boolean() ? label.get<bool>() : label == 1;
}

class RowReader {
 public:
  RowReader(AnswerRows& into, bool skip_bad_rows) : into_(into), skip_(skip_bad_rows) {}

  void read_file(const fs::path& path) {
    const auto stream = data::open_stream(path);
    std::string line, chunk(1 << 16, '\0');
    int64_t number = 0;
    for (size_t size = stream->read(chunk); size > 0; size = stream->read(chunk)) {
      std::string_view rest(chunk.data(), size);
      for (size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
        line.append(rest.substr(0, end));
        take(line, fmt::format("{}:{}", path.string(), ++number));
        line.clear();
        rest.remove_prefix(end + 1);
      }
      line.append(rest);
      if (line.size() > kMostLineBytes)
        refuse_row(fmt::format("{}:{}", path.string(), number + 1), "a line of at most 64 MiB",
                   "a longer one");
    }
    take(line, fmt::format("{}:{}", path.string(), number + 1));
  }

 private:
  void take(const std::string& line, const std::string& where) {
    if (trimmed(line).empty()) return;
    try {
      const ordered_json object = ordered_json::parse(line, nullptr, false);
      if (object.is_discarded()) refuse_row(where, "a JSON object", line);
      add(answer_row(object, where));
      for (const auto& [name, value] : object.items()) {
        if (std::ranges::find(kReadFields, name) == kReadFields.end()) ++into_.unread[name];
      }
    } catch (const Error& error) {
      if (!skip_) throw;
      if (into_.bad++ == 0)
        into_.first_bad =
            fmt::format("{}: expected {}, found {}", where, error.fields().expected, error.fields().found);
    }
  }
  // Scored answers to one prompt are one row.
  void add(AnswerRow row) {
    if (row.form == RowForm::kScored) {
      const auto [found, is_new] = by_prompt_.try_emplace(dumped(row.prompt), into_.rows.size());
      if (!is_new) {
        AnswerRow& group = into_.rows[found->second];
        group.answers.insert(group.answers.end(), row.answers.begin(), row.answers.end());
        group.rewards.insert(group.rewards.end(), row.rewards.begin(), row.rewards.end());
        return;
      }
    }
    into_.rows.push_back(std::move(row));
  }

  AnswerRows& into_;
  bool skip_;
  std::map<std::string, size_t> by_prompt_;
};

bool holds_rows(const fs::path& path) {
  const std::string_view plain = data::without_compression(path.native());
  return data::ends_with_in_any_case(plain, ".jsonl") || data::ends_with_in_any_case(plain, ".ndjson");
}

}  // namespace

AnswerRow answer_row(const ordered_json& object, const std::string& where) {
  if (!object.is_object()) refuse_row(where, "a JSON object", dumped(object));
  AnswerRow row{.where = where};
  if (object.contains("chosen") || object.contains("rejected")) {
    read_pair(row, object);
    return row;
  }
  row.prompt = said(object, "prompt", where);
  row.form =
      object.contains("reward") || object.contains("completions") ? RowForm::kScored : RowForm::kLabelled;
  if (object.contains("completions")) {
    read_group(row, object);
  } else {
    read_single(row, object);
  }
  return row;
}

AnswerRows read_answer_rows(const fs::path& path, bool skip_bad_rows) {
  AnswerRows all;
  RowReader reader(all, skip_bad_rows);
  if (fs::is_directory(path)) {
    for (const fs::path& file : list_files(path)) {
      if (holds_rows(file)) reader.read_file(file);
    }
  } else {
    reader.read_file(path);
  }
  if (all.rows.empty()) {
    throw Error({.code = ExitCode::kData,
                 .what = "there are no answers to learn from",
                 .expected = kForms,
                 .found = all.bad > 0 ? fmt::format("{}; the first: {}",
                                                    counted(all.bad, "row that cannot be read",
                                                            "rows that cannot be read"),
                                                    all.first_bad)
                                      : "no row",
                 .where = path.string(),
                 .hint = "preference.data=PAIRS.jsonl, or a folder of .jsonl files"});
  }
  return all;
}

}  // namespace longhaul::posttrain
