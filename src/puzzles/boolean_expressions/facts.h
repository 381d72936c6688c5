// Facts that nobody disputes, each a subject and a value of one relation: capitals, continents, chemical
// symbols, kinds of animals. A fact whose value is another subject's is false where the two values differ; so
// there are over 200 true facts and thousands of false ones, in each language.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "puzzles/engine/words/words.h"

namespace longhaul::puzzles::boolean_expressions {

struct Fact {
  int64_t relation = 0, subject = 0, value = 0;  // value: the subject whose value is told
};

std::span<const int64_t> fact_counts();  // of subjects, by relation
bool is_true(const Fact& fact);
std::string sentence_of(const Fact& fact, Language language);  // without a full stop

}  // namespace longhaul::puzzles::boolean_expressions
