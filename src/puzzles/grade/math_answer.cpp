#include "puzzles/grade/math_answer.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <regex>
#include <utility>
#include <vector>

#include "base/text/text.h"
#include "puzzles/engine/answers/answer.h"
#include "puzzles/grade/math_expression.h"

namespace longhaul::puzzles {
namespace {

constexpr size_t kLongestMath = 2000;
constexpr int kDeepestMath = 8;
constexpr std::string_view kRowEnd = "\x1e";  // stands for \\, whose halves would be read as commands

struct MathValue {
  enum class Kind { kText, kNumber, kSet /* in any order */, kTuple };
  Kind kind = Kind::kText;
  std::string text;  // of kText; of kTuple its brackets
  ExactNumber number;
  std::vector<MathValue> items;
};

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// A command whose name does not go on: \left of "\left(", not of "\leftarrow".
void replace_command(std::string& text, const std::string& name, std::string_view to) {
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at)) {
    const size_t end = at + name.size();
    if (end < text.size() && std::isalpha(static_cast<unsigned char>(text[end])) != 0) {
      at = end;
      continue;
    }
    text.replace(at, name.size(), to);
    at += to.size();
  }
}

// The place behind the bracket that closes the one at `open`; npos: none does.
size_t behind_partner(std::string_view text, size_t open) {
  int64_t depth = 0;
  for (size_t i = open; i < text.size(); ++i) {
    depth += text[i] == '(' || text[i] == '[' || text[i] == '{'   ? 1
             : text[i] == ')' || text[i] == ']' || text[i] == '}' ? -1
                                                                  : 0;
    if (depth == 0) return i + 1;
  }
  return std::string_view::npos;
}

// \text{…} and its like: alone they are the answer; "and" and "or" separate; else they are units, which go
// with their exponent.
void open_texts(std::string& text) {
  for (const std::string name :
       {"\\text", "\\textbf", "\\textit", "\\mbox", "\\mathrm", "\\mathbf", "\\operatorname"}) {
    for (size_t at = text.find(name + "{"); at != std::string::npos; at = text.find(name + "{")) {
      const size_t open = at + name.size(), end = behind_partner(text, open);
      if (end == std::string::npos) return;
      const std::string inner(trimmed(std::string_view(text).substr(open + 1, end - open - 2)));
      const bool alone = trimmed(std::string_view(text).substr(0, at)).empty() &&
                         trimmed(std::string_view(text).substr(end)).empty();
      size_t after = end;
      if (!alone && after < text.size() && text[after] == '^') {
        ++after;
        after = after < text.size() && text[after] == '{' ? behind_partner(text, after) : after + 1;
        after = std::min(after, text.size());
      }
      text.replace(at, after - at,
                   alone                             ? inner
                   : inner == "and" || inner == "or" ? ","
                   : inner.size() == 1               ? inner
                                                     : " ");
    }
  }
}

std::string plain_math(std::string_view answer) {
  std::string text = plain_characters(trimmed(answer));
  constexpr std::pair<const char*, const char*> kWords[] = {
      {"{,}", ""},  {"\\!", ""},    {"\\,", " "},      {"\\;", " "},      {"\\:", " "},
      {"\\ ", " "}, {"~", " "},     {"\\%", ""},       {"%", ""},         {"\\$", ""},
      {"$", ""},    {"\\(", ""},    {"\\)", ""},       {"^{\\circ}", ""}, {"^\\circ", ""},
      {"°", ""},    {"π", "\\pi "}, {"√", "\\sqrt "},  {"−", "-"},        {"×", "*"},
      {"÷", "/"},   {"·", "*"},     {"∞", "\\infty "}, {"∪", "\\cup "},   {"±", "\\pm "}};
  replace_all(text, "\\\\", kRowEnd);
  static const std::regex kThinThousands(R"((\d)\\,(?=\d{3}))");
  text = std::regex_replace(text, kThinThousands, "$1");
  for (const auto& [from, to] : kWords) replace_all(text, from, to);
  for (const char* name : {"\\left", "\\right", "\\big", "\\Big", "\\displaystyle"})
    replace_command(text, name, "");
  replace_command(text, "\\dfrac", "\\frac");
  replace_command(text, "\\tfrac", "\\frac");
  replace_command(text, "\\cdot", "*");
  replace_command(text, "\\times", "*");
  replace_command(text, "\\div", "/");
  open_texts(text);
  text = trimmed(text);
  while (text.ends_with('.')) text.pop_back();
  // "x = 5", "x \in [0, 1]", "f(x) = …": what stands behind, where one name stands in front.
  static const std::regex kNamed(
      R"(^\s*[a-zA-Z](_?\{?\w\}?)?(\([a-z]\))?\s*(=|\\in(?![a-zA-Z]))\s*([^=]+)$)");
  if (std::smatch match; std::regex_match(text, match, kNamed)) text = match[4];
  return std::string(trimmed(text));
}

