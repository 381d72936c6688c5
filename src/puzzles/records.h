// Puzzles as rows of a data set: the columns that public training sets of these tasks have (data_source,
// prompt, ability, reward_model, extra_info with game_data_str), so that their tools read ours, and beside
// them what makes each puzzle again: task_version, level, knobs, seed, index, language, template.
// docs/puzzles.md lists them. Rows that lack ours are read too, and so are the objects that public generators
// write (question, answer, metadata). What is wrong in a row is a kData error that names it;
// puzzles/record_file.h reads and writes files of them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "puzzles/maker.h"
#include "puzzles/public_answers.h"

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
  nlohmann::json given;  // as the verifier of the task reads it
  std::string answer;    // that the row holds; empty: none
  // all that we know of, in their order; those of ours that the row lacks are missing
  nlohmann::ordered_json columns;
  // Of a public record that holds no puzzle: how its answers are compared, and with which. Then `given` is
  // what it holds instead.
  const PublicAnswer* compared = nullptr;
  std::string right = {};
};
// A line of JSON: a row, or what a public generator writes, which does not tell its task: then `of_generator`
// does.
ReadRecord read_record(const std::string& line, const std::string& where,
                       const TaskEntry* of_generator = nullptr);
ReadRecord read_row(const nlohmann::json& row, const std::string& where);
// Of its two parts: the key of the task, and what `game_data_str` holds.
ReadRecord read_game(std::string_view data_source, const std::string& game_data_str,
                     const std::string& where);
// The object that a public generator would have written: question, answer, difficulty, metadata,
// gpt_response.
nlohmann::ordered_json generator_object(const ReadRecord& record);
// On an answer without tags and shell (engine/answers/answer.h).
Verdict verdict_on_payload(const ReadRecord& record, std::string_view payload);
// On all that was answered to it, tags included.
Verdict verdict_on(const ReadRecord& record, std::string_view response);

// Which template the prompt of an index has: all of them come, in turn.
int64_t template_of(int64_t index);
std::string_view name_of(Language language);  // "en", "zh"

}  // namespace longhaul::puzzles
