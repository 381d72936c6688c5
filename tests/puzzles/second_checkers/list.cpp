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
    {"arc_agi", plain_arc_agi},                                                //
    {"arrow_maze", plain_arrow_maze},                                          //
    {"boolean_expressions", plain_boolean_expressions},                        //
    {"buggy_tables", plain_buggy_tables},                                      //
    {"calcudoko", plain_calcudoko},                                            //
    {"campsite", plain_campsite},                                              //
    {"cipher", plain_cipher},                                                  //
    {"cryptarithm", plain_cryptarithm},                                        //
    {"dyck_language", plain_dyck},                                             //
    {"dyck_language_errors", plain_dyck_errors},                               //
    {"dyck_language_reasoning_errors", plain_dyck_language_reasoning_errors},  //
    {"futoshiki", plain_futoshiki},                                            //
    {"goods_exchange", plain_goods_exchange},                                  //
    {"kukurasu", plain_kukurasu},                                              //
    {"math_path", plain_math_path},                                            //
    {"mathador", plain_mathador},                                              //
    {"minesweeper", plain_minesweeper},                                        //
    {"norinori", plain_norinori},                                              //
    {"number_wall", plain_number_wall},                                        //
    {"numbrix", plain_numbrix},                                                //
    {"object_counting", plain_object_counting},                                //
    {"object_properties", plain_object_properties},                            //
    {"operation", plain_operation},                                            //
    {"skyscraper_puzzle", plain_skyscrapers},                                  //
    {"space_reasoning", plain_space_reasoning},                                //
    {"space_reasoning_tree", plain_space_reasoning_tree},                      //
    {"star_placement_puzzle", plain_stars},                                    //
    {"sudoku", plain_sudoku},                                                  //
    {"survo", plain_survo},                                                    //
    {"time_sequence", plain_time_sequence},                                    //
    {"web_of_lies", plain_web_of_lies},                                        //
    {"word_sorting", plain_word_sorting},                                      //
    {"word_sorting_mistake", plain_word_sorting_mistake},                      //
    {"wordscapes", plain_wordscapes},                                          //
    {"zebra_puzzle", plain_zebra_puzzle},                                      //
};

}  // namespace

SecondChecker second_checker_of(const TaskEntry& task) {
  const auto found = std::ranges::find(kCheckers, task.key, &Row::key);
  if (found != std::end(kCheckers)) return found->checker;
  ADD_FAILURE() << task.key << " has no second checker";
  return [](const nlohmann::json&, const std::string&) { return false; };
}

}  // namespace longhaul::puzzles