std::vector<std::string> split_outside(const std::string& text, std::string_view separator) {
  std::vector<std::string> parts(1);
  int64_t depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    depth += text[i] == '(' || text[i] == '[' || text[i] == '{'   ? 1
             : text[i] == ')' || text[i] == ']' || text[i] == '}' ? -1
                                                                  : 0;
    if (depth == 0 && std::string_view(text).substr(i).starts_with(separator)) {
      parts.emplace_back();
      i += separator.size() - 1;
    } else {
      parts.back() += text[i];
    }
  }
  return parts;
}

// Without blanks, in small letters.
std::string letters_of(std::string_view text) {
  std::string letters;
  for (const char c : text) {
    if (std::isspace(static_cast<unsigned char>(c)) == 0)
      letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return letters;
}

MathValue value_of(std::string text, int depth);

MathValue collected(MathValue::Kind kind, const std::string& brackets, const std::vector<std::string>& parts,
                    int depth) {
  MathValue value{.kind = kind, .text = brackets};
  for (const std::string& part : parts) value.items.push_back(value_of(part, depth + 1));
  return value;
}

std::optional<MathValue> matrix_of(const std::string& text, int depth) {
  static const std::regex kMatrix(R"(^\\begin\{[pbv]?matrix\}([^]*)\\end\{[pbv]?matrix\}$)");
  std::smatch match;
  if (!std::regex_match(text, match, kMatrix)) return std::nullopt;
  MathValue value{.kind = MathValue::Kind::kTuple, .text = "matrix"};
  for (const std::string& row : split_outside(match[1], kRowEnd)) {
    if (!trimmed(row).empty())
      value.items.push_back(collected(MathValue::Kind::kTuple, "row", split_outside(row, "&"), depth));
  }
  return value;
}

MathValue value_of(std::string text, int depth) {
  text = trimmed(text);
  const MathValue as_text{.text = letters_of(text)};
  if (text.empty() || depth > kDeepestMath) return as_text;
  if (auto matrix = matrix_of(text, depth)) return *matrix;
  if (const auto parts = split_outside(text, "\\cup"); parts.size() > 1)
    return collected(MathValue::Kind::kSet, "", parts, depth);
  if (const auto parts = split_outside(text, ","); parts.size() > 1)
    return collected(MathValue::Kind::kSet, "", parts, depth);
  if (const size_t sign = text.find("\\pm"); sign != std::string::npos) {
    const std::string before = text.substr(0, sign), after = text.substr(sign + 3);
    return collected(MathValue::Kind::kSet, "", {before + "+" + after, before + "-" + after}, depth);
  }
  if (text.starts_with("\\{") && text.ends_with("\\}"))
    return collected(MathValue::Kind::kSet, "", split_outside(text.substr(2, text.size() - 4), ","), depth);
  const bool enclosed = (text.front() == '(' || text.front() == '[' || text.front() == '{') &&
                        behind_partner(text, 0) == text.size();
  if (enclosed) {
    const std::string brackets = {text.front(), text.back()};
    const auto parts = split_outside(text.substr(1, text.size() - 2), ",");
    if (brackets == "{}" && parts.size() > 1) return collected(MathValue::Kind::kSet, "", parts, depth);
    if (parts.size() > 1) return collected(MathValue::Kind::kTuple, brackets, parts, depth);
  }
  if (const auto number = read_expression(text)) return {.kind = MathValue::Kind::kNumber, .number = *number};
  return as_text;
}

bool equal_values(const MathValue& a, const MathValue& b) {
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case MathValue::Kind::kText:
      return !a.text.empty() && a.text == b.text;
    case MathValue::Kind::kNumber:
      return a.number == b.number;
    case MathValue::Kind::kTuple:
      return a.text == b.text && std::ranges::equal(a.items, b.items, equal_values);
    case MathValue::Kind::kSet:
      break;
  }
  std::vector<bool> used(b.items.size());
  for (const MathValue& item : a.items) {
    size_t at = 0;
    while (at < b.items.size() && (used[at] || !equal_values(item, b.items[at]))) ++at;
    if (at == b.items.size()) return false;
    used[at] = true;
  }
  return a.items.size() == b.items.size();
}

