// The settings that `bench puzzles` measures. A row that names a task which is not built is passed over.
#include <algorithm>

#include "bench/puzzles.h"
#include "puzzles/tasks.h"

namespace longhaul::bench {
namespace {

struct Row {
  const char* task;
  const char* says;
  int64_t level;
  std::map<std::string, int64_t, std::less<>> changes;
  double goal;
  const char* peer = "";
};

// Settings that public generators were measured at, as near as a level or knobs of ours come to them; `says`
// is what they were.
const std::vector<Row>& rows() {
  static const std::vector<Row> all = {
      {"arrow_maze", "5 x 5", 1, {}, 5000},
      {"arrow_maze", "8 x 8", 7, {}, 500},
      {"boolean_expressions", "depth 2", 0, {}, 200'000},
      {"boolean_expressions", "depth 4", 5, {}, 80'000},
      {"calcudoko", "side 4", 0, {}, 20'000},
      {"calcudoko", "side 6", 5, {}, 2000},
      {"campsite", "5 x 5", 2, {}, 50'000},
      {"campsite", "8 x 8", 5, {}, 5000},
      {"cryptarithm", "3 letters, 1 operator", 0, {}, 1000, "cryptarithm"},
      {"cryptarithm", "4 letters, 2 operators", 2, {}, 5000},
      {"dyck_language", "20 brackets", 3, {{"length", 20}, {"kinds", 4}, {"missing", 5}}, 500'000},
      {"dyck_language_errors", "30 brackets", 4, {{"length", 30}, {"kinds", 4}}, 500'000},
      {"dyck_language_reasoning_errors", "15 brackets", 2, {}, 200'000},
      {"futoshiki",
       "side 5, 10 signs, 5 given",
       3,
       {{"side", 5}, {"signs", 10}, {"given_percent", 20}},
       10'000,
       "futoshiki"},
      {"goods_exchange", "20 people, 50 steps", 5, {}, 50'000},
      {"kukurasu", "4 x 4", 2, {{"rows", 4}, {"columns", 4}, {"marked_percent", 30}}, 50'000, "kakurasu 4"},
      {"kukurasu", "6 x 6", 6, {{"rows", 6}, {"columns", 6}, {"marked_percent", 30}}, 10'000, "kakurasu 6"},
      {"mathador",
       "4 numbers",
       3,
       {{"numbers", 4}, {"largest", 9}, {"least_target", 24}, {"largest_target", 24}},
       20'000,
       "puzzle24"},
      {"mathador",
       "5 numbers",
       6,
       {{"numbers", 5}, {"largest", 9}, {"least_target", 24}, {"largest_target", 24}},
       8000},
      {"math_path", "10 operators", 7, {}, 200'000},
      {"minesweeper", "side 8", 3, {}, 10'000},
      {"minesweeper", "side 16", 10, {}, 1000},
      {"norinori", "side 5", 2, {}, 1000},
      {"number_wall", "side 4", 0, {}, 500},
      {"number_wall", "side 5", 2, {}, 100},
      {"numbrix", "6 x 6", 2, {}, 3000},
      {"numbrix", "9 x 9", 6, {}, 300},
      {"object_counting", "", 3, {}, 30'000},
      {"object_properties", "20 objects, 4 steps", 5, {}, 50'000},
      {"skyscraper_puzzle", "side 4", 3, {{"side", 4}, {"clues_percent", 100}}, 20'000},
      {"skyscraper_puzzle", "side 5", 6, {{"side", 5}, {"clues_percent", 100}}, 3000},
      {"space_reasoning", "8 steps", 4, {}, 20'000},
      {"space_reasoning_tree", "50 to 100 places", 6, {}, 30'000},
      {"star_placement_puzzle", "side 9, 1 star", 4, {{"side", 9}, {"stars", 1}}, 500},
      {"star_placement_puzzle", "side 10, 2 stars", 7, {{"side", 10}, {"stars", 2}}, 50},
      {"sudoku", "40 to 55 clues", 5, {{"clues_percent", 49}}, 20'000, "sudoku 40"},
      {"sudoku", "25 to 40 clues", 10, {{"clues_percent", 31}}, 5000, "sudoku 26"},
      {"survo", "side 5, 8 open", 2, {}, 50'000, "survo"},
      {"survo", "side 8, 14 open", 8, {}, 1000},
      {"time_sequence", "3 people", 3, {}, 50'000},
      {"web_of_lies", "10 people", 4, {}, 20'000},
      {"web_of_lies", "14 people", 7, {}, 10'000},
      {"word_sorting", "10 words", 3, {}, 100'000, "word_sorting"},
      {"word_sorting_mistake", "10 words", 3, {}, 50'000},
      {"wordscapes", "", 3, {}, 1000},
      {"zebra_puzzle", "", 3, {}, 0, "zebra_puzzles"},
  };
  return all;
}

}  // namespace

std::vector<PuzzleSetting> puzzle_settings() {
  std::vector<PuzzleSetting> settings;
  for (const puzzles::TaskEntry* task : puzzles::tasks()) {
    const size_t before = settings.size();
    for (const Row& row : rows()) {
      if (row.task == task->key)
        settings.push_back({std::string(task->key), row.says, row.level, row.changes, row.goal, row.peer});
    }
    if (settings.size() == before) settings.push_back({.task = std::string(task->key)});
  }
  return settings;
}

}  // namespace longhaul::bench
