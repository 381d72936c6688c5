#include "puzzles/boolean_expressions/tree.h"

#include <algorithm>

#include "base/error.h"
#include "base/text/number.h"
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

[[noreturn]] void refuse_tree(std::string_view found) {
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

void write_json(const Tree& tree, int32_t place, std::string& text) {
  const Node& node = tree.nodes()[static_cast<size_t>(place)];
  if (node.kind == Kind::kConstant) {
    text += node.number != 0 ? "true" : "false";
    return;
  }
  if (node.kind == Kind::kNumber) {
    text += std::to_string(node.number);
    return;
  }
  text += "[\"";
  if (node.kind == Kind::kFact) {
    text += "fact\"";
    for (const int64_t each : {node.fact.relation, node.fact.subject, node.fact.value})
      (text += ',') += std::to_string(each);
  } else if (node.kind == Kind::kCompare) {
    (text += "compare\",\"") += kComparisons[static_cast<size_t>(node.number)];
    text += node.in_words ? "\",true" : "\",false";
  } else if (node.kind == Kind::kNot) {
    (text += "not\",") += std::to_string(node.number);
  } else if (node.kind == Kind::kArithmetic) {
    (text += node.sign) += '"';
  } else {
    text += node.kind == Kind::kAnd ? "and\"" : "or\"";
  }
  for (size_t i = 0; i < node.parts; ++i) {
    text += ',';
    write_json(tree, node.part[i], text);
  }
  text += ']';
}

// Reads the JSON of a tree as a text.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Tree whole() {
    any(0);
    skip_blanks();
    check(at_ == text_.size());
    return std::move(tree_);
  }

 private:
  void check(bool holds) const {
    if (!holds) refuse_tree(text_);
  }
  void skip_blanks() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
  }
  bool next_is(char expected) {
    skip_blanks();
    return at_ < text_.size() && text_[at_] == expected;
  }
  bool take(std::string_view expected) {
    skip_blanks();
    if (!text_.substr(at_).starts_with(expected)) return false;
    at_ += expected.size();
    return true;
  }
  std::string_view name() {
    check(take("\""));
    const size_t end = text_.find('"', at_);
    check(end != std::string_view::npos);
    const std::string_view read = text_.substr(at_, end - at_);
    at_ = end + 1;
    return read;
  }
  bool truth() {
    const bool is = take("true");
    check(is || take("false"));
    return is;
  }
  int64_t integer(int64_t least, int64_t most) {
    skip_blanks();
    std::string_view rest = text_.substr(at_);
    const std::optional<int64_t> number = take_number<int64_t>(rest);
    check(number && *number >= least && *number <= most);
    at_ = text_.size() - rest.size();
    return *number;
  }
  int64_t next_integer(int64_t least, int64_t most) {
    check(take(","));
    return integer(least, most);
  }

  int32_t term(int depth) {
    if (!take("[")) return tree_.add({.kind = Kind::kNumber, .number = integer(-1000, 1000)});
    const std::string_view sign = name();
    check(depth <= kDeepest && sign.size() == 1 &&
          std::string_view("+-*/").find(sign) != std::string_view::npos);
    check(take(","));
    const int32_t a = term(depth + 1);
    check(take(","));
    const int32_t b = term(depth + 1);
    check(take("]"));
    return tree_.add({.kind = Kind::kArithmetic, .sign = sign[0], .parts = 2, .part = {a, b}});
  }

  int32_t any(int depth) {
    if (!next_is('[')) return tree_.add({.number = truth() ? 1 : 0});
    check(depth <= kDeepest && take("["));
    const std::string_view kind = name();
    Node node{.kind = kind == "fact"      ? Kind::kFact
                      : kind == "compare" ? Kind::kCompare
                      : kind == "not"     ? Kind::kNot
                      : kind == "and"     ? Kind::kAnd
                                          : Kind::kOr};
    check(node.kind != Kind::kOr || kind == "or");
    if (node.kind == Kind::kFact) {
      read_fact(node.fact);
    } else if (node.kind == Kind::kCompare) {
      read_compare(node);
    } else {
      const size_t most = node.kind == Kind::kNot ? 1 : kMostParts;
      if (node.kind == Kind::kNot) node.number = next_integer(1, 9);
      while (take(",")) {
        check(node.parts < most);
        node.part[node.parts++] = any(depth + 1);
      }
      check(node.parts >= (node.kind == Kind::kNot ? 1 : 2));
    }
    check(take("]"));
    return tree_.add(node);
  }

  void read_compare(Node& node) {
    check(take(","));
    const auto relation = std::ranges::find(kComparisons, name());
    check(relation != kComparisons.end() && take(","));
    node.number = relation - kComparisons.begin();
    node.in_words = truth();
    for (node.parts = 0; node.parts < 2; ++node.parts) {
      check(take(","));
      node.part[node.parts] = term(0);
      check(value_of_term(tree_, node.part[node.parts]).has_value());
    }
  }

  void read_fact(Fact& fact) {
    fact.relation = next_integer(0, static_cast<int64_t>(fact_counts().size()) - 1);
    const int64_t most = fact_counts()[static_cast<size_t>(fact.relation)] - 1;
    fact.subject = next_integer(0, most);
    fact.value = next_integer(0, most);
  }

  std::string_view text_;
  size_t at_ = 0;
  Tree tree_;
};

int32_t last_of(const Tree& tree) { return static_cast<int32_t>(tree.nodes().size()) - 1; }

}  // namespace

Tree read_tree(const nlohmann::json& json) {
  if (json.is_string()) return Reader(json.get_ref<const std::string&>()).whole();
  return Reader(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)).whole();
}

std::string json_text_of(const Tree& tree) {
  std::string text;
  write_json(tree, last_of(tree), text);
  return text;
}

bool value_of(const Tree& tree) { return value_at(tree, last_of(tree)); }

std::string text_of(const Tree& tree, Language language) {
  std::string text;
  write_at(tree, last_of(tree), language, text);
  return text;
}

}  // namespace longhaul::puzzles::boolean_expressions