// "12 square units^2" → "12"; none: no words of letters stand behind a number.
std::optional<std::string> without_unit(const std::string& text) {
  const auto is_letter_at = [&](size_t i) { return std::isalpha(static_cast<unsigned char>(text[i])) != 0; };
  size_t end = text.size();
  if (const size_t caret = text.rfind('^'); caret != std::string::npos && text.size() - caret <= 4)
    end = caret;
  size_t begin = end;
  while (true) {
    size_t stop = begin, first = 0;
    while (stop > 0 && (text[stop - 1] == ' ' || text[stop - 1] == '.')) --stop;
    for (first = stop; first > 0 && is_letter_at(first - 1);) --first;
    const std::string_view word = std::string_view(text).substr(first, stop - first);
    if (word.size() < 2 || word == "pi" || word == "sqrt") break;
    begin = first;
  }
  if (begin == end || begin == 0 || text[begin - 1] != ' ') return std::nullopt;
  std::string bare(trimmed(std::string_view(text).substr(0, begin)));
  if (bare.empty() || std::string_view("0123456789)}").find(bare.back()) == std::string_view::npos)
    return std::nullopt;
  return bare;
}

// What an answer may mean: as it stands, with commas between thousands, without the words of a unit behind a
// number.
std::vector<MathValue> readings_of(std::string_view answer) {
  const std::string text = plain_math(answer);
  std::vector<std::string> texts = {text};
  static const std::regex kThousands(R"(^(-?)(\d{1,3}(?:,\d{3})+)((?:\.\d+)?)(\D*)$)");
  std::smatch match;
  if (std::regex_match(text, match, kThousands)) {
    std::string digits = match[2];
    std::erase(digits, ',');
    texts.push_back(std::string(match[1]) + digits + std::string(match[3]) + std::string(match[4]));
  }
  for (size_t i = 0, count = texts.size(); i < count; ++i) {
    if (auto bare = without_unit(texts[i])) texts.push_back(std::move(*bare));
  }
  std::vector<MathValue> readings;
  for (const std::string& each : texts) readings.push_back(value_of(each, 0));
  return readings;
}

}  // namespace

bool same_math_answer(std::string_view a, std::string_view b) {
  if (a.size() > kLongestMath || b.size() > kLongestMath) return false;
  const std::string text = letters_of(plain_math(a));
  if (!text.empty() && text == letters_of(plain_math(b))) return true;
  const std::vector<MathValue> of_a = readings_of(a), of_b = readings_of(b);
  return std::ranges::any_of(of_a, [&](const MathValue& one) {
    return std::ranges::any_of(of_b, [&](const MathValue& other) { return equal_values(one, other); });
  });
}

}  // namespace longhaul::puzzles
