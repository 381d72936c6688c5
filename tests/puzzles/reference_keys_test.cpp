// The keys that public verifiers read, with their kinds, as the specification of the public records lists
// them: every record of ours has them, and what a public record alone would hold is enough for our verifier.
#include <gtest/gtest.h>

#include <map>

#include "puzzles/maker.h"
#include "puzzles/records.h"
#include "puzzles/tasks.h"

namespace longhaul::puzzles {
namespace {

// "ints": a list of whole numbers; "grid": rows of numbers and texts; "list": any list.
const std::map<std::string, std::map<std::string, std::string>>& public_keys() {
  static const std::map<std::string, std::map<std::string, std::string>> keys = {
      {"arc_agi", {}},
      {"arrow_maze", {{"maze", "grid"}}},
      {"boolean_expressions", {}},
      {"buggy_tables", {}},
      {"calcudoko", {{"grid_size", "int"}, {"regions", "list"}}},
      {"campsite",
       {{"grid", "grid"},
        {"row_constraints", "ints"},
        {"col_constraints", "ints"},
        {"n", "int"},
        {"m", "int"}}},
      {"cipher", {}},
      {"cryptarithm", {}},
      {"dyck_language", {{"full_sequence", "text"}}},
      {"dyck_language_errors", {{"is_valid", "bool"}, {"first_error_pos", "int or null"}}},
      {"dyck_language_reasoning_errors", {{"error_indices", "ints"}}},
      {"futoshiki", {{"grid_size", "int"}, {"prefilled_coords", "grid"}, {"constraints", "list"}}},
      {"goods_exchange", {{"owns_after", "text"}}},
      {"kukurasu", {{"row_sums", "ints"}, {"col_sums", "ints"}, {"n", "int"}, {"m", "int"}}},
      {"mathador", {{"numbers", "ints"}, {"operators", "list"}, {"result", "int"}}},
      {"math_path", {{"ref_expr", "text"}, {"query_expr", "text"}}},
      {"minesweeper", {{"current_mines", "grid"}}},
      {"norinori", {{"region_grid", "grid"}}},
      {"number_wall", {{"grid", "grid"}, {"n", "int"}}},
      {"numbrix", {{"grid", "grid"}}},
      {"object_counting", {}},
      {"object_properties", {}},
      {"operation", {}},
      {"skyscraper_puzzle",
       {{"n", "int"}, {"top", "ints"}, {"bottom", "ints"}, {"left", "ints"}, {"right", "ints"}}},
      {"space_reasoning", {}},
      {"space_reasoning_tree", {}},
      {"star_placement_puzzle", {{"n", "int"}, {"k", "int"}, {"region_grid", "grid"}}},
      {"sudoku", {{"original_sudoku", "grid"}}},
      {"survo", {{"original_matrix", "grid"}, {"candidate_numbers", "ints"}, {"n", "int"}}},
      {"time_sequence", {{"records", "object"}}},
      {"web_of_lies", {}},
      {"word_sorting", {}},
      {"word_sorting_mistake", {}},
      {"wordscapes", {{"grid", "grid"}, {"across_words", "list"}, {"down_words", "list"}}},
      {"zebra_puzzle", {}},
  };
  return keys;
}

bool is_kind(const nlohmann::json& value, const std::string& kind) {
  const auto all = [&](const std::string& of) {
    return value.is_array() &&
           std::ranges::all_of(value, [&](const nlohmann::json& each) { return is_kind(each, of); });
  };
  if (kind == "int") return value.is_number_integer();
  if (kind == "int or null") return value.is_number_integer() || value.is_null();
  if (kind == "bool") return value.is_boolean();
  if (kind == "text") return value.is_string();
  if (kind == "object") return value.is_object();
  if (kind == "cell") return value.is_number_integer() || value.is_string();
  if (kind == "list") return value.is_array();
  if (kind == "ints") return all("int");
  if (kind == "cells") return all("cell");
  return all("cells");
}

TEST(PuzzleReferences, OfAllTasksAreKnown) {
  EXPECT_EQ(public_keys().size(), 35u);
  for (const TaskEntry* task : tasks())
    EXPECT_TRUE(public_keys().contains(std::string(task->key))) << task->key;
}

TEST(PuzzleReferences, RecordsHaveTheKeysOfPublicVerifiers) {
  for (const TaskEntry* task : tasks()) {
    for (int64_t index = 0; index < 6; ++index) {
      const MadePuzzle made = make_puzzle(*task, at_level(task->knobs, index), 3, index).value();
      for (const auto& [key, kind] : public_keys().at(std::string(task->key))) {
        ASSERT_TRUE(made.puzzle.given.contains(key)) << task->key << " lacks " << key;
        EXPECT_TRUE(is_kind(made.puzzle.given[key], kind))
            << task->key << " " << key << ": " << made.puzzle.given[key].dump();
      }
    }
  }
}

// Of a skyscraper puzzle the given heights are ours alone: without them it may have several solutions, of
// which ours is one.
TEST(PuzzleReferences, WithTheirKeysAloneAreVerified) {
  for (const TaskEntry* task : tasks()) {
    const auto& keys = public_keys().at(std::string(task->key));
    if (keys.empty()) continue;  // the public verifier compares with the answer
    for (int64_t index = 0; index < 6; ++index) {
      const KnobValues knobs = at_level(task->knobs, 3);
      const MadePuzzle made = make_puzzle(*task, knobs, 3, index).value();
      nlohmann::ordered_json row = to_record(made, {task, knobs, 3, 3, Language::kEnglish});
      auto game = nlohmann::ordered_json::parse(row["extra_info"]["game_data_str"].get<std::string>());
      nlohmann::ordered_json metadata = nlohmann::ordered_json::object();
      for (const auto& [key, kind] : keys) metadata[key] = game["metadata"][key];
      game["metadata"] = metadata;
      row["extra_info"]["game_data_str"] = game.dump();
      const ReadRecord read = read_row(row, "row");
      EXPECT_TRUE(task->verify(read.given, made.puzzle.solution).accepted())
          << task->key << ": " << metadata.dump();
      EXPECT_FALSE(task->verify(read.given, "[[1]]").accepted()) << task->key;
    }
  }
}

}  // namespace
}  // namespace longhaul::puzzles
