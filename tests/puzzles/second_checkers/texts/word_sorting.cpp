#include <algorithm>

#include "puzzles/second_checkers/checkers.h"

namespace longhaul::puzzles {

// From the prompt's own words: each letter becomes its place in the new alphabet, and texts of these are
// sorted.
bool plain_word_sorting(const nlohmann::json& given, const std::string& text) {
  std::string alphabet;
  std::vector<std::string> listed;
  bool descending = false;
  for (const std::string& line : plain_prompt_lines("word_sorting", given)) {
    if (line.starts_with("Front letters: ")) {
      for (const std::string& letter : plain_words(line.substr(15), ',')) alphabet += letter;
    }
    if (line.starts_with("Words: ")) listed = plain_words(line.substr(7), ',');
    descending = descending || line.find("descending (from last to first)") != std::string::npos;
  }
  for (char letter = 'a'; letter <= 'z'; ++letter) {
    if (alphabet.find(letter) == std::string::npos) alphabet += letter;
  }
  const auto coded = [&](std::string word) {
    for (char& c : word) c = static_cast<char>('A' + static_cast<char>(alphabet.find(c)));
    return word;
  };
  std::vector<std::string> words;
  for (const std::string& word : listed) words.push_back(coded(word));
  std::sort(words.begin(), words.end());
  if (descending) std::reverse(words.begin(), words.end());
  std::vector<std::string> answered;
  for (const std::string& word : plain_words(text, ',')) answered.push_back(coded(word));
  return answered == words;
}

}  // namespace longhaul::puzzles
