#include "puzzles/boolean_expressions/tree.h"

#include <algorithm>

#include "base/error.h"
#include "puzzles/boolean_expressions/boolean_expressions.h"
#include "puzzles/engine/answers/rational.h"
#include "puzzles/engine/given.h"

namespace longhaul::puzzles::boolean_expressions {
namespace {

using Kind = Node::Kind;
constexpr int kDeepest = 16;
constexpr size_t kMostParts = 3;

struct RelationText {
  std::string_view english, chinese;
};
constexpr std::array<RelationText, 6> kRelationTexts = {{{"is less than", "小于"},
                                                         {"is at most", "不大于"},
                                                         {"is greater than", "大于"},
                                                         {"is at least", "不小于"},
                                                         {"equals", "等于"},
                                                         {"is different from", "不等于"}}};

[[noreturn]] void refuse_tree(const nlohmann::json& found) {
  refuse_given(kTask.key,
               "\"options\": trees of not, and, or, compare, fact, true, false, with terms of + - * / that "
               "have a value",
               found);
}

std::optional<Rational> value_of_term(const Tree& tree, int32_t place) {
  const Node& node = tree.nodes()[static_cast<size_t>(place)];
  if (node.kind == Kind::kNumber) return Rational{node.number, 1};
  const std::optional<Rational> a = value_of_term(tree, node.part[0]), b = value_of_term(tree, node.part[1]);
  if (!a || !b) return std::nullopt;
  switch (node.sign) {
    case '+':
      return added(*a, *b);
    case '-':
      return subtracted(*a, *b);
    case '*':
      return multiplied(*a, *b);
    default:
      return divided(*a, *b);
  }
}

bool compared(const Tree& tree, const Node& node) {
  const std::optional<Rational> a = value_of_term(tree, node.part[0]), b = value_of_term(tree, node.part[1]);
  LONGHAUL_ASSERT(a && b, "a term without a value");
  const auto order = *a <=> *b;
  const std::array<bool, 6> holds = {order<0, order <= 0, order> 0, order >= 0, order == 0, order != 0};
  return holds[static_cast<size_t>(node.number)];
}

bool value_at(const Tree& tree, int32_t place) {
  const Node& node = tree.nodes()[static_cast<size_t>(place)];
  const auto holds = [&](int32_t part) { return value_at(tree, part); };
  const auto parts = std::span(node.part).first(node.parts);
  switch (node.kind) {
    case Kind::kFact:
      return is_true(node.fact);
    case Kind::kCompare:
      return compared(tree, node);
    case Kind::kNot:
      return holds(parts[0]) != (node.number % 2 == 1);
    case Kind::kAnd:
      return std::ranges::all_of(parts, holds);
    case Kind::kOr:
      return std::ranges::any_of(parts, holds);
    default:
      return node.number != 0;
  }
}

void write_term(const Tree& tree, int32_t place, std::string& text) {
  const Node& node = tree.nodes()[static_cast<size_t>(place)];
  if (node.kind == Kind::kNumber) {
    if (node.number < 0) text += '(';
    text += std::to_string(node.number);
    if (node.number < 0) text += ')';
    return;
  }
  if (node.sign == '/') text += '(';
  write_term(tree, node.part[0], text);
  ((text += ' ') += node.sign) += ' ';
  write_term(tree, node.part[1], text);
  if (node.sign == '/') text += ')';
}

void write_compare(const Tree& tree, const Node& node, Language language, std::string& text) {
  const auto relation = static_cast<size_t>(node.number);
  const RelationText& words = kRelationTexts[relation];
  text += '(';
  write_term(tree, node.part[0], text);
  text += ") ";
  text += !node.in_words                   ? kComparisons[relation]
          : language == Language::kChinese ? words.chinese
                                           : words.english;
  text += " (";
  write_term(tree, node.part[1], text);
  text += ')';
}

void write_at(const Tree& tree, int32_t place, Language language, std::string& text) {
  const Node& node = tree.nodes()[static_cast<size_t>(place)];
  if (node.kind == Kind::kConstant) {
    text += node.number != 0 ? "True" : "False";
  } else if (node.kind == Kind::kFact) {
    text += sentence_of(node.fact, language);
  } else if (node.kind == Kind::kCompare) {
    write_compare(tree, node, language, text);
  } else {
    for (int64_t i = 0; node.kind == Kind::kNot && i < node.number; ++i) text += "not ";
    for (size_t i = 0; i < node.parts; ++i) {
      text += i == 0 ? "(" : node.kind == Kind::kAnd ? " and (" : " or (";
      write_at(tree, node.part[i], language, text);
      text += ')';
    }
  }
}

nlohmann::json json_at(const Tree& tree, int32_t place) {
  const Node& node = tree.nodes()[static_cast<size_t>(place)];
  if (node.kind == Kind::kConstant) return node.number != 0;
  if (node.kind == Kind::kNumber) return node.number;
  nlohmann::json json = nlohmann::json::array();
  auto& list = json.get_ref<nlohmann::json::array_t&>();
  list.reserve(5);
  if (node.kind == Kind::kFact) {
    list.emplace_back("fact");
    for (const int64_t each : {node.fact.relation, node.fact.subject, node.fact.value})
      list.emplace_back(each);
    return json;
  }
  if (node.kind == Kind::kCompare) {
    list.emplace_back("compare");
    list.emplace_back(kComparisons[static_cast<size_t>(node.number)]);
    list.emplace_back(node.in_words);
  } else if (node.kind == Kind::kNot) {
    list.emplace_back("not");
    list.emplace_back(node.number);
  } else {
    list.emplace_back(node.kind == Kind::kArithmetic ? std::string(1, node.sign)
                      : node.kind == Kind::kAnd      ? "and"
                                                     : "or");
  }
  for (size_t i = 0; i < node.parts; ++i) list.push_back(json_at(tree, node.part[i]));
  return json;
}

class Reader {
 public:
  int32_t term(const nlohmann::json& json, int depth) {
    if (json.is_number_integer())
      return tree.add(
          {.kind = Kind::kNumber, .number = integer_of(json, -1000, 1000, "a number of a term", kTask.key)});
    if (depth > kDeepest || !json.is_array() || json.size() != 3 || !json[0].is_string()) refuse_tree(json);
    const std::string& sign = json[0].get_ref<const std::string&>();
    if (sign.size() != 1 || std::string_view("+-*/").find(sign) == std::string_view::npos) refuse_tree(json);
    const int32_t a = term(json[1], depth + 1), b = term(json[2], depth + 1);
    const int32_t whole = tree.add({.kind = Kind::kArithmetic, .sign = sign[0], .parts = 2, .part = {a, b}});
    if (!value_of_term(tree, whole)) refuse_tree(json);
    return whole;
  }

