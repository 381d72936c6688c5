#include "puzzles/campsite/campsite.h"

#include <algorithm>

#include "puzzles/engine/given.h"

namespace longhaul::puzzles::campsite {
namespace {

constexpr int64_t kLargestSide = 12;
constexpr Knob kKnobs[] = {{"rows", 3, kLargestSide, 5, kLargestSide, "rows"},
                           {"columns", 3, kLargestSide, 5, kLargestSide, "columns"},
                           {"trees_percent", 5, 22, 16, 20, "percent of the cells that hold trees"}};

struct Drawn {
  CellSet trees, tents;
};
// Tents in cells that do not touch, each with a tree in a free cell beside it. None: so many found no place.
std::optional<Drawn> drawn_camp(int64_t count, const Neighbours& near, Draw& draw) {
  Drawn camp;
  std::vector<int64_t> order = near.all().cells();
  draw.shuffle(order);
  for (const int64_t cell : order) {
    if (camp.tents.count() == count) break;
    if (camp.trees.has(cell) || near.around(cell).meets(camp.tents)) continue;
    std::vector<int64_t> free = near.beside(cell).without(camp.trees).without(camp.tents).cells();
    if (free.empty()) continue;
    camp.tents.add(cell);
    camp.trees.add(draw.pick(free));
  }
  if (camp.tents.count() < count) return std::nullopt;
  return camp;
}

LetterGrid grid_of(int64_t rows, int64_t columns, const CellSet& trees, const CellSet& tents) {
  LetterGrid grid(rows, columns, 'X');
  trees.for_each([&](int64_t cell) { grid.cells[static_cast<size_t>(cell)] = 'T'; });
  tents.for_each([&](int64_t cell) { grid.cells[static_cast<size_t>(cell)] = 'C'; });
  return grid;
}

CellSet cells_with(const LetterGrid& grid, char letter) {
  CellSet cells;
  for (size_t cell = 0; cell < grid.cells.size(); ++cell) {
    if (grid.cells[cell] == letter) cells.add(static_cast<int64_t>(cell));
  }
  return cells;
}

struct Counts {
  std::vector<int64_t> rows, columns;
};
Counts tents_of(const LetterGrid& grid) {
  Counts counts{std::vector<int64_t>(static_cast<size_t>(grid.rows)),
                std::vector<int64_t>(static_cast<size_t>(grid.columns))};
  for (int64_t r = 0; r < grid.rows; ++r) {
    for (int64_t c = 0; c < grid.columns; ++c) {
      if (grid.at(r, c) == 'C')
        ++counts.rows[static_cast<size_t>(r)], ++counts.columns[static_cast<size_t>(c)];
    }
  }
  return counts;
}

std::optional<Puzzle> generate(const KnobValues& knobs, Draw& draw) {
  const int64_t rows = knobs["rows"], columns = knobs["columns"];
  const int64_t count = std::max<int64_t>(1, rows * columns * knobs["trees_percent"] / 100);
  const std::optional<Drawn> camp = drawn_camp(count, Neighbours(rows, columns), draw);
  if (!camp) return std::nullopt;
  const LetterGrid full = grid_of(rows, columns, camp->trees, camp->tents);
  const Counts counts = tents_of(full);
  const Board board{grid_of(rows, columns, camp->trees, {}), counts.rows, counts.columns};
  SearchBudget budget{.nodes = 20'000};
  if (!count_with<CellSet>(2, budget, [&](SearchBudget& left, const auto& found) {
         solve(board, left, found);
       }).unique())
    return std::nullopt;
  return Puzzle{.given = {{"grid", letters_json(board.grid)},
                          {"row_constraints", board.rows},
                          {"col_constraints", board.columns},
                          {"n", rows},
                          {"m", columns}},
                .solution = letters_payload(full)};
}

Verdict verify(const nlohmann::json& given, std::string_view payload) {
  const Board board = read_given(given);
  const std::optional<LetterGrid> answer = answered_letters(payload, "TCX");
  if (!answer) return {VerdictCode::kUnreadable, "no grid of T, C and X in rows of one length"};
  if (answer->rows != board.grid.rows || answer->columns != board.grid.columns)
    return {VerdictCode::kShape,
            fmt::format("{} rows of {} cells, where the puzzle has {} of {}", answer->rows, answer->columns,
                        board.grid.rows, board.grid.columns)};
  const CellSet trees = board.trees(), tents = cells_with(*answer, 'C');
  if (cells_with(*answer, 'T') != trees)
    return {VerdictCode::kGivenChanged, "the trees do not stand where they are given"};
  const Counts counts = tents_of(*answer);
  for (size_t r = 0; r < board.rows.size(); ++r) {
    if (counts.rows[r] != board.rows[r])
      return {VerdictCode::kRuleBroken,
              fmt::format("row {} has {} tents, not {}", r + 1, counts.rows[r], board.rows[r])};
  }
  for (size_t c = 0; c < board.columns.size(); ++c) {
    if (counts.columns[c] != board.columns[c])
      return {VerdictCode::kRuleBroken,
              fmt::format("column {} has {} tents, not {}", c + 1, counts.columns[c], board.columns[c])};
  }
  const Neighbours near(board.grid.rows, board.grid.columns);
  for (const int64_t cell : tents.cells()) {
    if (near.around(cell).meets(tents))
      return {VerdictCode::kRuleBroken,
              fmt::format("two tents touch at row {}, column {}", cell / board.grid.columns + 1,
                          cell % board.grid.columns + 1)};
  }
  if (!are_paired(trees, tents, near)) return {VerdictCode::kRuleBroken, "trees and tents cannot be paired"};
  return {};
}

SolutionCount count_of_given(const nlohmann::json& given, int64_t limit, SearchBudget& budget) {
  const Board board = read_given(given);
  return count_with<CellSet>(limit, budget,
                             [&](SearchBudget& left, const auto& found) { solve(board, left, found); });
}

// The trees with the counts around them as a frame, turned and mirrored.
std::string canonical(const nlohmann::json& given) {
  const Board board = read_given(given);
  NumberGrid whole(board.grid.rows + 2, board.grid.columns + 2, 0);
  for (int64_t r = 0; r < board.grid.rows; ++r) {
    whole.at(r + 1, 0) = whole.at(r + 1, whole.columns - 1) = board.rows[static_cast<size_t>(r)];
    for (int64_t c = 0; c < board.grid.columns; ++c) {
      whole.at(0, c + 1) = whole.at(whole.rows - 1, c + 1) = board.columns[static_cast<size_t>(c)];
      whole.at(r + 1, c + 1) = board.grid.at(r, c) == 'T' ? 1 : 0;
    }
  }
  return canonical_grid(whole);
}

std::vector<int64_t> counts_at(const nlohmann::json& given, const char* key, int64_t size) {
  if (!given.contains(key) || !given[key].is_array() || static_cast<int64_t>(given[key].size()) != size ||
      !std::ranges::all_of(given[key], [](const nlohmann::json& each) {
        return each.is_number_integer() && each.get<int64_t>() >= 0 && each.get<int64_t>() <= kLargestSide;
      }))
    refuse_given(kTask.key, fmt::format("\"{}\": {} numbers of tents", key, size), given);
  return given[key].get<std::vector<int64_t>>();
}

}  // namespace

CellSet Board::trees() const { return cells_with(grid, 'T'); }

Board read_given(const nlohmann::json& given) {
  if (!given.is_object() || !given.contains("grid") || !given.contains("row_constraints"))
    refuse_given(kTask.key, "\"grid\", \"row_constraints\" and \"col_constraints\"", given);
  Board board{letter_grid(given["grid"], "grid", kLargestSide, "TX"), {}, {}};
  board.rows = counts_at(given, "row_constraints", board.grid.rows);
  board.columns = counts_at(given, "col_constraints", board.grid.columns);
  return board;
}

const TaskEntry kTask = {.key = "campsite",
                         .title = "Campsite (tents and trees)",
                         .version = 2,
                         .knobs = kKnobs,
                         .generate = generate,
                         .prompt = prompt,
                         .verify = verify,
                         .count_solutions = count_of_given,
                         .canonical = canonical};

}  // namespace longhaul::puzzles::campsite
