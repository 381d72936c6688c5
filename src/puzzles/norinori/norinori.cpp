#include "puzzles/norinori/norinori.h"

#include <algorithm>

#include "puzzles/engine/answers/literal.h"
#include "puzzles/engine/given.h"
#include "puzzles/engine/grids/regions.h"

namespace longhaul::puzzles::norinori {
namespace {

constexpr int64_t kLargestSide = 12;
constexpr Knob kKnobs[] = {
    {"side", 4, kLargestSide, 4, 10, "rows and columns"},
    {"cells_per_region", 5, 30, 5, 5, "cells of a region, on an average"},
    {"marked_percent", 0, 30, 15, 0,
     "percent of the cells that belong to no region and are covered (an even number)"}};

// Cells of dominoes that do not touch at a side; none: so many found no place.
std::optional<CellSet> drawn_dominoes(int64_t count, const Neighbours& near, Draw& draw) {
  CellSet covered, open = near.all();
  for (int64_t laid = 0; laid < count; ++laid) {
    // The one of three that leaves the most room.
    std::vector<int64_t> ways = (open & near.beside_any(open)).cells();
    if (ways.empty()) return std::nullopt;
    int64_t one = 0, other = 0, fewest = kMostCells;
    for (int tried = 0; tried < 3; ++tried) {
      const int64_t cell = draw.pick(ways);
      std::vector<int64_t> partners = (near.beside(cell) & open).cells();
      const int64_t partner = draw.pick(partners),
                    lost = ((near.beside(cell) | near.beside(partner)) & open).count();
      if (lost < fewest) one = cell, other = partner, fewest = lost;
    }
    covered.add(one);
    covered.add(other);
    open = open.without(near.beside(one) | near.beside(other)).without(covered);
  }
  return covered;
}

std::string solution_of(const CellSet& covered, const Neighbours& near, int64_t side) {
  std::vector<std::string> dominoes;
  covered.for_each([&](int64_t cell) {
    const int64_t other = (near.beside(cell) & covered).first();
    if (other < cell) return;
    dominoes.push_back(fmt::format("[({}, {}), ({}, {})]", cell / side + 1, cell % side + 1, other / side + 1,
                                   other % side + 1));
  });
  return fmt::format("[{}]", fmt::join(dominoes, ", "));
}

std::optional<Puzzle> generate(const KnobValues& knobs, Draw& draw) {
  const int64_t side = knobs["side"];
  const int64_t count =
      std::min(side * side / knobs["cells_per_region"], static_cast<int64_t>(kRegionLetters.size()));
  const int64_t marked = side * side * knobs["marked_percent"] / 200 * 2;
  const Neighbours near(side, side);
  const std::optional<CellSet> covered = drawn_dominoes(count + marked / 2, near, draw);
  if (!covered) return std::nullopt;
  std::vector<int64_t> cells = covered->cells();
  draw.shuffle(cells);
  CellSet outside;
  NumberGrid regions(side, side, kBlank);
  int64_t next = 0;
  for (const int64_t cell : cells) {
    if (outside.count() < marked) {
      outside.add(cell);
    } else {
      regions.cells[static_cast<size_t>(cell)] = next++;
    }
  }
  if (!grow_regions(regions, near, outside, draw) || !pair_regions(regions, near, draw)) return std::nullopt;
  const auto search = [&](const NumberGrid& now, SearchBudget& budget,
                          const std::function<bool(const CellSet&)>& found) {
    solve(now, budget, found, *covered);
  };
  if (!narrow_regions(regions, *covered, near, search, draw)) return std::nullopt;
  return Puzzle{.given = {{"region_grid", letters_json(region_letters(regions))}},
                .solution = solution_of(*covered, near, side)};
}

struct ReadDominoes {
  Verdict verdict;
  std::vector<std::pair<int64_t, int64_t>> dominoes;  // places
};
ReadDominoes read_dominoes(const NumberGrid& regions, std::string_view payload) {
  const std::optional<Literal> answer = read_literal(payload);
  if (!answer || !answer->is_list()) return {{VerdictCode::kUnreadable, "no list of dominoes"}, {}};
  ReadDominoes read;
  for (const Literal& domino : answer->items) {
    if (!domino.is_list() || domino.items.size() != 2)
      return {{VerdictCode::kUnreadable, "a domino that is no list of two places"}, {}};
    int64_t places[2] = {};
    for (size_t half = 0; half < 2; ++half) {
      const auto place = read_pair(domino.items[half]);
      if (!place) return {{VerdictCode::kUnreadable, "a place that is not (row, column)"}, {}};
      if (!regions.holds(place->first - 1, place->second - 1))
        return {
            {VerdictCode::kShape, fmt::format("({}, {}) is not in the grid", place->first, place->second)},
            {}};
      places[half] = (place->first - 1) * regions.columns + place->second - 1;
    }
    read.dominoes.emplace_back(places[0], places[1]);
  }
  return read;
}

Verdict verify(const nlohmann::json& given, std::string_view payload) {
  const NumberGrid regions = read_given(given);
  const ReadDominoes read = read_dominoes(regions, payload);
  if (!read.verdict.accepted()) return read.verdict;
  const Neighbours near(regions.rows, regions.columns);
  const auto broken = [](std::string text) { return Verdict{VerdictCode::kRuleBroken, std::move(text)}; };
  const auto text_of = [&](int64_t cell) {
    return fmt::format("({}, {})", cell / regions.columns + 1, cell % regions.columns + 1);
  };
  CellSet covered;
  for (const auto& [one, other] : read.dominoes) {
    if (!near.beside(one).has(other))
      return broken(fmt::format("{} and {} share no side", text_of(one), text_of(other)));
    if (covered.has(one) || covered.has(other))
      return broken(fmt::format("{} is covered twice", text_of(covered.has(one) ? one : other)));
    covered.add(one);
    covered.add(other);
  }
  for (const int64_t cell : covered.cells()) {
    if ((near.beside(cell) & covered).count() != 1)
      return broken(fmt::format("two dominoes share a side at {}", text_of(cell)));
  }
  for (const CellSet& region : cells_of_regions(regions)) {
    const int64_t count = (region & covered).count();
    if (count != 2)
      return broken(
          fmt::format("the region of {} has {} covered cells, not 2", text_of(region.first()), count));
  }
  for (size_t cell = 0; cell < regions.cells.size(); ++cell) {
    const auto place = static_cast<int64_t>(cell);
    if (regions.cells[cell] == kBlank && !covered.has(place))
      return broken(fmt::format("{} is marked X and not covered", text_of(place)));
  }
  return {};
}

SolutionCount count_of_given(const nlohmann::json& given, int64_t limit, SearchBudget& budget) {
  const NumberGrid regions = read_given(given);
  return count_with<CellSet>(limit, budget,
                             [&](SearchBudget& left, const auto& found) { solve(regions, left, found); });
}

std::string canonical(const nlohmann::json& given) { return canonical_regions(read_given(given)); }

}  // namespace

NumberGrid read_given(const nlohmann::json& given) {
  if (!given.is_object() || !given.contains("region_grid"))
    refuse_given(kTask.key, "an object with \"region_grid\"", given);
  const LetterGrid letters =
      letter_grid(given["region_grid"], "region_grid", kLargestSide, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
  NumberGrid regions = regions_of(letters);
  if (std::ranges::max(regions.cells) == kBlank) refuse_given(kTask.key, "one region at least", given);
  return regions;
}

const TaskEntry kTask = {.key = "norinori",
                         .title = "Norinori",
                         .version = 2,
                         .knobs = kKnobs,
                         .generate = generate,
                         .prompt = prompt,
                         .verify = verify,
                         .count_solutions = count_of_given,
                         .canonical = canonical};

}  // namespace longhaul::puzzles::norinori
