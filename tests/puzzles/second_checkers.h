// Second checkers: each task's rules once more, written apart from its verifier, for answers in the form that the task's own solutions have.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "puzzles/task.h"

namespace longhaul::puzzles {

using SecondChecker = bool (*)(const nlohmann::json& given, const std::string& text);

// A task without one fails the test that asks for it.
SecondChecker second_checker_of(const TaskEntry& task);

}  // namespace longhaul::puzzles
