#include "puzzles/boolean_expressions/boolean_expressions.h"

#include <algorithm>
#include <vector>

#include "puzzles/boolean_expressions/tree.h"
#include "puzzles/engine/answers/answer.h"
#include "puzzles/engine/answers/literal.h"
#include "puzzles/engine/given.h"

namespace longhaul::puzzles::boolean_expressions {
namespace {

using Kind = Node::Kind;
constexpr size_t kMostOptions = 12, kLongestOption = 500;
constexpr int kTries = 400;  // of one option
constexpr Knob kKnobs[] = {{"depth", 1, 7, 2, 6, "levels of operators above each other"},
                           {"options", 2, kMostOptions, 3, 8, "expressions"},
                           {"words_percent", 0, 100, 0, 60, "percent of comparisons that are told in words"}};

int32_t add_number(Tree& tree, int64_t number) { return tree.add({.kind = Kind::kNumber, .number = number}); }
int32_t add_arithmetic(Tree& tree, char sign, int32_t a, int32_t b) {
  return tree.add({.kind = Kind::kArithmetic, .sign = sign, .parts = 2, .part = {a, b}});
}

// Parts are drawn from left to right, each with a call of its own, whatever the compiler.
int32_t add_term(Tree& tree, Draw& draw) {
  const auto number = [&] { return add_number(tree, draw.between(-12, 12)); };
  const auto small = [&] { return add_number(tree, draw.between(-9, 9)); };
  const auto sign = [&] { return "+-*"[draw.below(3)]; };
  if (draw.chance(30)) {
    const int64_t size = draw.between(1, 9), below = draw.chance(50) ? size : -size;
    const int32_t a = number(), b = number();
    return add_arithmetic(tree, '-', a, add_arithmetic(tree, '/', b, add_number(tree, below)));
  }
  if (draw.chance(60)) {
    const char between = sign();
    const int32_t a = number(), b = number(), left = add_arithmetic(tree, '*', a, b);
    const int32_t c = small(), d = small();
    return add_arithmetic(tree, between, left, add_arithmetic(tree, '*', c, d));
  }
  const char between = sign();
  const int32_t a = number(), b = number();
  return add_arithmetic(tree, between, a, b);
}

int32_t add_leaf(Tree& tree, int64_t words_percent, Draw& draw) {
  const int64_t kind = draw.between(0, 9);
  if (kind < 4) {
    Node node{.kind = Kind::kCompare, .parts = 2};
    node.number = static_cast<int64_t>(draw.below(kComparisons.size()));
    node.in_words = draw.chance(words_percent);
    node.part[0] = add_term(tree, draw);
    node.part[1] = add_term(tree, draw);
    return tree.add(node);
  }
  if (kind >= 7) return tree.add({.number = draw.chance(50) ? 1 : 0});
  // Half of the facts are true, whatever the number of values that their relation has.
  Fact fact{.relation = static_cast<int64_t>(draw.below(fact_counts().size()))};
  const auto count = static_cast<uint64_t>(fact_counts()[static_cast<size_t>(fact.relation)]);
  fact.subject = fact.value = static_cast<int64_t>(draw.below(count));
  if (draw.chance(50)) {
    while (is_true(fact)) fact.value = static_cast<int64_t>(draw.below(count));
  }
  return tree.add({.kind = Kind::kFact, .fact = fact});
}

int32_t add_tree(Tree& tree, int64_t depth, int64_t words_percent, Draw& draw) {
  if (depth <= 0 || (depth <= 2 && draw.chance(30))) return add_leaf(tree, words_percent, draw);
  const int64_t kind = draw.between(0, 99);
  Node node{.kind = kind < 35 ? Kind::kNot : kind < 70 ? Kind::kAnd : Kind::kOr};
  const auto add_part = [&](int64_t part_depth) {
    node.part[node.parts++] = add_tree(tree, part_depth, words_percent, draw);
  };
  if (kind < 35) {
    node.number = draw.between(1, 3);
    add_part(depth - 1);
    return tree.add(node);
  }
  add_part(depth - 1);
  add_part(depth - 1);
  if (depth > 2 && draw.chance(40)) add_part(depth - 2);
  return tree.add(node);
}

std::optional<std::string> random_option(bool wanted, int64_t depth, int64_t words_percent, Draw& draw) {
  Tree tree;
  for (int tries = 0; tries < kTries; ++tries) {
    tree.clear();
    add_tree(tree, depth, words_percent, draw);
    if (value_of(tree) == wanted && text_of(tree, Language::kEnglish).size() <= kLongestOption)
      return json_text_of(tree);
  }
  return std::nullopt;
}

// The letters of the options that are true, in alphabetical order.
std::string true_letters(const nlohmann::json& given) {
  std::string letters;
  const nlohmann::json& options =
      list_of(member_of(given, "options", kTask.key), 1, kMostOptions, "\"options\"", kTask.key);
  for (size_t i = 0; i < options.size(); ++i) {
    if (value_of(options[i])) letters += static_cast<char>('A' + static_cast<char>(i));
  }
  return letters;
}

std::optional<Puzzle> generate(const KnobValues& knobs, Draw& draw) {
  std::vector<bool> wanted;
  for (int64_t i = 0; i < knobs["options"]; ++i) wanted.push_back(draw.chance(50));
  if (std::ranges::find(wanted, true) == wanted.end()) wanted[draw.below(wanted.size())] = true;
  nlohmann::json::array_t options;
  const int64_t depth = knobs["depth"], words_percent = knobs["words_percent"];
  std::string solution;
  for (size_t i = 0; i < wanted.size(); ++i) {
    std::optional<std::string> option = random_option(wanted[i], depth, words_percent, draw);
    if (!option) return std::nullopt;
    options.emplace_back(std::move(*option));
    if (wanted[i]) (solution += solution.empty() ? "" : ",") += static_cast<char>('A' + static_cast<char>(i));
  }
  Puzzle puzzle{.given = nlohmann::json::object(), .solution = std::move(solution)};
  puzzle.given["options"] = std::move(options);
  return puzzle;
}

Verdict verify(const nlohmann::json& given, std::string_view payload) {
  const std::string wanted = true_letters(given);
  const size_t count = given["options"].size();
  std::string letters;
  for (std::string& word : words_between(payload, ',')) {
    for (const std::string& letter : words_between(word, ' ')) {
      if (letter.empty() && letter.size() != word.size()) continue;  // one of several blanks
      const size_t place = letter.size() == 1 ? static_cast<size_t>((letter[0] | 0x20) - 'a') : kMostOptions;
      if (place >= count) return {VerdictCode::kUnreadable, "not letters of options, separated by commas"};
      letters += static_cast<char>('A' + static_cast<char>(place));
    }
  }
  std::ranges::sort(letters);
  letters.erase(std::unique(letters.begin(), letters.end()), letters.end());
  if (letters != wanted)
    return {VerdictCode::kRuleBroken, fmt::format("{} are not exactly the true ones", letters)};
  return {};
}

std::string canonical(const nlohmann::json& given) {
  std::vector<std::string> options;
  for (const nlohmann::json& option : member_of(given, "options", kTask.key))
    options.push_back(option.is_string() ? option.get<std::string>() : option.dump());
  std::ranges::sort(options);  // which of them is A makes no other puzzle
  return fmt::format("{}", fmt::join(options, "\n"));
}

}  // namespace

bool value_of(const nlohmann::json& tree) { return value_of(read_tree(tree)); }

std::string expression_of(const nlohmann::json& tree, Language language) {
  return text_of(read_tree(tree), language);
}

const TaskEntry kTask = {.key = "boolean_expressions",
                         .title = "Find the true boolean expressions",
                         .version = 2,
                         .uniqueness = Uniqueness::kComputed,
                         .knobs = kKnobs,
                         .generate = generate,
                         .prompt = prompt,
                         .verify = verify,
                         .count_solutions = nullptr,
                         .canonical = canonical};

}  // namespace longhaul::puzzles::boolean_expressions
