// Cousins in a tree of things: statements tell parts of a tree; which are the cousins of one of its things?
// given: {"facts": [["children", "apple", ["pear", …]], …], "asked": "pear"}; facts are "children",
// "grandchildren" and "siblings" (all of them; an empty list says that there are none). Cousins are the
// children of the siblings of the parent. The public verifier reads the answer alone. Source:
// docs/puzzles.md#space_reasoning_tree.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "puzzles/task.h"

namespace longhaul::puzzles::space_reasoning_tree {

// Views of the given that they were read from.
struct Fact {
  std::string_view kind, about;
  std::vector<std::string_view> things;
};
struct Given {
  std::vector<Fact> facts;
  std::string_view asked;
};
Given read_given(const nlohmann::json& given);
std::optional<std::set<std::string>> cousins_of(const Given& given);  // none: the facts do not tell them

std::string prompt(const nlohmann::json& given, Language language, int64_t which);
extern const TaskEntry kTask;

}  // namespace longhaul::puzzles::space_reasoning_tree