  int32_t whole(const nlohmann::json& json, int depth) {
    if (json.is_boolean()) return tree.add({.number = json.get<bool>() ? 1 : 0});
    if (depth > kDeepest || !json.is_array() || json.size() < 3 || !json[0].is_string()) refuse_tree(json);
    const std::string& kind = json[0].get_ref<const std::string&>();
    if (kind == "compare") return compare(json);
    if (kind == "fact") return fact(json);
    Node node{.kind = kind == "not" ? Kind::kNot : kind == "and" ? Kind::kAnd : Kind::kOr};
    size_t first = 1;
    if (kind == "not") node.number = integer_of(json[first++], 1, 9, "how often not stands", kTask.key);
    if ((kind != "not" && kind != "and" && kind != "or") ||
        json.size() - first > (kind == "not" ? 1 : kMostParts))
      refuse_tree(json);
    for (size_t i = first; i < json.size(); ++i) node.part[node.parts++] = whole(json[i], depth + 1);
    return tree.add(node);
  }

  Tree tree;

 private:
  int32_t compare(const nlohmann::json& json) {
    if (json.size() != 5 || !json[1].is_string() || !json[2].is_boolean()) refuse_tree(json);
    const auto relation =
        std::ranges::find(kComparisons, std::string_view(json[1].get_ref<const std::string&>()));
    if (relation == kComparisons.end()) refuse_tree(json);
    const int32_t a = term(json[3], 0), b = term(json[4], 0);
    return tree.add({.kind = Kind::kCompare,
                     .in_words = json[2].get<bool>(),
                     .parts = 2,
                     .number = relation - kComparisons.begin(),
                     .part = {a, b}});
  }

  int32_t fact(const nlohmann::json& json) {
    if (json.size() != 4) refuse_tree(json);
    Fact fact;
    fact.relation = integer_of(json[1], 0, static_cast<int64_t>(fact_counts().size()) - 1,
                               "the relation of a fact", kTask.key);
    const int64_t most = fact_counts()[static_cast<size_t>(fact.relation)] - 1;
    fact.subject = integer_of(json[2], 0, most, "the subject of a fact", kTask.key);
    fact.value = integer_of(json[3], 0, most, "the value of a fact", kTask.key);
    return tree.add({.kind = Kind::kFact, .fact = fact});
  }
};

int32_t last_of(const Tree& tree) { return static_cast<int32_t>(tree.nodes().size()) - 1; }

}  // namespace

Tree read_tree(const nlohmann::json& json) {
  Reader reader;
  reader.whole(json, 0);
  return std::move(reader.tree);
}

nlohmann::json json_of(const Tree& tree) { return json_at(tree, last_of(tree)); }

bool value_of(const Tree& tree) { return value_at(tree, last_of(tree)); }

std::string text_of(const Tree& tree, Language language) {
  std::string text;
  write_at(tree, last_of(tree), language, text);
  return text;
}

}  // namespace longhaul::puzzles::boolean_expressions
