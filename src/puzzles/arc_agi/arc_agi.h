// ARC: demonstrations show how a grid of colours becomes another one, always by the same rule; the rule is to
// be applied to one more grid. given: as in ARC's own files, {"train": [{"input": [[0, 3], …], "output":
// [[…]]}, …], "test": [{"input": …, "output": …}]} with one test. Colours are 0 to 9, sides 1 to 30. Source:
// docs/puzzles.md#arc_agi.
#pragma once

#include <string>
#include <vector>

#include "puzzles/engine/grids/grid.h"
#include "puzzles/task.h"

namespace longhaul::puzzles::arc_agi {

struct Pair {
  NumberGrid input, output;
};
struct Demonstrated {
  std::vector<Pair> train;
  Pair test;
};
Demonstrated read_given(const nlohmann::json& given);
// Of ARC's JSON: a puzzle for each test of the file. Tests without an output are an error (kData) that names
// `where`.
std::vector<Puzzle> read_public_file(const std::string& text, const std::string& where);
// Another puzzle of the same rule: turned and mirrored, its colours renamed (0 stays), its demonstrations in
// another order, one of them with the test's place. Whether a test is still decided by the others is the
// file's matter, as it is of its own test.
Puzzle varied(const Puzzle& puzzle, Draw& draw);
std::string prompt(const nlohmann::json& given, Language language, int64_t which);

extern const TaskEntry kTask;

}  // namespace longhaul::puzzles::arc_agi
