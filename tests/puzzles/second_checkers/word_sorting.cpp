#include <algorithm>

#include "puzzles/second_checkers/checkers.h"
#include "puzzles/tasks.h"

namespace longhaul::puzzles {

namespace {

std::vector<std::string> pieces_between_commas(const std::string& text) {
  std::vector<std::string> pieces(1);
  for (const char c : text) {
    if (c == ',') {
      pieces.emplace_back();
    } else if (c != ' ') {
      pieces.back() += c;
    }
  }
  return pieces;
}

}  // namespace

// From the prompt's own words: each letter becomes its place in the new alphabet, and texts of these are sorted.
bool plain_word_sorting(const nlohmann::json& given, const std::string& text) {
  static int64_t turn = 0;
  const std::string prompt = task_named("word_sorting").prompt(given, Language::kEnglish, turn++ % kTemplates);
  const auto after = [&](const std::string& label) {
    const size_t at = prompt.find("\n" + label) + 1 + label.size();
    return prompt.substr(at, prompt.find('\n', at) - at);
  };
  std::string alphabet;
  for (const std::string& letter : pieces_between_commas(after("Front letters:"))) alphabet += letter;
  for (char letter = 'a'; letter <= 'z'; ++letter) {
    if (alphabet.find(letter) == std::string::npos) alphabet += letter;
  }
  const auto coded = [&](std::string word) {
    for (char& c : word) c = static_cast<char>('A' + static_cast<char>(alphabet.find(c)));
    return word;
  };
  std::vector<std::string> words;
  for (const std::string& word : pieces_between_commas(after("Words:"))) words.push_back(coded(word));
  std::sort(words.begin(), words.end());
  if (prompt.find("descending (from last to first)") != std::string::npos) std::reverse(words.begin(), words.end());
  std::vector<std::string> answered;
  for (const std::string& word : pieces_between_commas(text)) answered.push_back(coded(word));
  return answered == words;
}

}  // namespace longhaul::puzzles
