// The tasks that there are, listed by name: the plug-in point of puzzles.
#pragma once

#include <span>
#include <string_view>

#include "puzzles/task.h"

namespace longhaul::puzzles {

std::span<const TaskEntry* const> tasks();
const TaskEntry& task_named(std::string_view key);  // also "val/sudoku", as public data sets write it; kUsage with the nearest name: none

}  // namespace longhaul::puzzles
