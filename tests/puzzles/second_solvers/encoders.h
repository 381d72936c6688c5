// Puzzles as clauses, written from the rules and the public keys alone: what a SAT solver finds is counted
// beside count_solutions(). An encoder stands in the file of its kind of board and is listed in encoders.cpp;
// a task without one is counted by its own search only.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "puzzles/second_solvers/sat.h"

namespace longhaul::puzzles {

// Adds the rules to `cnf`; returns the variables that tell solutions apart.
using Encoder = Literals (*)(const nlohmann::json& given, Cnf& cnf);

Encoder encoder_of(std::string_view task);  // null: there is none

Literals sudoku_clauses(const nlohmann::json& given, Cnf& cnf);
Literals futoshiki_clauses(const nlohmann::json& given, Cnf& cnf);
Literals skyscraper_clauses(const nlohmann::json& given, Cnf& cnf);
Literals calcudoko_clauses(const nlohmann::json& given, Cnf& cnf);
Literals kukurasu_clauses(const nlohmann::json& given, Cnf& cnf);
Literals arrow_maze_clauses(const nlohmann::json& given, Cnf& cnf);
Literals campsite_clauses(const nlohmann::json& given, Cnf& cnf);
Literals norinori_clauses(const nlohmann::json& given, Cnf& cnf);
Literals number_wall_clauses(const nlohmann::json& given, Cnf& cnf);
Literals numbrix_clauses(const nlohmann::json& given, Cnf& cnf);
Literals star_clauses(const nlohmann::json& given, Cnf& cnf);
Literals survo_clauses(const nlohmann::json& given, Cnf& cnf);
Literals wordscapes_clauses(const nlohmann::json& given, Cnf& cnf);
Literals zebra_clauses(const nlohmann::json& given, Cnf& cnf);

}  // namespace longhaul::puzzles
