// The arguments that say which puzzles of a task are made, shared by the verbs that make some.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "puzzles/engine/knobs.h"
#include "puzzles/engine/prompt.h"
#include "puzzles/records.h"
#include "puzzles/task.h"

namespace longhaul::cli {

struct MakingArguments {
  std::vector<std::string> knobs;  // "clues_percent=40"
  std::string language = "en";
  int64_t level = 3;
  uint64_t seed = 0;
  bool validation = false;
};

void add_making(Command& command, MakingArguments& arguments);

puzzles::Language language_named(const std::string& name);  // "en" or "zh"
puzzles::KnobValues knobs_of(const puzzles::TaskEntry& task, const MakingArguments& arguments);
uint64_t seed_of(const MakingArguments& arguments);  // with the bit that --validation sets
puzzles::RecordOf record_of(const puzzles::TaskEntry& task, const MakingArguments& arguments);
puzzles::MadePuzzle puzzle_at(const puzzles::RecordOf& of, int64_t index);  // kUsage where there is none

}  // namespace longhaul::cli
