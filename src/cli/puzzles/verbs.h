// The verbs of `longhaul puzzles`, one file each; puzzles.cpp lists them in the order of --help.
#pragma once

#include "cli/command.h"

namespace longhaul::cli {

void add_puzzles_list(Command& group);
void add_puzzles_show(Command& group);
void add_puzzles_play(Command& group);
void add_puzzles_generate(Command& group);
void add_puzzles_import(Command& group);
void add_puzzles_convert(Command& group);
void add_puzzles_pairs(Command& group);
void add_puzzles_verify(Command& group);
void add_puzzles_calibrate(Command& group);
void add_puzzles_grade(Command& group);
void add_puzzles_serve_rewards(Command& group);

}  // namespace longhaul::cli
