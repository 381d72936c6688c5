#include "puzzles/star_placement_puzzle/star_placement_puzzle.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "puzzles/engine/answers/literal.h"
#include "puzzles/engine/given.h"
#include "puzzles/engine/grids/regions.h"

namespace longhaul::puzzles::star_placement_puzzle {
namespace {

constexpr int64_t kLargestSide = 12;
// with side 8 there are two placements only, and with smaller sides none
constexpr int64_t kLeastSideForTwo = 9;
constexpr Knob kKnobs[] = {{"side", 5, kLargestSide, 5, 12, "rows, columns and regions"},
                           {"stars", 1, 2, 1, 2, "stars of each row, column and region (2: from side 9)"}};

std::string solution_of(const CellSet& stars, const LetterGrid& letters) {
  std::map<char, std::vector<std::string>> places;
  stars.for_each([&](int64_t cell) {
    places[letters.cells[static_cast<size_t>(cell)]].push_back(
        fmt::format("({}, {})", cell / letters.columns + 1, cell % letters.columns + 1));
  });
  std::vector<std::string> regions;
  for (const auto& [letter, cells] : places)
    regions.push_back(fmt::format("\"{}\": [{}]", letter, fmt::join(cells, ", ")));
  return fmt::format("{{{}}}", fmt::join(regions, ", "));
}

std::optional<Puzzle> generate(const KnobValues& knobs, Draw& draw) {
  const int64_t side = knobs["side"], stars = knobs["stars"];
  if (stars > 1 && side < kLeastSideForTwo)
    throw Error({.code = ExitCode::kUsage,
                 .what = "so many stars do not fit into so small a grid",
                 .expected = fmt::format("side={} or more where stars is 2", kLeastSideForTwo),
                 .found = fmt::format("side={}", side)});
  const std::optional<CellSet> placed = random_stars(side, stars, draw);
  if (!placed) return std::nullopt;
  const Neighbours near(side, side);
  NumberGrid regions(side, side, kBlank);
  int64_t next = 0;
  placed->for_each([&](int64_t cell) { regions.cells[static_cast<size_t>(cell)] = next++; });
  grow_regions(regions, near, CellSet(), draw);
  if (stars == 2 && !pair_regions(regions, near, draw)) return std::nullopt;
  const auto search = [&](const NumberGrid& now, SearchBudget& budget,
                          const std::function<bool(const CellSet&)>& found) {
    solve({stars, LetterGrid(side, side, 'A'), now}, budget, found, *placed);
  };
  if (!narrow_regions(regions, *placed, near, search, draw)) return std::nullopt;
  const LetterGrid letters = region_letters(regions);
  return Puzzle{.given = {{"n", side}, {"k", stars}, {"region_grid", letters_json(letters)}},
                .solution = solution_of(*placed, letters)};
}

// Reads {"A": [(1, 2)], …} into the cells of the stars.
Verdict read_stars(const Board& board, std::string_view payload, CellSet& stars) {
  const std::optional<Literal> answer = read_literal(payload);
  if (!answer || answer->kind != Literal::Kind::kDictionary)
    return {VerdictCode::kUnreadable, "no dictionary from regions to lists of places"};
  const int64_t side = board.letters.rows;
  std::set<std::string> named;
  for (size_t i = 0; i < answer->items.size(); i += 2) {
    const std::string& name = answer->items[i].text;
    if (name.size() != 1 || std::ranges::count(board.letters.cells, name[0]) == 0 ||
        !named.insert(name).second)
      return {VerdictCode::kShape, "the regions of the answer are not those of the puzzle, each once"};
    if (!answer->items[i + 1].is_list())
      return {VerdictCode::kUnreadable, "region " + name + " has no list of places"};
    for (const Literal& item : answer->items[i + 1].items) {
      const auto place = read_pair(item);
      if (!place)
        return {VerdictCode::kUnreadable, "region " + name + " has something that is no place (row, column)"};
      const auto [row, column] = *place;
      if (!board.letters.holds(row - 1, column - 1))
        return {VerdictCode::kShape, fmt::format("({}, {}) is not in the grid", row, column)};
      const int64_t cell = (row - 1) * side + column - 1;
      if (stars.has(cell))
        return {VerdictCode::kRuleBroken, fmt::format("({}, {}) stands twice", row, column)};
      if (board.letters.at(row - 1, column - 1) != name[0])
        return {VerdictCode::kRuleBroken, fmt::format("({}, {}) is not in region {}", row, column, name)};
      stars.add(cell);
    }
  }
  return {};
}

Verdict verify(const nlohmann::json& given, std::string_view payload) {
  const Board board = read_given(given);
  CellSet stars;
  if (Verdict read = read_stars(board, payload, stars); !read.accepted()) return read;
  const int64_t side = board.letters.rows;
  const Neighbours near(side, side);
  for (const CellSet& region : cells_of_regions(board.regions)) {
    const char letter = board.letters.cells[static_cast<size_t>(region.first())];
    const int64_t count = (region & stars).count();
    if (count != board.stars)
      return {VerdictCode::kRuleBroken,
              fmt::format("region {} has {} of {} stars", letter, count, board.stars)};
  }
  for (int64_t i = 0; i < side; ++i) {
    int64_t row = 0, column = 0;
    for (int64_t j = 0; j < side; ++j)
      row += stars.has(i * side + j) ? 1 : 0, column += stars.has(j * side + i) ? 1 : 0;
    if (row != board.stars)
      return {VerdictCode::kRuleBroken, fmt::format("row {} has {} of {} stars", i + 1, row, board.stars)};
    if (column != board.stars)
      return {VerdictCode::kRuleBroken,
              fmt::format("column {} has {} of {} stars", i + 1, column, board.stars)};
  }
  for (const int64_t cell : stars.cells()) {
    if (near.around(cell).meets(stars))
      return {VerdictCode::kRuleBroken,
              fmt::format("a star stands beside ({}, {})", cell / side + 1, cell % side + 1)};
  }
  return {};
}

SolutionCount count_of_given(const nlohmann::json& given, int64_t limit, SearchBudget& budget) {
  const Board board = read_given(given);
  return count_with<CellSet>(limit, budget,
                             [&](SearchBudget& left, const auto& found) { solve(board, left, found); });
}

std::string canonical(const nlohmann::json& given) {
  const Board board = read_given(given);
  return fmt::format("{}:{}", board.stars, canonical_regions(board.regions));
}

}  // namespace

Board read_given(const nlohmann::json& given) {
  const auto number = [&](const char* key, int64_t most) {
    if (!given.is_object() || !given.contains(key) || !given[key].is_number_integer() ||
        given[key].get<int64_t>() < 1 || given[key].get<int64_t>() > most)
      refuse_given(kTask.key, fmt::format("\"{}\": 1 to {}", key, most), given);
    return given[key].get<int64_t>();
  };
  const int64_t side = number("n", kLargestSide), stars = number("k", 3);
  if (!given.contains("region_grid")) refuse_given(kTask.key, "an object with \"region_grid\"", given);
  const LetterGrid letters = letter_grid(given["region_grid"], "region_grid", kLargestSide, kRegionLetters);
  const NumberGrid regions = regions_of(letters);
  if (letters.rows != side || letters.columns != side || std::ranges::max(regions.cells) + 1 != side)
    refuse_given(kTask.key, "n rows, n columns and n regions", given);
  return {stars, letters, regions};
}

const TaskEntry kTask = {.key = "star_placement_puzzle",
                         .title = "Star placement",
                         .version = 2,
                         .knobs = kKnobs,
                         .generate = generate,
                         .prompt = prompt,
                         .verify = verify,
                         .count_solutions = count_of_given,
                         .canonical = canonical};

}  // namespace longhaul::puzzles::star_placement_puzzle
