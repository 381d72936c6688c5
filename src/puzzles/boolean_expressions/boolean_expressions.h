// Boolean expressions: which of some expressions are true? They are made of True and False, comparisons of
// exact arithmetic, and facts that everybody knows, joined by not, and, or. given: {"options": ["tree", …]},
// from which the answer is computed: each a text that is the JSON of a tree (in version 1 the tree itself
// stood there, which is still read); a tree is
//
//   true, false, ["fact", relation, subject, value] (facts.h), ["compare", "<=", in words?, term, term],
//     ["not", times, tree], ["and", tree, tree, …],
//   ["or", tree, tree, …];  a term is a whole number, or ["+", term, term] with + - * /
//
// The public verifier reads the answer alone. Source: docs/puzzles.md#boolean_expressions.
#pragma once

#include <string>

#include "puzzles/task.h"

namespace longhaul::puzzles::boolean_expressions {

// Both refuse what is no tree (tree.h).
std::string expression_of(const nlohmann::json& tree, Language language);
bool value_of(const nlohmann::json& tree);

std::string prompt(const nlohmann::json& given, Language language, int64_t which);
extern const TaskEntry kTask;

}  // namespace longhaul::puzzles::boolean_expressions
