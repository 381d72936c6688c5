// Errors in a Dyck language: where is the first bracket that is wrong? Places count from 1. The first error
// is the first closing bracket that finds nothing open or another kind open last; where there is none and
// something is still open at the end, it is the place behind the last bracket; a sequence without errors is
// -1. given: {"sequence": "([)]", "is_valid": false, "first_error_pos": 3}. Source:
// docs/puzzles.md#dyck_language_errors.
#pragma once

#include <string>
#include <string_view>

#include "puzzles/task.h"

namespace longhaul::puzzles::dyck_language_errors {

int64_t first_error(std::string_view sequence);  // -1: none

std::string prompt(const nlohmann::json& given, Language language, int64_t which);
extern const TaskEntry kTask;

}  // namespace longhaul::puzzles::dyck_language_errors
