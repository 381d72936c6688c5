// Second checkers: each task's rules once more, written apart from its verifier, for answers in the form that
// the task's own solutions have. A checker stands in a file of its own and is listed in list.cpp.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "puzzles/engine/grids/grid.h"
#include "puzzles/task.h"

namespace longhaul::puzzles {

using SecondChecker = bool (*)(const nlohmann::json& given, const std::string& text);

// A task without one fails the test that asks for it.
SecondChecker second_checker_of(const TaskEntry& task);

bool plain_arc_agi(const nlohmann::json& given, const std::string& text);
bool plain_arrow_maze(const nlohmann::json& given, const std::string& text);
bool plain_boolean_expressions(const nlohmann::json& given, const std::string& text);
bool plain_buggy_tables(const nlohmann::json& given, const std::string& text);
bool plain_calcudoko(const nlohmann::json& given, const std::string& text);
bool plain_campsite(const nlohmann::json& given, const std::string& text);
bool plain_cipher(const nlohmann::json& given, const std::string& text);
bool plain_cryptarithm(const nlohmann::json& given, const std::string& text);
bool plain_dyck(const nlohmann::json& given, const std::string& text);
bool plain_dyck_errors(const nlohmann::json& given, const std::string& text);
bool plain_dyck_language_reasoning_errors(const nlohmann::json& given, const std::string& text);
bool plain_futoshiki(const nlohmann::json& given, const std::string& text);
bool plain_goods_exchange(const nlohmann::json& given, const std::string& text);
bool plain_kukurasu(const nlohmann::json& given, const std::string& text);
bool plain_math_path(const nlohmann::json& given, const std::string& text);
bool plain_mathador(const nlohmann::json& given, const std::string& text);
bool plain_minesweeper(const nlohmann::json& given, const std::string& text);
bool plain_norinori(const nlohmann::json& given, const std::string& text);
bool plain_number_wall(const nlohmann::json& given, const std::string& text);
bool plain_numbrix(const nlohmann::json& given, const std::string& text);
bool plain_object_counting(const nlohmann::json& given, const std::string& text);
bool plain_object_properties(const nlohmann::json& given, const std::string& text);
bool plain_operation(const nlohmann::json& given, const std::string& text);
bool plain_skyscrapers(const nlohmann::json& given, const std::string& text);
bool plain_space_reasoning(const nlohmann::json& given, const std::string& text);
bool plain_space_reasoning_tree(const nlohmann::json& given, const std::string& text);
bool plain_stars(const nlohmann::json& given, const std::string& text);
bool plain_sudoku(const nlohmann::json& given, const std::string& text);
bool plain_survo(const nlohmann::json& given, const std::string& text);
bool plain_time_sequence(const nlohmann::json& given, const std::string& text);
bool plain_web_of_lies(const nlohmann::json& given, const std::string& text);
bool plain_word_sorting(const nlohmann::json& given, const std::string& text);
bool plain_word_sorting_mistake(const nlohmann::json& given, const std::string& text);
bool plain_wordscapes(const nlohmann::json& given, const std::string& text);
bool plain_zebra_puzzle(const nlohmann::json& given, const std::string& text);

// The cells of "[[1, 2], [3, 4]]" as texts without blanks and quotes; none where lists are nested otherwise.
std::vector<std::vector<std::string>> plain_rows(const std::string& text);
// What stands between separators, without blanks around it.
std::vector<std::string> plain_words(const std::string& text, char separator);
// The lines of a puzzle's English prompt: checkers of computed answers read these and nothing else of the
// puzzle.
std::vector<std::string> plain_prompt_lines(const std::string& key, const nlohmann::json& given);
// Whether every row and column, sorted, is 1, 2, … side.
bool plain_latin(const std::vector<std::vector<std::string>>& rows, size_t side);
// All Latin squares of that side, by trying all fillings.
std::vector<NumberGrid> plain_latin_squares(int64_t side);
// Whether the numbers of the board stand in the rows.
bool plain_given(const nlohmann::json& board, const std::vector<std::vector<std::string>>& rows);

}  // namespace longhaul::puzzles
