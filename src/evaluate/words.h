// Words for generated questions: "amber-anchor" and 2,303 more, all different; none of them is part of
// another.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "evaluate/dice.h"

namespace longhaul::evaluate {

int64_t compound_words();
std::string compound_word(int64_t index);                             // of compound_words()
std::vector<std::string> different_words(Dice& dice, int64_t count);  // at most compound_words()
// Random letters of the alphabet that begins with `first`: 'a' or 'A'.
std::string coded_word(Dice& dice, int64_t letters, char first);

}  // namespace longhaul::evaluate
