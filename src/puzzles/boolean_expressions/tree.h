// Trees of boolean expressions as values: made by the generator, read from a `given`, evaluated and written.
// A tree is a list of nodes in which parts stand before what they are part of; the last node is the whole.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "puzzles/boolean_expressions/facts.h"

namespace longhaul::puzzles::boolean_expressions {

inline constexpr std::array<std::string_view, 6> kComparisons = {"<", "<=", ">", ">=", "==", "!="};

struct Node {
  enum class Kind : uint8_t { kConstant, kFact, kCompare, kNot, kAnd, kOr, kNumber, kArithmetic };
  Kind kind = Kind::kConstant;
  char sign = '+';        // of kArithmetic: + - * /
  bool in_words = false;  // of kCompare
  uint8_t parts = 0;
  // of kNumber; 0 or 1 of kConstant; the times of kNot; the place in kComparisons of kCompare
  int64_t number = 0;
  Fact fact;
  std::array<int32_t, 3> part{};
};

class Tree {
 public:
  Tree() { nodes_.reserve(64); }
  // Their number, for nodes that have them as a part.
  int32_t add(const Node& node) {
    nodes_.push_back(node);
    return static_cast<int32_t>(nodes_.size()) - 1;
  }
  void clear() { nodes_.clear(); }
  const std::vector<Node>& nodes() const { return nodes_; }

 private:
  std::vector<Node> nodes_;
};

// A tree, or its text; refuses what is none, or has a term without a value.
Tree read_tree(const nlohmann::json& json);
std::string json_text_of(const Tree& tree);  // without blanks
bool value_of(const Tree& tree);
std::string text_of(const Tree& tree, Language language);

}  // namespace longhaul::puzzles::boolean_expressions
