#include "puzzles/tasks.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text/text.h"
#include "puzzles/arc_agi/arc_agi.h"
#include "puzzles/arrow_maze/arrow_maze.h"
#include "puzzles/boolean_expressions/boolean_expressions.h"
#include "puzzles/buggy_tables/buggy_tables.h"
#include "puzzles/calcudoko/calcudoko.h"
#include "puzzles/campsite/campsite.h"
#include "puzzles/cipher/cipher.h"
#include "puzzles/cryptarithm/cryptarithm.h"
#include "puzzles/dyck_language/dyck_language.h"
#include "puzzles/dyck_language_errors/dyck_language_errors.h"
#include "puzzles/dyck_language_reasoning_errors/dyck_language_reasoning_errors.h"
#include "puzzles/futoshiki/futoshiki.h"
#include "puzzles/goods_exchange/goods_exchange.h"
#include "puzzles/kukurasu/kukurasu.h"
#include "puzzles/math_path/math_path.h"
#include "puzzles/mathador/mathador.h"
#include "puzzles/minesweeper/minesweeper.h"
#include "puzzles/norinori/norinori.h"
#include "puzzles/number_wall/number_wall.h"
#include "puzzles/numbrix/numbrix.h"
#include "puzzles/object_counting/object_counting.h"
#include "puzzles/object_properties/object_properties.h"
#include "puzzles/operation/operation.h"
#include "puzzles/skyscraper_puzzle/skyscraper_puzzle.h"
#include "puzzles/space_reasoning/space_reasoning.h"
#include "puzzles/space_reasoning_tree/space_reasoning_tree.h"
#include "puzzles/star_placement_puzzle/star_placement_puzzle.h"
#include "puzzles/sudoku/sudoku.h"
#include "puzzles/survo/survo.h"
#include "puzzles/time_sequence/time_sequence.h"
#include "puzzles/web_of_lies/web_of_lies.h"
#include "puzzles/word_sorting/word_sorting.h"
#include "puzzles/word_sorting_mistake/word_sorting_mistake.h"
#include "puzzles/wordscapes/wordscapes.h"
#include "puzzles/zebra_puzzle/zebra_puzzle.h"

namespace longhaul::puzzles {

std::span<const TaskEntry* const> tasks() {
  static constexpr const TaskEntry* kAll[] = {
      &arc_agi::kTask,                         //
      &arrow_maze::kTask,                      //
      &boolean_expressions::kTask,             //
      &buggy_tables::kTask,                    //
      &calcudoko::kTask,                       //
      &campsite::kTask,                        //
      &cipher::kTask,                          //
      &cryptarithm::kTask,                     //
      &dyck_language::kTask,                   //
      &dyck_language_errors::kTask,            //
      &dyck_language_reasoning_errors::kTask,  //
      &futoshiki::kTask,                       //
      &goods_exchange::kTask,                  //
      &kukurasu::kTask,                        //
      &math_path::kTask,                       //
      &mathador::kTask,                        //
      &minesweeper::kTask,                     //
      &norinori::kTask,                        //
      &number_wall::kTask,                     //
      &numbrix::kTask,                         //
      &object_counting::kTask,                 //
      &object_properties::kTask,               //
      &operation::kTask,                       //
      &skyscraper_puzzle::kTask,               //
      &space_reasoning::kTask,                 //
      &space_reasoning_tree::kTask,            //
      &star_placement_puzzle::kTask,           //
      &sudoku::kTask,                          //
      &survo::kTask,                           //
      &time_sequence::kTask,                   //
      &web_of_lies::kTask,                     //
      &word_sorting::kTask,                    //
      &word_sorting_mistake::kTask,            //
      &wordscapes::kTask,                      //
      &zebra_puzzle::kTask,                    //
  };
  return kAll;
}

const TaskEntry& task_named(std::string_view key) {
  if (key.starts_with("val/")) key.remove_prefix(4);
  for (const TaskEntry* task : tasks()) {
    if (task->key == key) return *task;
  }
  std::vector<std::string> known;
  for (const TaskEntry* task : tasks()) known.emplace_back(task->key);
  const std::string near = nearest_spelling(std::string(key), known);
  throw Error({.code = ExitCode::kUsage,
               .what = "there is no such puzzle",
               .expected = fmt::format("one of {}", fmt::join(known, ", ")),
               .found = brief(printable(std::string(key))),
               .hint = near.empty() ? "longhaul puzzles list tells of each" : "did you mean " + near + "?"});
}

std::string_view text_of(Uniqueness uniqueness) {
  switch (uniqueness) {
    case Uniqueness::kProved:
      return "one, proved";
    case Uniqueness::kComputed:
      return "one, computed";
    case Uniqueness::kAny:
      return "any valid one";
  }
  return "";
}

nlohmann::ordered_json task_json(const TaskEntry& task) {
  nlohmann::ordered_json knobs = nlohmann::ordered_json::array();
  for (const Knob& knob : task.knobs) {
    knobs.push_back({{"name", knob.name},
                     {"least", knob.least},
                     {"most", knob.most},
                     {"level_0", knob.easiest},
                     {"level_10", knob.hardest},
                     {"says", knob.says}});
  }
  return {{"key", task.key},
          {"title", task.title},
          {"version", task.version},
          {"answer", text_of(task.uniqueness)},
          {"knobs", knobs}};
}

nlohmann::ordered_json tasks_json() {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const TaskEntry* task : tasks()) all.push_back(task_json(*task));
  return all;
}

}  // namespace longhaul::puzzles
