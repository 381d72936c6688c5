#include <algorithm>
#include <array>
#include <set>

#include "puzzles/engine/given.h"
#include "puzzles/engine/words/words.h"
#include "puzzles/zebra_puzzle/zebra_puzzle.h"

namespace longhaul::puzzles::zebra_puzzle {
namespace {

constexpr std::array<std::string_view, kClueKinds> kKindNames = {
    "same",     "not_same", "at",     "not_at", "either",      "left_of",
    "right_of", "beside",   "before", "after",  "one_between", "two_between"};
constexpr std::string_view kKey = "zebra_puzzle";

std::string value_of_number(const Zebra& zebra, size_t value) {
  return zebra.attributes[value / zebra.houses].values[value % zebra.houses];
}

size_t value_named(const Zebra& zebra, const nlohmann::json& clue, const char* key) {
  const std::string& name = text_of(member_of(clue, key, kKey), key, kKey);
  for (size_t attribute = 0; attribute < zebra.attributes.size(); ++attribute) {
    const std::vector<std::string>& values = zebra.attributes[attribute].values;
    const auto found = std::ranges::find(values, name);
    if (found != values.end()) return attribute * zebra.houses + static_cast<size_t>(found - values.begin());
  }
  refuse_given(kKey, "clues about values of the attributes", clue);
}

size_t house_of(const Zebra& zebra, const nlohmann::json& clue, const char* key) {
  return static_cast<size_t>(
             integer_of(member_of(clue, key, kKey), 1, static_cast<int64_t>(zebra.houses), key, kKey)) -
         1;
}

Clue clue_of(const Zebra& zebra, const nlohmann::json& json) {
  const auto kind = std::ranges::find(kKindNames, text_of(member_of(json, "kind", kKey), "\"kind\"", kKey));
  if (kind == kKindNames.end())
    refuse_given(kKey, fmt::format("kinds of clues: {}", fmt::join(kKindNames, ", ")), json);
  Clue clue{.kind = static_cast<ClueKind>(kind - kKindNames.begin()), .a = value_named(zebra, json, "a")};
  if (!is_about_houses(clue.kind)) {
    clue.b = value_named(zebra, json, "b");
  } else {
    clue.b = clue.a;
    clue.house = house_of(zebra, json, "house");
    if (clue.kind == ClueKind::kEither) clue.other_house = house_of(zebra, json, "other_house");
  }
  return clue;
}

}  // namespace

bool is_of_public_file(const nlohmann::json& given) { return given.is_object() && given.contains("puzzle"); }

Zebra read_given(const nlohmann::json& given) {
  Zebra zebra{.houses = static_cast<size_t>(
                  integer_of(member_of(given, "houses", kKey), 1, kMostHouses, "\"houses\"", kKey))};
  std::set<std::string> all;
  for (const nlohmann::json& one :
       list_of(member_of(given, "attributes", kKey), 1, kMostAttributes, "\"attributes\"", kKey)) {
    Attribute attribute{.name = text_of(member_of(one, "name", kKey), "\"name\"", kKey)};
    if (attribute_in(attribute.name, Language::kEnglish).empty())
      refuse_given(kKey, "known names of attributes", one);
    for (const nlohmann::json& value :
         list_of(member_of(one, "values", kKey), zebra.houses, zebra.houses, "\"values\"", kKey)) {
      attribute.values.push_back(text_of(value, "a value", kKey));
      if (!all.insert(attribute.values.back()).second ||
          !word_in(attribute.values.back(), Language::kEnglish))
        refuse_given(kKey, "values that are known words, each once", value);
    }
    zebra.attributes.push_back(std::move(attribute));
  }
  for (const nlohmann::json& clue : list_of(member_of(given, "clues", kKey), 0, 500, "\"clues\"", kKey))
    zebra.clues.push_back(clue_of(zebra, clue));
  return zebra;
}

nlohmann::json given_of(const Zebra& zebra) {
  nlohmann::json attributes = nlohmann::json::array(), clues = nlohmann::json::array();
  for (const Attribute& attribute : zebra.attributes)
    attributes.push_back({{"name", attribute.name}, {"values", attribute.values}});
  for (const Clue& clue : zebra.clues) {
    nlohmann::json one = {{"kind", kKindNames[static_cast<size_t>(clue.kind)]},
                          {"a", value_of_number(zebra, clue.a)}};
    if (!is_about_houses(clue.kind)) one["b"] = value_of_number(zebra, clue.b);
    if (is_about_houses(clue.kind)) one["house"] = clue.house + 1;
    if (clue.kind == ClueKind::kEither) one["other_house"] = clue.other_house + 1;
    clues.push_back(std::move(one));
  }
  return {{"houses", zebra.houses}, {"attributes", attributes}, {"clues", clues}};
}

}  // namespace longhaul::puzzles::zebra_puzzle
