// What an answer is worth in parts, so that training sees a wrong format and a wrong answer apart: the reward
// itself is 1 only where all of it is right.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "puzzles/engine/answers/verdict.h"

namespace longhaul::puzzles {

struct Score {
  bool format = false;    // each of the four tags once, in order (engine/answer.h)
  bool readable = false;  // there is a payload, written as the prompt asks
  bool shape = false;     // and it has the rows, columns and items of the puzzle
  bool rules = false;     // and it keeps what is given and every rule: the verifier accepts it

  // How many of the four hold before the first that does not, as a quarter each: 0 a wrong format, … 0.75 all
  // but the rules, 1 all.
  double cascade() const;
  int reward() const { return format && rules ? 1 : 0; }
};

Score score_of(std::string_view response, const Verdict& verdict);
nlohmann::ordered_json to_json(const Score& score);

}  // namespace longhaul::puzzles
