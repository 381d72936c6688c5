// Mistakes in word sorting: thoughts, numbered from 1, sort words letter by letter; which is the first wrong
// one? Thoughts of two kinds take turns. One names a letter of each word of a group and its place in the
// alphabet (a is 1, and a word that has ended counts 0); the next orders the words by these numbers and
// leaves those with one number together in a group. The leftmost group of several words is treated next. A
// thought is right if it follows from those before it. given: {"words": ["cow", "cat", …], "thoughts":
// [{"letter": 1, "places": [["cow", "c", 3], …]}, {"order": [["ant"], ["cow", "cat"]]}, …]} Source:
// docs/puzzles.md#word_sorting_mistake.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "puzzles/task.h"

namespace longhaul::puzzles::word_sorting_mistake {

// Words and letters are views of the dictionary, or of the given that they were read from.
struct Place {
  std::string_view word, letter;  // letter: "-" where the word has ended
  int64_t number = 0;             // 0: it has ended
  bool operator==(const Place&) const = default;
};
using Groups = std::vector<std::vector<std::string_view>>;

// One kind or the other: `places` of the letter at `letter` (from 1), or, where `letter` is 0, the `order`.
struct Thought {
  int64_t letter = 0;
  std::vector<Place> places;
  Groups order;
};
struct Trace {
  std::vector<std::string_view> words;
  std::vector<Thought> thoughts;
};

// The number of the first thought that does not follow from those before it; 0: there is none.
int64_t first_mistake(const Trace& trace);
Trace read_given(const nlohmann::json& given);
std::string prompt(const nlohmann::json& given, Language language, int64_t which);

extern const TaskEntry kTask;

}  // namespace longhaul::puzzles::word_sorting_mistake
