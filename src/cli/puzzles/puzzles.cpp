// `longhaul puzzles`: puzzles with proved answers, made from a seed, and the verdicts on what is answered.
#include "cli/puzzles/verbs.h"

namespace longhaul::cli {

void add_puzzles(Command& program) {
  Command group = program.add_group(
      "puzzles", "logic puzzles with proved answers, and the verdicts on what is answered",
      {{"what there is", "puzzles list"},
       {"one to look at", "puzzles show sudoku --level 2 --solution"},
       {"a thousand to train on", "puzzles generate sudoku kukurasu --count 500 --out puzzles.jsonl"}});
  add_puzzles_list(group);
  add_puzzles_show(group);
  add_puzzles_play(group);
  add_puzzles_generate(group);
  add_puzzles_import(group);
  add_puzzles_convert(group);
  add_puzzles_pairs(group);
  add_puzzles_verify(group);
  add_puzzles_calibrate(group);
  add_puzzles_grade(group);
  add_puzzles_serve_rewards(group);
}

}  // namespace longhaul::cli
