#include <algorithm>
#include <map>
#include <set>

#include "puzzles/second_checkers/checkers.h"

namespace longhaul::puzzles {

namespace {

std::vector<std::string> split_at(const std::string& text, const std::string& separator) {
  std::vector<std::string> pieces;
  size_t begin = 0;
  for (size_t at; (at = text.find(separator, begin)) != std::string::npos; begin = at + separator.size())
    pieces.push_back(text.substr(begin, at - begin));
  pieces.push_back(text.substr(begin));
  return pieces;
}

using PlainGroups = std::vector<std::set<std::string>>;

// "ant < [cow ? cat]" as sets of words; a word that stands twice in a group makes an empty result.
PlainGroups plain_groups(const std::string& line) {
  PlainGroups groups;
  for (std::string piece : split_at(line, " < ")) {
    if (piece.starts_with('[')) piece = piece.substr(1, piece.size() - 2);
    const auto words = split_at(piece, " ? ");
    groups.emplace_back(words.begin(), words.end());
    if (groups.back().size() != words.size()) return {};
  }
  return groups;
}

}  // namespace

// From the prompt's lines. Groups are told by what the words begin with: a group of several words is one
// whose words agree in all letters that were looked at, so what comes next can be found from the texts of the
// words alone.
bool plain_word_sorting_mistake(const nlohmann::json& given, const std::string& text) {
  std::map<std::string, size_t> looked_at;  // letters of each word
  PlainGroups state;
  const auto is_of_several = [&](const std::set<std::string>& group) { return group.size() > 1; };
  int64_t number = 0, wrong = 0;
  for (const std::string& line : plain_prompt_lines("word_sorting_mistake", given)) {
    if (wrong != 0) break;
    if (line.starts_with("Words: ")) {
      const auto words = split_at(line.substr(7), ", ");
      state = {{words.begin(), words.end()}};
    }
    if (!line.starts_with("Thought ")) continue;
    ++number;
    const std::string told = line.substr(line.find(": ") + 2);
    const auto group = std::ranges::find_if(state, is_of_several);
    if (number % 2 == 1) {
      if (group == state.end()) return false;
      const size_t place = looked_at[*group->begin()];
      std::set<std::string> expected, found;
      for (const std::string& word : *group) {
        const std::string letter = place < word.size() ? word.substr(place, 1) : "-";
        expected.insert(word + " " + letter + " (" + std::to_string(letter == "-" ? 0 : letter[0] - 96) +
                        ")");
      }
      const std::string label = "letter " + std::to_string(place + 1) + ": ";
      const auto pieces = split_at(told.substr(std::min(label.size(), told.size())), ", ");
      found.insert(pieces.begin(), pieces.end());
      if (!told.starts_with(label) || found != expected || pieces.size() != expected.size()) wrong = number;
      continue;
    }
    std::map<std::string, std::set<std::string>> parts;
    for (const std::string& word : *group) {
      const size_t place = looked_at[word]++;
      parts[place < word.size() ? word.substr(place, 1) : ""].insert(word);
    }
    PlainGroups next(state.begin(), group);
    for (const auto& [letter, words] : parts) next.push_back(words);
    next.insert(next.end(), group + 1, state.end());
    state = next;
    if (plain_groups(told) != state) wrong = number;
  }
  return text == (wrong == 0 ? "No" : std::to_string(wrong));
}

}  // namespace longhaul::puzzles
