#include "puzzles/tasks.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "puzzles/arc_agi/arc_agi.h"
#include "puzzles/boolean_expressions/boolean_expressions.h"
#include "puzzles/cipher/cipher.h"
#include "puzzles/cryptarithm/cryptarithm.h"
#include "puzzles/dyck_language/dyck_language.h"
#include "puzzles/dyck_language_errors/dyck_language_errors.h"
#include "puzzles/futoshiki/futoshiki.h"
#include "puzzles/kukurasu/kukurasu.h"
#include "puzzles/math_path/math_path.h"
#include "puzzles/mathador/mathador.h"
#include "puzzles/operation/operation.h"
#include "puzzles/skyscraper_puzzle/skyscraper_puzzle.h"
#include "puzzles/sudoku/sudoku.h"
#include "puzzles/word_sorting/word_sorting.h"
#include "puzzles/word_sorting_mistake/word_sorting_mistake.h"
#include "puzzles/wordscapes/wordscapes.h"
#include "puzzles/zebra_puzzle/zebra_puzzle.h"

namespace longhaul::puzzles {

std::span<const TaskEntry* const> tasks() {
  static constexpr const TaskEntry* kAll[] = {
      &arc_agi::kTask,               //
      &boolean_expressions::kTask,   //
      &cipher::kTask,                //
      &cryptarithm::kTask,           //
      &dyck_language::kTask,         //
      &dyck_language_errors::kTask,  //
      &futoshiki::kTask,             //
      &kukurasu::kTask,              //
      &math_path::kTask,             //
      &mathador::kTask,              //
      &operation::kTask,             //
      &skyscraper_puzzle::kTask,     //
      &sudoku::kTask,                //
      &word_sorting::kTask,          //
      &word_sorting_mistake::kTask,  //
      &wordscapes::kTask,            //
      &zebra_puzzle::kTask,          //
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

}  // namespace longhaul::puzzles
