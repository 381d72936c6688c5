#include "puzzles/second_checkers/checkers.h"

#include <cstdlib>
#include <map>

namespace longhaul::puzzles {

bool plain_object_counting(const nlohmann::json& given, const std::string& text) {
  std::map<std::string, long> mine;                // "apples" → 17
  std::map<std::string, std::string> category_of;  // "apples" → "pieces of fruit"
  std::string question;
  for (const std::string& line : plain_prompt_lines("object_counting", given)) {
    if (line.starts_with("I have ")) {
      std::string thing = line.substr(7, std::min(line.find(" ("), line.size() - 1) - 7);
      const long count = std::stol(thing);
      thing = thing.substr(thing.find(' ') + 1);
      mine[thing] += count;
      // A history ends with the number that is told.
      const size_t last = line.rfind("which made ");
      if (last != std::string::npos && std::stol(line.substr(last + 11)) != count) return false;
      // Each step of it is right.
      if (last != std::string::npos) {
        long now = std::stol(line.substr(line.find("at first ") + 9));
        for (const std::string& step : plain_words(line.substr(line.find(", then ")), ',')) {
          if (step.starts_with("then got ")) now += std::stol(step.substr(9));
          if (step.starts_with("then lost ")) now -= std::stol(step.substr(10));
          if (step.starts_with("which made ") && std::stol(step.substr(11)) != now) return false;
        }
      }
    } else if (line.starts_with("These are ")) {
      const size_t colon = line.find(": ");
      for (const std::string& thing : plain_words(line.substr(colon + 2, line.size() - colon - 3), ','))
        category_of[thing] = line.substr(10, colon - 10);
    } else if (line.starts_with("Question: ")) {
      question = line;
    }
  }
  std::map<std::string, long> counts;
  for (const auto& [thing, count] : mine) counts[category_of.at(thing)] += count;
  const auto between = [&](const std::string& before, const std::string& after) {
    const size_t begin = question.find(before) + before.size();
    return question.substr(begin, question.find(after, begin) - begin);
  };
  long answer = 0;
  if (question.find("in all?") != std::string::npos) {
    answer = counts[between("How many ", " do I have")];
  } else if (question.find("taken together") != std::string::npos) {
    answer = counts[between("How many ", " and ")] + counts[between(" and ", " do I have")];
  } else {
    answer =
        std::abs(counts[between("numbers of ", " and of ")] - counts[between(" and of ", " that I have")]);
  }
  return text == std::to_string(answer);
}

}  // namespace longhaul::puzzles
