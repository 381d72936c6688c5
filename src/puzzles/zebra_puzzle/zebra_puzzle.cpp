#include "puzzles/zebra_puzzle/zebra_puzzle.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>

#include "base/text/text.h"
#include "puzzles/engine/answers/answer.h"
#include "puzzles/engine/answers/literal.h"
#include "puzzles/engine/given.h"
#include "puzzles/engine/words/words.h"
#include "puzzles/zebra_puzzle/public.h"

namespace longhaul::puzzles::zebra_puzzle {
namespace {

constexpr Knob kKnobs[] = {
    {"houses", 2, kMostHouses, 2, 6, "houses, and values of each attribute"},
    {"attributes", 2, kMostAttributes, 2, 6, "attributes, the name included"},
    {"relational_percent", 0, 100, 0, 100, "how far clues that name a house come after the others"}};
constexpr int64_t kProofNodes = 20'000;

// True clues of each kind, as many of a kind as there are values, in random order; those that name a house
// tend to the end.
std::vector<Clue> drawn_clues(const Zebra& zebra, const Places& places, int64_t relational, Draw& draw) {
  std::vector<std::pair<uint64_t, Clue>> all;
  for (size_t kind = 0; kind < kClueKinds; ++kind) {
    for (size_t i = 0; i < places.size(); ++i) {
      Clue clue{.kind = static_cast<ClueKind>(kind), .a = draw.below(places.size())};
      clue.b = clue.a;
      const bool houses = is_about_houses(clue.kind);
      if (houses) {
        clue.house = draw.below(zebra.houses);
        clue.other_house = draw.below(zebra.houses);
        if (clue.kind == ClueKind::kEither && clue.house >= clue.other_house) continue;
        if (clue.kind == ClueKind::kEither && zebra.houses == 2) continue;  // it would say nothing
      } else {
        clue.b = draw.below(places.size());
        if (clue.a / zebra.houses == clue.b / zebra.houses && clue.kind <= ClueKind::kNotSame) continue;
        if (clue.a == clue.b) continue;
      }
      if (!holds(clue, places)) {
        // Another try, where chance alone would seldom give a true clue.
        if (clue.kind == ClueKind::kAt) clue.house = places[clue.a];
        if (clue.kind == ClueKind::kSame)
          clue.b = static_cast<size_t>(
              std::ranges::find(places.begin() + static_cast<int64_t>(clue.b / zebra.houses * zebra.houses),
                                places.end(), places[clue.a]) -
              places.begin());
        if (!holds(clue, places)) continue;
      }
      all.emplace_back(draw.below(100) + (houses ? static_cast<uint64_t>(relational) : 0), clue);
    }
  }
  std::ranges::stable_sort(all, {}, &std::pair<uint64_t, Clue>::first);
  std::vector<Clue> clues;
  for (const auto& [key, clue] : all) {
    const auto same = [&clue = clue](const Clue& other) {
      return other.kind == clue.kind && other.a == clue.a && other.b == clue.b && other.house == clue.house &&
             other.other_house == clue.other_house;
    };
    if (std::ranges::none_of(clues, same)) clues.push_back(clue);
  }
  return clues;
}

bool has_one_solution(const Zebra& zebra) {
  SearchBudget budget{.nodes = kProofNodes};
  return count_solutions(zebra, 2, budget).unique();
}

// The shortest beginning of the clues that leaves one solution, without those that are not needed.
bool choose_clues(Zebra& zebra, const std::vector<Clue>& all, Draw& draw) {
  zebra.clues = all;
  if (!has_one_solution(zebra)) return false;
  size_t too_few = 0, enough = all.size();
  while (too_few + 1 < enough) {
    const size_t middle = (too_few + enough) / 2;
    zebra.clues.assign(all.begin(), all.begin() + static_cast<int64_t>(middle));
    (has_one_solution(zebra) ? enough : too_few) = middle;
  }
  zebra.clues.assign(all.begin(), all.begin() + static_cast<int64_t>(enough));
  draw.shuffle(zebra.clues);
  for (size_t i = zebra.clues.size(); i-- > 0;) {
    const Clue clue = zebra.clues[i];
    zebra.clues.erase(zebra.clues.begin() + static_cast<int64_t>(i));
    if (!has_one_solution(zebra)) zebra.clues.insert(zebra.clues.begin() + static_cast<int64_t>(i), clue);
  }
  return true;
}

std::vector<std::string> drawn_values(std::span<const Word> words, size_t count, Draw& draw) {
  std::vector<size_t> order(words.size());
  std::iota(order.begin(), order.end(), size_t{0});
  draw.shuffle(order);
  std::vector<std::string> values;
  for (size_t i = 0; i < count; ++i) values.emplace_back(words[order[i]].english);
  std::ranges::sort(values);  // the order of a list tells nothing of the table
  return values;
}

std::optional<Puzzle> generate(const KnobValues& knobs, Draw& draw) {
  Zebra zebra{.houses = static_cast<size_t>(knobs["houses"])};
  std::vector<Attribute> others;
  for (const Category& category : categories())
    others.push_back({std::string(category.name.english), drawn_values(category.things, zebra.houses, draw)});
  others.push_back({"colour", drawn_values(colours(), zebra.houses, draw)});
  std::erase_if(others, [](const Attribute& attribute) {
    return attribute_in(attribute.name, Language::kEnglish).empty();
  });
  draw.shuffle(others);
  zebra.attributes = {{"name", drawn_values(names(), zebra.houses, draw)}};
  for (size_t i = 0; i + 1 < static_cast<size_t>(knobs["attributes"]); ++i)
    zebra.attributes.push_back(others[i]);
  Places places;
  for (size_t i = 0; i < zebra.attributes.size(); ++i) {
    std::vector<size_t> houses(zebra.houses);
    std::iota(houses.begin(), houses.end(), size_t{0});
    draw.shuffle(houses);
    places.insert(places.end(), houses.begin(), houses.end());
  }
  if (!choose_clues(zebra, drawn_clues(zebra, places, knobs["relational_percent"], draw), draw))
    return std::nullopt;
  return Puzzle{.given = given_of(zebra), .solution = table_of(zebra, places, Language::kEnglish)};
}

// Names and values count in either language, and without regard to case.
std::string plain_name(const std::string& cell) {
  if (const auto word = english_word(cell)) return std::string(*word);
  std::string lower(trimmed(cell));
  for (char& c : lower) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  for (const std::string_view name :
       {"house", "name", "colour", "fruit", "animal", "vehicle", "book", "furniture"}) {
    if (lower == name || cell == attribute_in(name, Language::kChinese)) return std::string(name);
  }
  return lower;
}

Verdict verify_public(const nlohmann::json& given, const Table& answer) {
  const Table right = solution_of_public(given);
  if (answer.header.size() != right.header.size() || answer.rows.size() != right.rows.size())
    return {VerdictCode::kShape,
            fmt::format("not {} rows of {} cells", right.rows.size(), right.header.size())};
  for (size_t c = 0; c < right.header.size(); ++c) {
    const auto column = std::ranges::find(answer.header, right.header[c]);
    if (column == answer.header.end())
      return {VerdictCode::kShape, fmt::format("no column \"{}\"", right.header[c])};
    for (size_t r = 0; r < right.rows.size(); ++r) {
      const std::string& cell = answer.rows[r][static_cast<size_t>(column - answer.header.begin())];
      if (cell != right.rows[r][c])
        return {VerdictCode::kRuleBroken, fmt::format("row {}, \"{}\" is another", r + 1, right.header[c])};
    }
  }
  return {};
}

// The house of each value of an answer, or what is wrong with it.
std::optional<Verdict> read_places(const Zebra& zebra, const Table& answer, Places& places) {
  if (answer.header.size() != zebra.attributes.size() + 1 || answer.rows.size() != zebra.houses)
    return Verdict{VerdictCode::kShape,
                   fmt::format("not {} rows of {} cells", zebra.houses, zebra.attributes.size() + 1)};
  std::vector<std::string> columns;
  for (const std::string& name : answer.header) columns.push_back(plain_name(name));
  const auto column_of = [&](const std::string& name) {
    return static_cast<size_t>(std::ranges::find(columns, name) - columns.begin());
  };
  const size_t house_column = column_of("house");
  if (house_column == columns.size()) return Verdict{VerdictCode::kShape, "no column \"House\""};
  places.assign(zebra.attributes.size() * zebra.houses, zebra.houses);
  for (size_t attribute = 0; attribute < zebra.attributes.size(); ++attribute) {
    const auto& [name, values] = zebra.attributes[attribute];
    const size_t column = column_of(name);
    if (column == columns.size()) return Verdict{VerdictCode::kShape, fmt::format("no column \"{}\"", name)};
    for (const std::vector<std::string>& row : answer.rows) {
      const std::optional<int64_t> house = read_integer(row[house_column]);
      const auto value = std::ranges::find(values, plain_name(row[column]));
      if (!house || *house < 1 || *house > static_cast<int64_t>(zebra.houses))
        return Verdict{VerdictCode::kRuleBroken, fmt::format("there is no house '{}'", row[house_column])};
      if (value == values.end())
        return Verdict{VerdictCode::kRuleBroken, fmt::format("'{}' is no value of {}", row[column], name)};
      places[attribute * zebra.houses + static_cast<size_t>(value - values.begin())] =
          static_cast<size_t>(*house) - 1;
    }
  }
  for (size_t first = 0; first < places.size(); first += zebra.houses) {
    std::set<size_t> houses(places.begin() + static_cast<int64_t>(first),
                            places.begin() + static_cast<int64_t>(first + zebra.houses));
    if (houses.size() != zebra.houses || houses.contains(zebra.houses))
      return Verdict{VerdictCode::kRuleBroken, fmt::format("not every {} stands in one house",
                                                           zebra.attributes[first / zebra.houses].name)};
  }
  return std::nullopt;
}

Verdict verify(const nlohmann::json& given, std::string_view payload) {
  const bool from_public = is_of_public_file(given);
  const Zebra zebra = from_public ? Zebra{} : read_given(given);
  const std::optional<Table> answer = read_table(payload);
  if (from_public) {
    solution_of_public(given);
    return answer ? verify_public(given, *answer)
                  : Verdict{VerdictCode::kUnreadable, "no table with header and rows"};
  }
  if (!answer) return {VerdictCode::kUnreadable, "no table with header and rows of one length"};
  Places places;
  if (std::optional<Verdict> wrong = read_places(zebra, *answer, places)) return *wrong;
  for (size_t i = 0; i < zebra.clues.size(); ++i) {
    if (!holds(zebra.clues[i], places))
      return {VerdictCode::kRuleBroken, fmt::format("clue {} does not hold", i + 1)};
  }
  return {};
}

SolutionCount count_of_given(const nlohmann::json& given, int64_t limit, SearchBudget& budget) {
  if (is_of_public_file(given)) return {.found = 0, .known = false};  // its clues are a text
  return count_solutions(read_given(given), limit, budget);
}

// Clues and the values of lists may come in any order; which words are used counts.
std::string canonical(const nlohmann::json& given) {
  if (is_of_public_file(given)) return given.dump();
  nlohmann::json form = given_of(read_given(given));
  for (nlohmann::json& attribute : form["attributes"])
    std::sort(attribute["values"].begin(), attribute["values"].end());
  std::sort(form["attributes"].begin(), form["attributes"].end());
  std::sort(form["clues"].begin(), form["clues"].end());
  return form.dump();
}

Puzzle in_language(Puzzle puzzle, Language language) {
  if (is_of_public_file(puzzle.given)) return puzzle;
  const Zebra zebra = read_given(puzzle.given);
  Places places;
  if (!read_places(zebra, read_table(puzzle.solution).value(), places))
    puzzle.solution = table_of(zebra, places, language);
  return puzzle;
}

}  // namespace

std::string table_of(const Zebra& zebra, const Places& places, Language language) {
  nlohmann::ordered_json header = {language == Language::kChinese ? attribute_in("house", language)
                                                                  : "House"};
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Attribute& attribute : zebra.attributes)
    header.push_back(attribute_in(attribute.name, language));
  for (size_t house = 0; house < zebra.houses; ++house) {
    nlohmann::ordered_json& row =
        rows.emplace_back(nlohmann::ordered_json::array({std::to_string(house + 1)}));
    for (size_t value = 0; value < places.size(); ++value) {
      if (places[value] == house)
        row.push_back(puzzles::in_language(
            zebra.attributes[value / zebra.houses].values[value % zebra.houses], language));
    }
  }
  return nlohmann::ordered_json{{"header", header}, {"rows", rows}}.dump();
}

const TaskEntry kTask = {.key = "zebra_puzzle",
                         .title = "Zebra puzzle: who lives where",
                         .version = 2,
                         .knobs = kKnobs,
                         .generate = generate,
                         .prompt = prompt,
                         .verify = verify,
                         .count_solutions = count_of_given,
                         .canonical = canonical,
                         .in_language = in_language,
                         .from_reference = from_reference,
                         .read_public_file = read_public_file};

}  // namespace longhaul::puzzles::zebra_puzzle
