// Zebra puzzles: houses in a row, numbered from the left; in each lives one person, and of each attribute
// (name, colour, fruit, …) every house has another value. Clues tell which values belong together; the whole
// table is looked for.
//
// given: {"houses": 3, "attributes": [{"name": "fruit", "values": ["apple", …]}, …], "clues": [{"kind":
// "left_of", "a": "apple", "b": "red"}, {"kind": "either", "a": "Alice", "house": 1, "other_house": 3}, …]};
// no value stands in two attributes. Puzzles of public files (zebra_puzzle/public.h) hold {"puzzle": the
// text, "solution": the table}. Source: docs/puzzles.md#zebra_puzzle.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "puzzles/task.h"

namespace longhaul::puzzles::zebra_puzzle {

inline constexpr size_t kMostHouses = 7, kMostAttributes = 7;

// "a is where the clue says": in b's house, in a house, or in a house that stands so to b's.
enum class ClueKind : uint8_t {
  kSame,
  kNotSame,
  kAt,
  kNotAt,
  kEither,
  kLeftOf,
  kRightOf,
  kBeside,
  kBefore,
  kAfter,
  kOneBetween,
  kTwoBetween,
};
inline constexpr size_t kClueKinds = 12;
bool is_about_houses(ClueKind kind);  // kAt, kNotAt, kEither: it has no b

struct Clue {
  ClueKind kind = ClueKind::kSame;
  size_t a = 0, b = 0;                // values: attribute * houses + its number
  size_t house = 0, other_house = 0;  // from 0
};
struct Attribute {
  std::string name;
  std::vector<std::string> values;
};
struct Zebra {
  size_t houses = 0;
  std::vector<Attribute> attributes;
  std::vector<Clue> clues;
};
using Places = std::vector<size_t>;  // the house of each value

Zebra read_given(const nlohmann::json& given);
nlohmann::json given_of(const Zebra& zebra);
bool holds(const Clue& clue, const Places& places);
SolutionCount count_solutions(const Zebra& zebra, int64_t limit, SearchBudget& budget);

bool is_of_public_file(const nlohmann::json& given);
// The table as an answer is written, in a language.
std::string table_of(const Zebra& zebra, const Places& places, Language language);
std::string_view attribute_in(std::string_view name, Language language);  // "house" too
std::string prompt(const nlohmann::json& given, Language language, int64_t which);

extern const TaskEntry kTask;

}  // namespace longhaul::puzzles::zebra_puzzle
