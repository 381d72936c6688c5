#include "puzzles/second_checkers/checkers.h"

#include <set>

namespace longhaul::puzzles {

// What is open after some brackets is what is left of them once all pairs that match are taken out.
bool plain_dyck_language_reasoning_errors(const nlohmann::json& given, const std::string& text) {
  const auto left_of = [](std::string brackets) {
    for (size_t before = brackets.size() + 1; brackets.size() < before;) {
      before = brackets.size();
      for (const char* pair : {"()", "[]", "{}", "<>"}) {
        for (size_t at = brackets.find(pair); at != std::string::npos; at = brackets.find(pair))
          brackets.erase(at, 2);
      }
    }
    return brackets;
  };
  std::string sequence, read;
  std::set<std::string> wrong, answer;
  for (const std::string& line : plain_prompt_lines("dyck_language_reasoning_errors", given)) {
    const std::string number = line.substr(0, line.find('.'));
    const size_t shows = line.find(" ; stack: ");
    if (line.starts_with("1. The brackets of ")) sequence = line.substr(19, line.find(" are read") - 19);
    if (shows != std::string::npos) {
      read += line[shows - 1];
      const std::string left = left_of(read), shown = line.substr(shows + 10);
      if (shown != (left.empty() ? "empty" : left)) wrong.insert(number);
    }
    if (line.find(". At the end the stack is ") != std::string::npos) {
      const bool says_empty = line.find("not empty") == std::string::npos;
      if (says_empty != left_of(sequence).empty()) wrong.insert(number);
    }
  }
  if (sequence.empty() || read != sequence) return false;
  if (text == "none" || text.empty()) return wrong.empty();  // public data write nothing
  for (const std::string& word : plain_words(text, ',')) answer.insert(word);
  return answer == wrong;
}

}  // namespace longhaul::puzzles
