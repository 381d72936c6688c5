#include "puzzles/public_answers.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <vector>

#include "base/text/text.h"
#include "puzzles/engine/answers/answer.h"
#include "puzzles/engine/answers/literal.h"
#include "puzzles/engine/answers/number_answer.h"
#include "puzzles/engine/given.h"
#include "puzzles/engine/grids/grid.h"
#include "puzzles/engine/words/words.h"

namespace longhaul::puzzles {
namespace {

using Form = std::optional<std::string>;

std::string in_capitals(std::string_view text) {
  std::string capitals(text);
  for (char& c : capitals) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return capitals;
}

// Items between commas, or of a list; blanks around them do not count, nor does case.
std::optional<std::vector<std::string>> listed(std::string_view answer) {
  std::vector<std::string> items;
  answer = trimmed(answer);
  if (answer.starts_with('[') || answer.starts_with('(')) {
    const std::optional<Literal> list = read_literal(answer);
    if (!list || !list->is_list()) return std::nullopt;
    for (const Literal& item : list->items) items.push_back(in_capitals(trimmed(item.text)));
  } else {
    for (const std::string& item : words_between(answer, ',')) items.push_back(in_capitals(item));
  }
  if (std::ranges::any_of(items, &std::string::empty)) return std::nullopt;
  return items;
}

Form in_order(std::string_view answer) {
  const auto items = listed(answer);
  return items ? Form(fmt::format("{}", fmt::join(*items, ","))) : std::nullopt;
}

Form option_letters(std::string_view answer) {
  std::set<char> letters;
  for (const char c : in_capitals(answer)) {
    if (c == ',' || c == ' ') continue;
    if (c < 'A' || c > 'Z' || !letters.insert(c).second) return std::nullopt;
  }
  return letters.empty() ? std::nullopt : Form(std::string(letters.begin(), letters.end()));
}

Form number(std::string_view answer) {
  if (const std::optional<int64_t> whole = read_grouped_integer(trimmed(answer)))
    return std::to_string(*whole);
  const std::optional<NumberAnswer> read = read_number_answer(answer);
  return read ? Form(text_of(read->value)) : std::nullopt;
}

Form number_or_unknown(std::string_view answer) {
  return in_capitals(trimmed(answer)) == "UNKNOWN" || trimmed(answer) == "未知" ? Form("UNKNOWN")
                                                                                : number(answer);
}

// Without [[ ]] and quotes, in capitals, with one blank where there are several.
Form cipher_text(std::string_view answer) {
  answer = trimmed(answer);
  if (answer.starts_with("[[") && answer.ends_with("]]") && answer.size() >= 4)
    answer = trimmed(answer.substr(2, answer.size() - 4));
  if (answer.size() >= 2 && (answer[0] == '"' || answer[0] == '\'') && answer.back() == answer[0])
    answer = trimmed(answer.substr(1, answer.size() - 2));
  std::string text;
  for (const char c : in_capitals(answer)) {
    if (c != ' ' || !text.ends_with(' ')) text += c;
  }
  return text.empty() ? std::nullopt : Form(text);
}

Form equation(std::string_view answer) {
  std::string text(answer);
  std::erase_if(text, [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; });
  const bool one =
      text.find('=') != std::string::npos && text.find_first_not_of("0123456789+-*/=") == std::string::npos;
  return one ? Form(text) : std::nullopt;
}

Form thing(std::string_view answer) {
  if (const auto known = english_word(answer)) return in_capitals(*known);
  std::string text = in_capitals(trimmed(answer));
  for (const std::string_view article : {"THE ", "AN ", "A "}) {
    if (text.starts_with(article)) return text.substr(article.size());
  }
  return text.empty() ? std::nullopt : Form(text);
}

Form set_of_things(std::string_view answer) {
  std::set<std::string> things;
  for (const std::string& word : words_between(answer, ',')) {
    const Form one = thing(word);
    if (!one) return std::nullopt;
    things.insert(*one);
  }
  return fmt::format("{}", fmt::join(things, ","));
}

Form yes_and_no(std::string_view answer) {
  answer = trimmed(answer);
  if (answer.size() > 4 && answer.starts_with("**") && answer.ends_with("**"))
    answer = answer.substr(2, answer.size() - 4);
  const auto items = listed(answer);
  if (!items) return std::nullopt;
  std::string text;
  for (const std::string& item : *items) {
    const bool yes = item == "YES" || item == "是";
    if (!yes && item != "NO" && item != "否") return std::nullopt;
    text += yes ? 'Y' : 'N';
  }
  return text;
}

Form step_or_no(std::string_view answer) {
  const std::string text = in_capitals(trimmed(answer));
  if (text == "NO" || text == "NULL" || text == "NONE") return "NO";
  const std::optional<int64_t> number = read_integer(text);
  return number ? Form(std::to_string(*number)) : std::nullopt;
}

Form colours(std::string_view answer) {
  const std::optional<NumberGrid> grid = answered_grid(answer);
  return grid ? Form(grid_payload(*grid)) : std::nullopt;
}

constexpr PublicAnswer kAll[] = {
    {"arc_agi", "train", "a grid of whole numbers", colours},
    {"boolean_expressions", "options", "letters of options, separated by commas", option_letters},
    {"buggy_tables", "rows", "a number", number},
    {"cipher", "steps", "a text, also between [[ and ]]", cipher_text},
    {"cryptarithm", "equation", "an equation of whole numbers", equation},
    {"object_counting", "statements", "a whole number", number},
    {"object_properties", "items", "a whole number, or unknown", number_or_unknown},
    {"operation", "expression", "a whole number, a fraction or a decimal number", number},
    {"space_reasoning", "walk", "the name of a thing", thing},
    {"space_reasoning_tree", "facts", "names of things, separated by commas", set_of_things},
    {"web_of_lies", "statements", "yes or no, separated by commas", yes_and_no},
    {"word_sorting", "words", "words, separated by commas", in_order},
    {"word_sorting_mistake", "thoughts", "the number of a thought, or No", step_or_no},
};

}  // namespace

const PublicAnswer* public_answer_of(std::string_view task) {
  const auto found = std::ranges::find(kAll, task, &PublicAnswer::task);
  return found == std::end(kAll) ? nullptr : &*found;
}

std::string read_public_answer(const PublicAnswer& of, const nlohmann::json& answer) {
  // Null is what some generators write where no step is wrong.
  const bool may_be = answer.is_string() || answer.is_number() || answer.is_array() ||
                      (answer.is_null() && of.form == step_or_no);
  std::string text = plain_characters(answer.is_string() ? answer.get<std::string>() : answer.dump());
  if (!may_be || !of.form(text))
    refuse_given(of.task, fmt::format("\"{}\" in \"metadata\", or \"answer\": {}", of.own_key, of.kind),
                 answer);
  return text;
}

Verdict verdict_by(const PublicAnswer& of, const std::string& right, std::string_view payload) {
  const Form answer = of.form(payload);
  if (!answer) return {VerdictCode::kUnreadable, fmt::format("not {}", of.kind)};
  if (answer == of.form(right)) return {};
  if (of.task == "operation") {  // either may be written with a point
    const std::optional<NumberAnswer> read = read_number_answer(payload), known = read_number_answer(right);
    if (read && known && (is_answer(*read, known->value) || is_answer(*known, read->value))) return {};
  }
  return {VerdictCode::kRuleBroken, "it is not the answer of the record"};
}

}  // namespace longhaul::puzzles
