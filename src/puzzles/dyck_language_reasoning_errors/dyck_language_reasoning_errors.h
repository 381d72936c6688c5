// Errors in a trace of a Dyck word: lines show the stack of open brackets after each bracket; which lines are
// wrong? Line 1 says what is done, line 2 shows the empty stack, line 2 + i the stack after bracket i, and
// one more line says whether it is empty at the end. A line is wrong if it differs from the truth, whatever
// other lines say. given: {"sequence": "([])", "stacks": ["(", …], "says_empty": true, "error_indices": [4]};
// stacks are those shown after each bracket. The public verifier reads error_indices. Source:
// docs/puzzles.md#dyck_language_reasoning_errors.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "puzzles/task.h"

namespace longhaul::puzzles::dyck_language_reasoning_errors {

// The lines, counted from 1, at which what is shown differs from the truth.
std::vector<int64_t> wrong_lines(std::string_view sequence, const std::vector<std::string>& stacks,
                                 bool says_empty);

struct Trace {
  std::string sequence;
  std::vector<std::string> stacks;  // one for each bracket at most
  bool says_empty = false;
};
Trace read_trace(const nlohmann::json& given);

std::string prompt(const nlohmann::json& given, Language language, int64_t which);
extern const TaskEntry kTask;

}  // namespace longhaul::puzzles::dyck_language_reasoning_errors
