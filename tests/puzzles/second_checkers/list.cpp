#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

#include "puzzles/second_checkers/checkers.h"

namespace longhaul::puzzles {
namespace {

struct Row {
  std::string_view key;
  SecondChecker checker;
};
// One row a line, sorted by key.
constexpr Row kCheckers[] = {
    {"arc_agi", plain_arc_agi},                            //
    {"boolean_expressions", plain_boolean_expressions},    //
    {"cipher", plain_cipher},                              //
    {"cryptarithm", plain_cryptarithm},                    //
    {"dyck_language", plain_dyck},                         //
    {"dyck_language_errors", plain_dyck_errors},           //
    {"futoshiki", plain_futoshiki},                        //
    {"kukurasu", plain_kukurasu},                          //
    {"math_path", plain_math_path},                        //
    {"mathador", plain_mathador},                          //
    {"operation", plain_operation},                        //
    {"skyscraper_puzzle", plain_skyscrapers},              //
    {"sudoku", plain_sudoku},                              //
    {"word_sorting", plain_word_sorting},                  //
    {"word_sorting_mistake", plain_word_sorting_mistake},  //
    {"wordscapes", plain_wordscapes},                      //
    {"zebra_puzzle", plain_zebra_puzzle},                  //
};

}  // namespace

SecondChecker second_checker_of(const TaskEntry& task) {
  const auto found = std::ranges::find(kCheckers, task.key, &Row::key);
  if (found != std::end(kCheckers)) return found->checker;
  ADD_FAILURE() << task.key << " has no second checker";
  return [](const nlohmann::json&, const std::string&) { return false; };
}

}  // namespace longhaul::puzzles
