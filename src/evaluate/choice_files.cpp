#include "evaluate/choice_files.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <regex>

#include "base/error.h"
#include "base/text/json.h"
#include "evaluate/question_lines.h"

namespace longhaul::evaluate {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr JsonRules kRules{.what = "unusable question",
                           .hint = "docs/guides/evaluate.md lists the formats; --format names one"};

// str.strip, for ASCII.
std::string python_stripped(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\n\v\f\r"), end = text.find_last_not_of(" \t\n\v\f\r");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

// Of WikiHow's marks; "\[.*?\]" does not cross a line end.
std::string without_marks(const std::string& text) {
  static const std::regex bracket("\\[[^\\]\\n]*\\]");
  return replaced(std::regex_replace(replaced(python_stripped(text), " [title]", ". "), bracket, ""), "  ",
                  " ");
}

// As Python's str.capitalize, for ASCII: the first letter large, the others small.
std::string capitalised(std::string text) {
  for (size_t i = 0; i < text.size(); ++i) {
    char& c = text[i];
    if (i == 0 && c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    if (i > 0 && c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

std::vector<std::string> strings(const JsonView& list) {
  std::vector<std::string> result;
  for (size_t i = 0; i < list.array_size(); ++i) result.push_back(list.at(i).string());
  return result;
}

// A whole number, or one in quotes, as some exports have it.
int64_t number_of(const JsonView& value) {
  if (!value.is_string()) return value.integer(0, 1 << 20);
  const std::string& text = value.string();
  value.require(!text.empty() && text.size() < 7 &&
                    std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; }),
                "a whole number");
  return std::stoll(text);
}

ChoiceItem item_of(std::string context, std::vector<std::string> choices, int64_t gold,
                   const JsonView& where) {
  where.require(choices.size() >= 2, "at least two choices");
  where.require(std::ranges::none_of(choices, &std::string::empty), "choices that are not empty");
  where.require(gold >= 0 && gold < static_cast<int64_t>(choices.size()),
                "a right answer that is one of the choices");
  ChoiceItem item{
      .contexts = {std::move(context)}, .continuations = {}, .choices = std::move(choices), .gold = gold};
  for (const std::string& choice : item.choices) item.continuations.push_back(" " + choice);
  return item;
}

ChoiceItem hellaswag(const JsonView& line) {
  const std::string context = line.at("ctx_a").string() + " " + capitalised(line.at("ctx_b").string());
  std::vector<std::string> endings = strings(line.at("endings"));
  for (std::string& ending : endings) ending = without_marks(ending);
  return item_of(without_marks(line.at("activity_label").string() + ": " + context), endings,
                 number_of(line.at("label")), line);
}

ChoiceItem lettered(const JsonView& line, const std::string& context) {
  const std::vector<std::string> letters = strings(line.at("choices").at("label"));
  const auto gold = std::ranges::find(letters, python_stripped(line.at("answerKey").string()));
  line.require(gold != letters.end(), "an answerKey that is one of choices.label");
  std::vector<std::string> choices = strings(line.at("choices").at("text"));
  line.require(choices.size() == letters.size(), "as many choices.text as choices.label");
  return item_of(context, std::move(choices), gold - letters.begin(), line);
}

ChoiceItem arc(const JsonView& line) {
  return lettered(line, "Question: " + line.at("question").string() + "\nAnswer:");
}
ChoiceItem openbookqa(const JsonView& line) { return lettered(line, line.at("question_stem").string()); }

ChoiceItem piqa(const JsonView& line) {
  return item_of("Question: " + line.at("goal").string() + "\nAnswer:",
                 {line.at("sol1").string(), line.at("sol2").string()}, number_of(line.at("label")), line);
}

ChoiceItem mmlu(const JsonView& line) {
  const std::vector<std::string> choices = strings(line.at("choices"));
  line.require(choices.size() == 4, "four choices");
  std::string context;
  if (line.has("subject")) {
    context = fmt::format("The following are multiple choice questions (with answers) about {}.\n\n",
                          replaced(line.at("subject").string(), "_", " "));
  }
  context +=
      fmt::format("{}\nA. {}\nB. {}\nC. {}\nD. {}\nAnswer:", python_stripped(line.at("question").string()),
                  choices[0], choices[1], choices[2], choices[3]);
  return item_of(context, {"A", "B", "C", "D"}, number_of(line.at("answer")), line);
}

// The harness puts each option into the sentence and scores what follows; its lengths are those of the
// contexts, so acc alone means something.
ChoiceItem winogrande(const JsonView& line) {
  const std::string& sentence = line.at("sentence").string();
  const size_t blank = sentence.find('_');
  line.require(blank != std::string::npos, "a sentence with _");
  ChoiceItem item;
  for (const char* option : {"option1", "option2"})
    item.contexts.push_back(sentence.substr(0, blank) + line.at(option).string());
  item.choices = item.contexts;
  item.continuations.assign(2, " " + python_stripped(sentence.substr(blank + 1)));
  item.gold = number_of(line.at("answer")) - 1;
  line.require(item.gold == 0 || item.gold == 1, "answer 1 or 2");
  return item;
}

ChoiceItem boolq(const JsonView& line) {
  const std::string context =
      line.at("passage").string() + "\nQuestion: " + line.at("question").string() + "?\nAnswer:";
  const int64_t gold = line.has("label") ? number_of(line.at("label")) : line.at("answer").boolean() ? 1 : 0;
  return item_of(context, {"no", "yes"}, gold, line);
}

ChoiceItem own(const JsonView& line) {
  return item_of(line.at("context").string(), strings(line.at("choices")), number_of(line.at("gold")), line);
}

struct Format {
  std::string_view name;
  std::vector<std::string> fields;  // that lines of this format have, and of no format before it
  ChoiceItem (*read)(const JsonView&);
};

const std::vector<Format>& formats() {
  static const std::vector<Format> all = {
      {"hellaswag", {"ctx_a", "ctx_b", "endings"}, hellaswag},
      {"piqa", {"goal", "sol1", "sol2"}, piqa},
      {"winogrande", {"sentence", "option1", "option2"}, winogrande},
      {"boolq", {"passage", "question"}, boolq},
      {"openbookqa", {"question_stem", "choices", "answerKey"}, openbookqa},
      {"arc", {"question", "choices", "answerKey"}, arc},
      {"mmlu", {"question", "choices", "answer"}, mmlu},
      {"longhaul", {"context", "choices", "gold"}, own}};
  return all;
}

}  // namespace

std::vector<std::string> choice_formats() {
  std::vector<std::string> names;
  for (const Format& format : formats()) names.emplace_back(format.name);
  return names;
}

std::string format_by_fields(const fs::path& file) {
  const QuestionLine line = question_lines(file, 1).front();
  const json first = parse_json(line.text, line.where, kRules);
  for (const Format& format : formats()) {
    if (first.is_object() &&
        std::ranges::all_of(format.fields, [&](const std::string& field) { return first.contains(field); }))
      return std::string(format.name);
  }
  throw Error({.code = ExitCode::kData,
               .what = "the questions are in no format that is known",
               .expected = fmt::format("the fields of one of {}", fmt::join(choice_formats(), ", ")),
               .found = "others",
               .where = line.where,
               .hint = "docs/guides/evaluate.md lists the fields; --format says which of two formats it is"});
}

std::vector<ChoiceItem> read_choices(const fs::path& file, const std::string& format, int64_t limit) {
  const auto known = std::ranges::find(formats(), format, &Format::name);
  LONGHAUL_ASSERT(known != formats().end(), "format {}", format);
  std::vector<ChoiceItem> items;
  for (const QuestionLine& line : question_lines(file, limit)) {
    const json object = parse_json(line.text, line.where, kRules);
    items.push_back(known->read(JsonView(object, line.where + ":", kRules)));
    items.back().where = line.where;
  }
  return items;
}

}  // namespace longhaul::evaluate
