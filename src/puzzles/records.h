// Puzzles as lines of JSON: the columns that public training sets of these tasks have (data_source, prompt, ability, reward_model, extra_info with game_data_str), so
// that their tools read ours, and beside them what makes each puzzle again: task_version, level, knobs, seed, index, language, template. docs/puzzles.md
// lists them. Lines that lack ours are read too; what is wrong in a line is a kData error that names it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "puzzles/maker.h"

namespace longhaul::puzzles {

struct RecordOf {  // beside the puzzle itself
  const TaskEntry* task = nullptr;
  KnobValues knobs;
  int64_t level = -1;  // -1: the knobs were set one by one
  uint64_t seed = 0;
  Language language = Language::kEnglish;
};

Puzzle puzzle_in(const TaskEntry& task, const Puzzle& puzzle, Language language);
nlohmann::ordered_json to_record(const MadePuzzle& made, const RecordOf& of);

struct ReadRecord {
  const TaskEntry* task = nullptr;
  nlohmann::json given;
};
ReadRecord read_record(const std::string& line, const std::string& where);

// Which template the prompt of an index has: all of them come, in turn.
int64_t template_of(int64_t index);
std::string_view name_of(Language language);  // "en", "zh"

}  // namespace longhaul::puzzles
