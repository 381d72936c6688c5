#include "puzzles/boolean_expressions/boolean_expressions.h"

#include <algorithm>
#include <vector>

#include "puzzles/boolean_expressions/facts.h"
#include "puzzles/engine/answers/answer.h"
#include "puzzles/engine/answers/literal.h"
#include "puzzles/engine/answers/rational.h"
#include "puzzles/engine/given.h"

namespace longhaul::puzzles::boolean_expressions {
namespace {

constexpr size_t kMostOptions = 12, kLongestOption = 500;
constexpr int kTries = 400;  // of one option
constexpr int kDeepest = 16;
constexpr Knob kKnobs[] = {{"depth", 1, 7, 2, 6, "levels of operators above each other"},
                           {"options", 2, kMostOptions, 3, 8, "expressions"},
                           {"words_percent", 0, 100, 0, 60, "percent of comparisons that are told in words"}};

// ["and", tree, tree]: parts are moved into place, where a list of nlohmann would copy whole trees at every level. Written with braces, so that
// parts are drawn from left to right whatever the compiler.
struct Tree {
  nlohmann::json json = nlohmann::json::array();
  template <class... Parts>
  explicit Tree(Parts&&... parts) {
    json.get_ref<nlohmann::json::array_t&>().reserve(sizeof...(parts));
    (json.emplace_back(std::forward<Parts>(parts)), ...);
  }
};

nlohmann::json random_term(Draw& draw) {
  const auto number = [&] { return draw.between(-12, 12); };
  const auto small = [&] { return draw.between(-9, 9); };
  static constexpr const char* kSigns[] = {"+", "-", "*"};
  const auto sign = [&] { return kSigns[draw.below(3)]; };
  if (draw.chance(30)) {
    const int64_t below = draw.between(1, 9) * (draw.chance(50) ? 1 : -1);
    return Tree{"-", number(), Tree{"/", number(), below}.json}.json;
  }
  if (draw.chance(60)) return Tree{sign(), Tree{"*", number(), number()}.json, Tree{"*", small(), small()}.json}.json;
  return Tree{sign(), number(), number()}.json;
}

nlohmann::json random_leaf(const KnobValues& knobs, Draw& draw) {
  static constexpr const char* kRelations[] = {"<", "<=", ">", ">=", "==", "!="};
  const int64_t kind = draw.between(0, 9);
  if (kind < 4)
    return Tree{"compare", kRelations[draw.below(std::size(kRelations))], draw.chance(knobs["words_percent"]), random_term(draw),
                random_term(draw)}
        .json;
  if (kind >= 7) return draw.chance(50);
  // Half of the facts are true, whatever the number of values that their relation has.
  Fact fact{.relation = static_cast<int64_t>(draw.below(fact_counts().size()))};
  const auto count = static_cast<uint64_t>(fact_counts()[static_cast<size_t>(fact.relation)]);
  fact.subject = fact.value = static_cast<int64_t>(draw.below(count));
  if (draw.chance(50)) {
    while (is_true(fact)) fact.value = static_cast<int64_t>(draw.below(count));
  }
  return Tree{"fact", fact.relation, fact.subject, fact.value}.json;
}

nlohmann::json random_tree(int64_t depth, const KnobValues& knobs, Draw& draw) {
  if (depth <= 0 || (depth <= 2 && draw.chance(30))) return random_leaf(knobs, draw);
  const int64_t kind = draw.between(0, 99);
  if (kind < 35) {
    const int64_t times = draw.between(1, 3);
    return Tree{"not", times, random_tree(depth - 1, knobs, draw)}.json;
  }
  nlohmann::json tree = Tree{kind < 70 ? "and" : "or"}.json;
  tree.push_back(random_tree(depth - 1, knobs, draw));
  tree.push_back(random_tree(depth - 1, knobs, draw));
  if (depth > 2 && draw.chance(40)) tree.push_back(random_tree(depth - 2, knobs, draw));
  return tree;
}

std::optional<nlohmann::json> random_option(bool wanted, const KnobValues& knobs, Draw& draw) {
  for (int tries = 0; tries < kTries; ++tries) {
    nlohmann::json tree = random_tree(knobs["depth"], knobs, draw);
    if (value_of(tree) == wanted && expression_of(tree, Language::kEnglish).size() <= kLongestOption) return tree;
  }
  return std::nullopt;
}

[[noreturn]] void refuse_tree() {
  refuse_given(kTask.key, "\"options\": trees of not, and, or, compare, fact, true, false, with terms of + - * / that have a value");
}

Rational term_value(const nlohmann::json& term, int depth) {
  if (term.is_number_integer()) return {integer_of(term, -1000, 1000, "a number of a term", kTask.key), 1};
  if (depth > kDeepest || !term.is_array() || term.size() != 3 || !term[0].is_string()) refuse_tree();
  const Rational a = term_value(term[1], depth + 1), b = term_value(term[2], depth + 1);
  const std::string& sign = term[0].get_ref<const std::string&>();
  const std::optional<Rational> value = sign == "+"   ? added(a, b)
                                        : sign == "-" ? subtracted(a, b)
                                        : sign == "*" ? multiplied(a, b)
                                        : sign == "/" ? divided(a, b)
                                                      : std::nullopt;
  if (!value) refuse_tree();
  return *value;
}

bool compared(const nlohmann::json& tree) {
  if (tree.size() != 5 || !tree[1].is_string() || !tree[2].is_boolean()) refuse_tree();
  const auto order = term_value(tree[3], 0) <=> term_value(tree[4], 0);
  const std::string& relation = tree[1].get_ref<const std::string&>();
  if (relation == "<") return order < 0;
  if (relation == "<=") return order <= 0;
  if (relation == ">") return order > 0;
  if (relation == ">=") return order >= 0;
  if (relation == "==") return order == 0;
  if (relation == "!=") return order != 0;
  refuse_tree();
}

Fact read_fact(const nlohmann::json& tree) {
  if (tree.size() != 4) refuse_tree();
  Fact fact;
  fact.relation = integer_of(tree[1], 0, static_cast<int64_t>(fact_counts().size()) - 1, "the relation of a fact", kTask.key);
  const int64_t most = fact_counts()[static_cast<size_t>(fact.relation)] - 1;
  fact.subject = integer_of(tree[2], 0, most, "the subject of a fact", kTask.key);
  fact.value = integer_of(tree[3], 0, most, "the value of a fact", kTask.key);
  return fact;
}

bool tree_value(const nlohmann::json& tree, int depth) {
  if (tree.is_boolean()) return tree.get<bool>();
  if (depth > kDeepest || !tree.is_array() || tree.size() < 3 || !tree[0].is_string()) refuse_tree();
  const std::string& kind = tree[0].get_ref<const std::string&>();
  if (kind == "compare") return compared(tree);
  if (kind == "fact") return is_true(read_fact(tree));
  if (kind == "not" && tree.size() == 3)
    return tree_value(tree[2], depth + 1) != (integer_of(tree[1], 1, 9, "how often not stands", kTask.key) % 2 == 1);
  if (kind != "and" && kind != "or") refuse_tree();
  bool value = kind == "and";
  for (size_t i = 1; i < tree.size(); ++i) {
    const bool part = tree_value(tree[i], depth + 1);  // each is read, so that each is checked
    value = kind == "and" ? value && part : value || part;
  }
  return value;
}

// The letters of the options that are true, in alphabetical order.
std::string true_letters(const nlohmann::json& given) {
  std::string letters;
  const nlohmann::json& options = list_of(member_of(given, "options", kTask.key), 1, kMostOptions, "\"options\"", kTask.key);
  for (size_t i = 0; i < options.size(); ++i) {
    if (value_of(options[i])) letters += static_cast<char>('A' + static_cast<char>(i));
  }
  return letters;
}

std::optional<Puzzle> generate(const KnobValues& knobs, Draw& draw) {
  std::vector<bool> wanted;
  for (int64_t i = 0; i < knobs["options"]; ++i) wanted.push_back(draw.chance(50));
  if (std::ranges::find(wanted, true) == wanted.end()) wanted[draw.below(wanted.size())] = true;
  nlohmann::json options = nlohmann::json::array();
  std::string solution;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const std::optional<nlohmann::json> option = random_option(wanted[i], knobs, draw);
    if (!option) return std::nullopt;
    options.push_back(*option);
    if (wanted[i]) solution += fmt::format("{}{}", solution.empty() ? "" : ",", static_cast<char>('A' + static_cast<char>(i)));
  }
  return Puzzle{.given = {{"options", std::move(options)}}, .solution = std::move(solution)};
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
  if (letters != wanted) return {VerdictCode::kRuleBroken, fmt::format("{} are not exactly the true ones", letters)};
  return {};
}

std::string canonical(const nlohmann::json& given) {
  std::vector<std::string> options;
  for (const nlohmann::json& option : given.at("options")) options.push_back(option.dump());
  std::ranges::sort(options);  // which of them is A makes no other puzzle
  return fmt::format("{}", fmt::join(options, "\n"));
}

}  // namespace

bool value_of(const nlohmann::json& tree) { return tree_value(tree, 0); }

const TaskEntry kTask = {.key = "boolean_expressions",
                         .title = "Find the true boolean expressions",
                         .uniqueness = Uniqueness::kComputed,
                         .knobs = kKnobs,
                         .generate = generate,
                         .prompt = prompt,
                         .verify = verify,
                         .count_solutions = nullptr,
                         .canonical = canonical};

}  // namespace longhaul::puzzles::boolean_expressions
