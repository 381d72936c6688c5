// Pairs of a right and a wrong answer to a puzzle, for preference learning: the right one is the puzzle's
// own, the wrong one the answer to another puzzle of the same task that the verifier does not accept for this
// one. So both are written as the task asks, and only one solves the puzzle.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "puzzles/records.h"

namespace longhaul::puzzles {

struct PairForm {
  bool messages = false;                  // prompt and answers as lists of messages; false: as texts
  std::string before = "\n", after = {};  // what texts have between prompt and answer, and after the answer
};

struct AnswerPairs {
  int64_t made = 0;
  int64_t without_answer = 0;  // puzzles whose rows hold none
  int64_t without_wrong = 0;   // puzzles that every answer near them solves
};

// Gives {"prompt", "chosen", "rejected"} for each puzzle, in the order of the records. `tried`: how many
// other puzzles are looked at for a wrong answer, the next ones of the task in a circle.
AnswerPairs make_answer_pairs(const std::vector<ReadRecord>& records, const PairForm& form,
                              const std::function<void(const nlohmann::ordered_json& pair)>& give,
                              int64_t tried = 50);

}  // namespace longhaul::puzzles
