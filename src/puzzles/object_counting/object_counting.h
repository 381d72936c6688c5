// Object counting: how many things of one or two categories do I have, among much that other people have?
// given: {"statements": [[owner, thing, count, aside], …], "question": ["total", category] or ["sum" or
// "difference", category, category]}; the owner is a name, or "" for me; the aside null, a number of a remark
// that means nothing, or the list of the counts that led to this one. The public verifier reads the answer
// alone. Source: docs/puzzles.md#object_counting.
#pragma once

#include <string>
#include <vector>

#include "puzzles/task.h"

namespace longhaul::puzzles::object_counting {

inline constexpr int64_t kRemarks = 12;

struct Statement {
  std::string_view owner, thing;   // of our tables, or of the given that they were read from
  int64_t count = 0, remark = -1;  // remark: -1, none
  std::vector<int64_t> history;    // empty: none is told; its last is the count
};
struct Given {
  std::vector<Statement> statements;
  std::string_view question;
  std::vector<size_t> asked;  // places in categories()
};
Given read_given(const nlohmann::json& given);
size_t category_of(std::string_view thing);  // categories().size(): in none

std::string prompt(const nlohmann::json& given, Language language, int64_t which);
extern const TaskEntry kTask;

}  // namespace longhaul::puzzles::object_counting
