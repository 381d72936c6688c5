// Word sorting: some letters come first in a new alphabet, in a given order, and the others follow as usual;
// words are to be sorted by it, up or down. A word that is the beginning of another stands before it (after
// it where sorted down). given: {"front": "qz", "order": "ascending" or "descending", "words": ["pear", …]}.
// Source: docs/puzzles.md#word_sorting.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "puzzles/task.h"

namespace longhaul::puzzles::word_sorting {

struct Sorting {
  std::string front;
  bool descending = false;
  std::vector<std::string_view> words;  // of the dictionary, or of the given that they were read from
};
Sorting read_given(const nlohmann::json& given);
std::vector<std::string_view> sorted(const Sorting& sorting);
std::string prompt(const nlohmann::json& given, Language language, int64_t which);

extern const TaskEntry kTask;

}  // namespace longhaul::puzzles::word_sorting
