#include <cstdlib>
#include <map>
#include <regex>

#include "puzzles/second_checkers/checkers.h"

namespace longhaul::puzzles {

namespace {

// "Alice", "the person whose fruit is apple" → the number of that person's house; 0: there is none.
int house_of_person(const std::string& person,
                    const std::map<std::string, std::map<std::string, int>>& table) {
  static const std::regex kOther("[Tt]he person whose (\\w+) is (.+)");
  std::smatch match;
  const bool other = std::regex_match(person, match, kOther);
  const auto column = table.find(other ? match[1].str() : "name");
  if (column == table.end()) return 0;
  const auto cell = column->second.find(other ? match[2].str() : person);
  return cell == column->second.end() ? 0 : cell->second;
}

using PlainRelation = bool (*)(int a, int b);

bool plain_clue(const std::string& clue, const std::map<std::string, std::map<std::string, int>>& table) {
  static const std::vector<std::pair<std::regex, PlainRelation>> kRelations = {
      {std::regex("(.+) lives in the same house as (.+)\\."), [](int a, int b) { return a == b; }},
      {std::regex("(.+) does not live in the same house as (.+)\\."), [](int a, int b) { return a != b; }},
      {std::regex("(.+) lives directly to the left of (.+)\\."), [](int a, int b) { return b - a == 1; }},
      {std::regex("(.+) lives directly to the right of (.+)\\."), [](int a, int b) { return a - b == 1; }},
      {std::regex("(.+) lives next to (.+)\\."), [](int a, int b) { return std::abs(a - b) == 1; }},
      {std::regex("(.+) lives somewhere to the left of (.+)\\."), [](int a, int b) { return b > a; }},
      {std::regex("(.+) lives somewhere to the right of (.+)\\."), [](int a, int b) { return b < a; }},
      {std::regex("Exactly one house lies between those of (.+) and (.+)\\."),
       [](int a, int b) { return std::abs(a - b) == 2; }},
      {std::regex("Exactly two houses lie between those of (.+) and (.+)\\."),
       [](int a, int b) { return std::abs(a - b) == 3; }}};
  static const std::regex kAt("(.+) lives in house (\\d+)(?: or in house (\\d+))?\\."),
      kNotAt("(.+) does not live in house (\\d+)\\.");
  std::smatch match;
  if (std::regex_match(clue, match, kAt)) {
    const std::string house = std::to_string(house_of_person(match[1], table));
    return house == match[2].str() || house == match[3].str();
  }
  if (std::regex_match(clue, match, kNotAt))
    return std::to_string(house_of_person(match[1], table)) != match[2].str();
  for (const auto& [pattern, relation] : kRelations) {
    if (std::regex_match(clue, match, pattern))
      return relation(house_of_person(match[1], table), house_of_person(match[2], table));
  }
  return false;
}

}  // namespace

// The clues are read from the prompt's sentences, and the lists of values with them.
bool plain_zebra_puzzle(const nlohmann::json& given, const std::string& text) {
  const nlohmann::json answer = nlohmann::json::parse(text, nullptr, false);
  if (!answer.is_object() || !answer.contains("header") || !answer.contains("rows")) return false;
  std::map<std::string, std::map<std::string, int>> table;
  for (const nlohmann::json& row : answer["rows"]) {
    if (row.size() != answer["header"].size()) return false;
    for (size_t c = 1; c < row.size(); ++c)
      table[answer["header"][c]][row[c]] = std::atoi(row[0].get<std::string>().c_str());
  }
  for (const std::string& line : plain_prompt_lines("zebra_puzzle", given)) {
    const size_t colon = line.find(": ");
    if (line.starts_with("- ")) {
      const auto values = plain_words(line.substr(colon + 2), ',');
      const auto& column = table[line.substr(2, colon - 2)];
      if (column.size() != values.size()) return false;
      std::vector<bool> houses(values.size() + 1, false);
      for (const std::string& value : values) {
        const auto cell = column.find(value);
        if (cell == column.end() || cell->second < 1 || cell->second > static_cast<int>(values.size()))
          return false;
        if (houses[static_cast<size_t>(cell->second)]) return false;
        houses[static_cast<size_t>(cell->second)] = true;
      }
    }
    const size_t point = line.find(". ");
    if (point < 3 && line[0] >= '1' && line[0] <= '9' && !plain_clue(line.substr(point + 2), table))
      return false;
  }
  return true;
}

}  // namespace longhaul::puzzles
