#include "puzzles/second_checkers/checkers.h"

namespace longhaul::puzzles {

// The rule of a puzzle stands nowhere in it: the answer is held against the output that the puzzle keeps, and
// the prompt's grids against the puzzle's. What each rule does is proved by hand in
// tests/puzzles/tasks/arc_agi_test.cpp.
bool plain_arc_agi(const nlohmann::json& given, const std::string& text) {
  std::vector<std::vector<std::vector<std::string>>> told;
  for (const std::string& line : plain_prompt_lines("arc_agi", given)) {
    for (const std::string label : {"Input: ", "Output: "}) {
      if (line.starts_with(label)) told.push_back(plain_rows(line.substr(label.size())));
    }
  }
  std::vector<std::vector<std::vector<std::string>>> kept;
  for (const nlohmann::json& pair : given["train"]) {
    kept.push_back(plain_rows(pair["input"].dump()));
    kept.push_back(plain_rows(pair["output"].dump()));
  }
  kept.push_back(plain_rows(given["test"][0]["input"].dump()));
  return told == kept && plain_rows(text) == plain_rows(given["test"][0]["output"].dump());
}

}  // namespace longhaul::puzzles
