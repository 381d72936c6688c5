// Words to make questions of: "amber-anchor" and 2,303 more, all different, no one of them part of another.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "evaluate/dice.h"

namespace longhaul::evaluate {

int64_t compound_words();
std::string compound_word(int64_t index);                             // of compound_words()
std::vector<std::string> different_words(Dice& dice, int64_t count);  // at most compound_words()
std::string coded_word(Dice& dice, int64_t letters, char first);      // random letters from `first` on: 'a' or 'A'

}  // namespace longhaul::evaluate
