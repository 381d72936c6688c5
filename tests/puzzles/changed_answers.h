// Answers that are like a right one and mostly wrong: what a model could write by mistake.
#pragma once

#include <string>

#include "puzzles/engine/draw.h"

namespace longhaul::puzzles {

// One change of an answer, of one of twelve kinds.
std::string changed_answer(const std::string& answer, Draw& draw);

// The answer in full-width characters, as Chinese keyboards write it; bytes that are not ASCII stay.
std::string in_wide_characters(const std::string& answer);

}  // namespace longhaul::puzzles
