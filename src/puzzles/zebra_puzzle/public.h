// The public zebra puzzles of ZebraLogic: an object, a list of objects or a line each, with "puzzle", the
// whole text in English, and "solution": {"header": ["House", …], "rows": [["1", …], …]}. What the copies
// without answers have in place of values ("___") is an error. Our answer is right where it is the table, its
// columns in any order.
#pragma once

#include <string>
#include <vector>

#include "puzzles/task.h"
#include "puzzles/zebra_puzzle/table.h"

namespace longhaul::puzzles::zebra_puzzle {

// `where` names the file in errors (kData).
std::vector<Puzzle> read_public_file(const std::string& text, const std::string& where);
Table solution_of_public(const nlohmann::json& given);
// A record of a public training set: the puzzle is its question, and "answer" the table, an object or a text
// of JSON.
nlohmann::json from_reference(const nlohmann::json& object);

}  // namespace longhaul::puzzles::zebra_puzzle
