#include "puzzles/operation/operation.h"

#include <algorithm>
#include <array>

#include "base/text/text.h"
#include "puzzles/engine/answers/answer.h"
#include "puzzles/engine/answers/literal.h"
#include "puzzles/engine/answers/number_answer.h"
#include "puzzles/engine/given.h"

namespace longhaul::puzzles::operation {
namespace {

constexpr int64_t kLargestValue = 100'000, kLargestBelow = 1000;
constexpr int kTries = 30;  // expressions for the symbols of one attempt
constexpr Knob kKnobs[] = {
    {"symbols", 1, 4, 1, 4, "new symbols"},
    {"terms", 2, 6, 3, 5, "terms of a formula at most"},
    {"condition_percent", 0, 100, 50, 100, "percent of the symbols that have a condition and two formulas"},
    {"operators", 0, 8, 1, 4, "operators of the expression beside the symbols, at most"}};
constexpr std::array<std::string_view, 8> kSymbols = {"△", "⊕", "⊗", "◇", "◎", "▽", "⊙", "☆"};

// + 30 %, - 30 %, * 25 %, / 10 %, ** 5 %; or a symbol that is defined already.
std::string drawn_operator(const std::vector<Symbol>& symbols, Draw& draw, int64_t symbol_percent) {
  if (!symbols.empty() && draw.chance(symbol_percent)) return symbols[draw.below(symbols.size())].text;
  const auto percent = draw.below(100);
  return percent < 30 ? "+" : percent < 60 ? "-" : percent < 85 ? "*" : percent < 95 ? "/" : "**";
}

std::string drawn_formula(int64_t most_terms, const std::vector<Symbol>& symbols, Draw& draw) {
  const int64_t count = draw.between(2, most_terms);
  std::vector<std::string> terms;
  for (int64_t i = 0; i < count; ++i) {
    const auto kind = draw.below(3);
    terms.push_back(kind == 0 ? "x" : kind == 1 ? "y" : std::to_string(draw.between(1, 5)));
  }
  const bool bracket = count > 2 && draw.chance(30), absolute = draw.chance(40);
  const size_t first = draw.below(static_cast<uint64_t>(count - 1));
  std::string text;
  bool symbol = false;
  for (size_t i = 0; i < terms.size(); ++i) {
    if (i > 0) {
      const std::string sign = drawn_operator(symbol ? std::vector<Symbol>() : symbols, draw, 20);
      symbol = symbol || static_cast<unsigned char>(sign[0]) >= 0x80;
      // The exponent of a power is a small number.
      if (sign == "**") terms[i] = std::to_string(draw.between(2, 3));
      text += " " + sign + " ";
    }
    if (bracket && i == first) text += absolute ? "|" : "(";
    text += terms[i];
    if (bracket && i == first + 1) text += absolute ? "|" : ")";
  }
  return text;
}

bool depends_on_both(const std::string& formula) {
  return formula.find('x') != std::string::npos && formula.find('y') != std::string::npos;
}

std::vector<Symbol> drawn_symbols(const KnobValues& knobs, Draw& draw) {
  std::array<std::string_view, kSymbols.size()> texts = kSymbols;
  draw.shuffle(texts);
  std::vector<Symbol> symbols;
  const auto formula = [&] {
    std::string text = drawn_formula(knobs["terms"], symbols, draw);
    while (!depends_on_both(text)) text = drawn_formula(knobs["terms"], symbols, draw);
    return text;
  };
  for (int64_t i = 0; i < knobs["symbols"]; ++i) {
    Symbol symbol{.text = std::string(texts[static_cast<size_t>(i)]),
                  .formula = formula(),
                  .precedence = draw.between(1, 5)};
    if (draw.chance(knobs["condition_percent"])) {
      symbol.condition = &conditions()[draw.below(conditions().size())];
      symbol.otherwise = formula();
      while (symbol.otherwise == symbol.formula) symbol.otherwise = formula();
    }
    symbols.push_back(std::move(symbol));
  }
  return symbols;
}

std::string drawn_expression(const std::vector<Symbol>& symbols, int64_t most_more, Draw& draw) {
  std::vector<std::string> signs;
  for (const Symbol& symbol : symbols) signs.push_back(symbol.text);
  const int64_t more = most_more == 0 ? 0 : draw.between(1, most_more);
  for (int64_t i = 0; i < more; ++i) {
    const auto kind = draw.below(10);
    signs.push_back(kind < 5   ? std::string(1, "+-*/%"[kind])
                    : kind < 7 ? std::string(1, "+-"[kind - 5])
                               : symbols[draw.below(symbols.size())].text);
  }
  draw.shuffle(signs);
  const bool bracket = signs.size() > 1 && draw.chance(40);
  const size_t first = draw.below(signs.size());
  std::string text;
  for (size_t i = 0; i <= signs.size(); ++i) {
    if (i > 0) text += " " + signs[i - 1] + " ";
    text += fmt::format("{}{}{}", bracket && i == first ? "(" : "", draw.between(1, 10),
                        bracket && i == first + 1 ? ")" : "");
  }
  return text;
}

nlohmann::json given_of(const Task& task) {
  nlohmann::json symbols = nlohmann::json::array();
  for (const Symbol& symbol : task.symbols) {
    nlohmann::json one = {
        {"symbol", symbol.text}, {"precedence", symbol.precedence}, {"formula", symbol.formula}};
    if (symbol.condition != nullptr) {
      one["condition"] = symbol.condition->name;
      one["otherwise"] = symbol.otherwise;
    }
    symbols.push_back(std::move(one));
  }
  return {{"symbols", symbols}, {"expression", task.expression}};
}

std::optional<Puzzle> generate(const KnobValues& knobs, Draw& draw) {
  Task task{.symbols = drawn_symbols(knobs, draw)};
  for (int attempt = 0; attempt < kTries; ++attempt) {
    task.expression = drawn_expression(task.symbols, knobs["operators"], draw);
    const std::optional<Rational> value = value_of_task(task);
    if (!value || value->below > kLargestBelow || *value >= Rational{kLargestValue, 1} ||
        *value <= Rational{-kLargestValue, 1})
      continue;
    return Puzzle{.given = given_of(task), .solution = text_of(*value)};
  }
  return std::nullopt;
}

Verdict verify(const nlohmann::json& given, std::string_view payload) {
  const std::optional<Rational> value = value_of_task(read_given(given));
  if (!value) refuse_given(kTask.key, "an expression that has a value", given);
  const std::optional<NumberAnswer> answer = read_number_answer(payload);
  if (!answer) return {VerdictCode::kUnreadable, "no whole number, fraction or decimal number"};
  if (!is_answer(*answer, *value)) return {VerdictCode::kRuleBroken, "it is not the value of the expression"};
  return {};
}

// The symbols are renamed in the order in which they are defined.
std::string canonical(const nlohmann::json& given) {
  const Task task = read_given(given);
  std::string text = given_of(task).dump();
  for (size_t i = 0; i < task.symbols.size(); ++i) {
    const std::string name = fmt::format("#{}", i);
    for (size_t at = text.find(task.symbols[i].text); at != std::string::npos;
         at = text.find(task.symbols[i].text, at + name.size()))
      text.replace(at, task.symbols[i].text.size(), name);
  }
  return text;
}

}  // namespace

const TaskEntry kTask = {.key = "operation",
                         .title = "Compute with new operators",
                         .version = 2,
                         .uniqueness = Uniqueness::kComputed,
                         .knobs = kKnobs,
                         .generate = generate,
                         .prompt = prompt,
                         .verify = verify,
                         .count_solutions = nullptr,
                         .canonical = canonical};

}  // namespace longhaul::puzzles::operation
