// The tasks that there are, listed by name: the plug-in point of puzzles.
#pragma once

#include <span>
#include <string_view>

#include "puzzles/task.h"

namespace longhaul::puzzles {

std::span<const TaskEntry* const> tasks();
// also "val/sudoku", as public data sets write it; kUsage with the nearest name: none
const TaskEntry& task_named(std::string_view key);
std::string_view text_of(Uniqueness uniqueness);  // "one, proved"
// All of them with their knobs, for programs.
nlohmann::ordered_json tasks_json();
nlohmann::ordered_json task_json(const TaskEntry& task);

}  // namespace longhaul::puzzles
