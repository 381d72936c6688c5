#include "puzzles/number_wall/number_wall.h"

#include <algorithm>

#include "puzzles/engine/answers/literal.h"
#include "puzzles/engine/given.h"

namespace longhaul::puzzles::number_wall {
namespace {

constexpr int64_t kLargestSide = 12;
constexpr Knob kKnobs[] = {{"side", 4, kLargestSide, 5, 9, "rows and columns"},
                           {"largest_island", 2, 12, 3, 7, "cells of an island at most"},
                           {"islands_percent", 5, 30, 14, 10,
                            "islands that are drawn first, in percent of the cells; more close gaps"}};

std::vector<CellSet> islands_of(const CellSet& land, const Neighbours& near) {
  std::vector<CellSet> islands;
  for (CellSet left = land; !left.empty(); left = left.without(islands.back()))
    islands.push_back(near.connected(left.first(), left));
  return islands;
}

// Whether the cell may become land: it touches nothing, or a side of everything that it touches, which
// becomes one island.
bool may_be_land(int64_t cell, const CellSet& land, int64_t largest, const Neighbours& near) {
  CellSet island;
  (near.beside(cell) & land).for_each([&](int64_t beside) { island |= near.connected(beside, land); });
  return !land.has(cell) && (near.around(cell) & land).inside(island) && island.count() < largest;
}

// Islands of drawn sizes that grow from random cells, then single cells into each square of four walls. None:
// a square stays.
std::optional<CellSet> drawn_land(const KnobValues& knobs, const Neighbours& near, Draw& draw) {
  const int64_t side = knobs["side"], largest = knobs["largest_island"];
  CellSet land;
  std::vector<int64_t> order = near.all().cells();
  draw.shuffle(order);
  for (int64_t i = 0; i < side * side * knobs["islands_percent"] / 100; ++i) {
    const int64_t first = order[static_cast<size_t>(i)], size = draw.between(1, largest);
    if (near.around(first).meets(land) || land.has(first)) continue;
    CellSet island;
    island.add(first);
    while (island.count() < size) {
      std::vector<int64_t> ways = near.beside_any(island).without(island).cells();
      std::erase_if(ways, [&](int64_t cell) { return near.around(cell).meets(land); });
      if (ways.empty()) break;
      island.add(draw.pick(ways));
    }
    land |= island;
  }
  std::vector<int64_t> corners;  // upper left cells of squares
  for (int64_t cell = 0; cell < side * side; ++cell) {
    if (cell % side + 1 < side && cell / side + 1 < side) corners.push_back(cell);
  }
  draw.shuffle(corners);
  for (const int64_t corner : corners) {
    std::vector<int64_t> square = {corner, corner + 1, corner + side, corner + side + 1};
    if (std::ranges::any_of(square, [&](int64_t cell) { return land.has(cell); })) continue;
    draw.shuffle(square);
    const auto cell =
        std::ranges::find_if(square, [&](int64_t each) { return may_be_land(each, land, largest, near); });
    if (cell == square.end()) return std::nullopt;
    land.add(*cell);
  }
  return land;
}

std::string solution_of(const NumberGrid& board, const CellSet& land) {
  std::string text = "[";
  for (int64_t cell = 0; cell < board.rows * board.columns; ++cell) {
    const int64_t number = board.cells[static_cast<size_t>(cell)], column = cell % board.columns;
    if (column == 0) text += cell == 0 ? "[" : ", [";
    text += column == 0 ? "" : ", ";
    text += number != kBlank ? std::to_string(number) : land.has(cell) ? "\"X\"" : "\"A\"";
    if (column + 1 == board.columns) text += "]";
  }
  return text + "]";
}

std::optional<Puzzle> generate(const KnobValues& knobs, Draw& draw) {
  constexpr int kMostChanges = 40;  // of the places of numbers, before other islands are drawn
  const int64_t side = knobs["side"];
  const Neighbours near(side, side);
  const std::optional<CellSet> land = drawn_land(knobs, near, draw);
  if (!land) return std::nullopt;
  NumberGrid board(side, side, kBlank);
  const std::vector<CellSet> islands = islands_of(*land, near);
  const auto put_number = [&](const CellSet& island, const CellSet& places) {
    island.for_each([&](int64_t cell) { board.cells[static_cast<size_t>(cell)] = kBlank; });
    std::vector<int64_t> ways = places.cells();
    board.cells[static_cast<size_t>(draw.pick(ways))] = island.count();
  };
  for (const CellSet& island : islands) put_number(island, island);
  for (int change = 0; change < kMostChanges; ++change) {
    SearchBudget budget{.nodes = 3'000};
    const auto other =
        other_than(*land, budget, [&](SearchBudget& left, const auto& found) { solve(board, left, found); });
    if (other.unique())
      return Puzzle{.given = {{"grid", grid_json(board)}, {"n", side}},
                    .solution = solution_of(board, *land)};
    if (!other.known) return std::nullopt;
    // A number moves onto a cell that is a wall in the other solution.
    std::vector<CellSet> differ = islands;
    std::erase_if(differ, [&](const CellSet& island) { return island.inside(*other.solution); });
    const CellSet& island = draw.pick(differ);
    put_number(island, island.without(*other.solution));
  }
  return std::nullopt;
}

// The islands of an answer, or what is wrong with its cells.
Verdict read_land(const NumberGrid& board, std::string_view payload, CellSet& land) {
  const auto rows = read_grid(payload);
  if (!rows) return {VerdictCode::kUnreadable, "no list of rows"};
  if (static_cast<int64_t>(rows->size()) != board.rows)
    return {VerdictCode::kShape, fmt::format("{} rows, where the puzzle has {}", rows->size(), board.rows)};
  for (int64_t r = 0; r < board.rows; ++r) {
    const std::vector<std::string_view>& row = (*rows)[static_cast<size_t>(r)];
    if (static_cast<int64_t>(row.size()) != board.columns)
      return {VerdictCode::kShape,
              fmt::format("{} cells in row {}, where the puzzle has {}", row.size(), r + 1, board.columns)};
    for (int64_t c = 0; c < board.columns; ++c) {
      const std::string_view cell = row[static_cast<size_t>(c)];
      if (board.at(r, c) != kBlank && read_integer(cell) != board.at(r, c))
        return {VerdictCode::kGivenChanged,
                fmt::format("row {}, column {} is given as {}", r + 1, c + 1, board.at(r, c))};
      if (board.at(r, c) == kBlank && cell != "X" && cell != "A")
        return {VerdictCode::kRuleBroken, fmt::format("row {}, column {} is neither A nor X", r + 1, c + 1)};
      if (cell != "A") land.add(r * board.columns + c);
    }
  }
  return {};
}

Verdict verify(const nlohmann::json& given, std::string_view payload) {
  const NumberGrid board = read_given(given);
  CellSet land;
  if (Verdict read = read_land(board, payload, land); !read.accepted()) return read;
  const Neighbours near(board.rows, board.columns);
  const auto broken = [&](int64_t cell, std::string_view text) {
    return Verdict{VerdictCode::kRuleBroken, fmt::format("{} at row {}, column {}", text,
                                                         cell / board.columns + 1, cell % board.columns + 1)};
  };
  for (const CellSet& island : islands_of(land, near)) {
    int64_t numbers = 0, size = 0;
    island.for_each([&](int64_t cell) {
      if (board.cells[static_cast<size_t>(cell)] != kBlank)
        ++numbers, size = board.cells[static_cast<size_t>(cell)];
    });
    if (numbers != 1) return broken(island.first(), fmt::format("{} numbers are in the island", numbers));
    if (size != island.count())
      return broken(island.first(), fmt::format("{} cells, not {}, are in the island", island.count(), size));
    // Land that touches the island only at a corner, over two walls.
    if (const CellSet corner = (near.around_any(island) & land).without(island); !corner.empty())
      return broken(corner.first(), "two islands touch at a corner");
  }
  for (int64_t r = 0; r + 1 < board.rows; ++r) {
    for (int64_t c = 0; c + 1 < board.columns; ++c) {
      const int64_t cell = r * board.columns + c;
      if (!land.has(cell) && !land.has(cell + 1) && !land.has(cell + board.columns) &&
          !land.has(cell + board.columns + 1))
        return broken(cell, "four walls form a square");
    }
  }
  return {};
}

SolutionCount count_of_given(const nlohmann::json& given, int64_t limit, SearchBudget& budget) {
  const NumberGrid board = read_given(given);
  return count_with<CellSet>(limit, budget,
                             [&](SearchBudget& left, const auto& found) { solve(board, left, found); });
}

std::string canonical(const nlohmann::json& given) { return canonical_grid(read_given(given)); }

}  // namespace

NumberGrid read_given(const nlohmann::json& given) {
  if (!given.is_object() || !given.contains("grid") || !given.contains("n"))
    refuse_given(kTask.key, "an object with \"grid\" and \"n\"", given);
  NumberGrid board = number_grid(given["grid"], "grid", kLargestSide);
  if (given["n"] != board.rows || std::ranges::any_of(board.cells, [](int64_t cell) { return cell == 0; }))
    refuse_given(kTask.key, "n rows, and numbers from 1", given);
  return board;
}

const TaskEntry kTask = {.key = "number_wall",
                         .title = "Number wall",
                         .version = 2,
                         .knobs = kKnobs,
                         .generate = generate,
                         .prompt = prompt,
                         .verify = verify,
                         .count_solutions = count_of_given,
                         .canonical = canonical};

}  // namespace longhaul::puzzles::number_wall
