// Star placement and Norinori: places in regions, read from an answer as all of its numbers in turn.
#include <cstdlib>
#include <map>
#include <set>

#include "puzzles/second_checkers/checkers.h"

namespace longhaul::puzzles {
namespace {

// All whole numbers of a text; letters in quotes, as "A", are kept in front of those that follow.
struct PlainPlaces {
  // (name before, (row, column)), counted from 0
  std::vector<std::pair<std::string, std::pair<size_t, size_t>>> places;
  bool good = true;
};
PlainPlaces plain_places(const std::string& text, size_t rows, size_t columns) {
  PlainPlaces read;
  std::string name;
  std::vector<size_t> numbers;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"' && i + 2 < text.size() && text[i + 2] == '"') name = text.substr(i + 1, 1), i += 2;
    if (text[i] < '0' || text[i] > '9') continue;
    size_t number = 0;
    for (; i < text.size() && text[i] >= '0' && text[i] <= '9' && number < 1000; ++i)
      number = number * 10 + static_cast<size_t>(text[i] - '0');
    --i;
    numbers.push_back(number);
    if (numbers.size() < 2) continue;
    read.good =
        read.good && numbers[0] >= 1 && numbers[0] <= rows && numbers[1] >= 1 && numbers[1] <= columns;
    read.places.push_back({name, {numbers[0] - 1, numbers[1] - 1}});
    numbers.clear();
  }
  read.good = read.good && numbers.empty();
  return read;
}

}  // namespace

bool plain_stars(const nlohmann::json& given, const std::string& text) {
  const auto& grid = given["region_grid"];
  const PlainPlaces read = plain_places(text, grid.size(), grid.size());
  if (!read.good) return false;
  std::map<std::string, int> counts;
  for (const auto& [name, place] : read.places) {
    const auto [row, column] = place;
    if (grid[row][column] != name) return false;
    ++counts["region " + name];
    ++counts[fmt::format("row {}", row)];
    ++counts[fmt::format("column {}", column)];
    for (const auto& [other_name, other] : read.places) {
      const auto far = [](size_t a, size_t b) { return a > b ? a - b : b - a; };
      if (&other != &place && far(other.first, row) <= 1 && far(other.second, column) <= 1) return false;
    }
  }
  if (counts.size() != 3 * grid.size()) return false;
  for (const auto& [what, count] : counts) {
    if (count != given["k"]) return false;
  }
  return true;
}

bool plain_norinori(const nlohmann::json& given, const std::string& text) {
  const auto& grid = given["region_grid"];
  const PlainPlaces read = plain_places(text, grid.size(), grid[0].size());
  if (!read.good || read.places.size() % 2 != 0) return false;
  std::map<std::pair<size_t, size_t>, size_t> domino_of;
  for (size_t i = 0; i < read.places.size(); ++i) {
    if (!domino_of.emplace(read.places[i].second, i / 2).second) return false;
  }
  std::map<std::string, int> counts;
  std::set<std::string> names;
  for (size_t row = 0; row < grid.size(); ++row) {
    for (size_t column = 0; column < grid[row].size(); ++column) {
      const std::string name = grid[row][column];
      const auto own = domino_of.find({row, column});
      if (name == "X" && own == domino_of.end()) return false;
      if (name != "X") names.insert(name);
      if (own == domino_of.end()) continue;
      ++counts[name];
      int partners = 0;
      for (const auto& [r, c] : {std::pair(row + 1, column), std::pair(row - 1, column),
                                 std::pair(row, column + 1), std::pair(row, column - 1)}) {
        const auto other = domino_of.find({r, c});
        if (other == domino_of.end()) continue;
        if (other->second != own->second) return false;
        ++partners;
      }
      if (partners != 1) return false;
    }
  }
  for (const std::string& name : names) {
    if (counts[name] != 2) return false;
  }
  return true;
}

}  // namespace longhaul::puzzles
