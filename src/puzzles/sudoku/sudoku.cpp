#include "puzzles/sudoku/sudoku.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/error.h"
#include "puzzles/engine/bits.h"
#include "puzzles/engine/given.h"
#include "puzzles/engine/grids/filled.h"
#include "puzzles/sudoku/search.h"

namespace longhaul::puzzles::sudoku {
namespace {

constexpr Knob kKnobs[] = {{"side", 4, 9, 9, 9, "rows and columns: 4, 6 or 9"},
                           {"clues_percent", 25, 95, 74, 30, "percent of the cells that are given"}};

constexpr auto kLeastFirst = [](uint32_t digits) { return std::countr_zero(digits); };

// Of a board that had one solution: whether it has one still without the digit in `cell`, so that no other
// digit can stand there.
bool is_still_unique(const Search& without, size_t cell, int64_t digit) {
  if (without.is_plain(cell, digit)) return true;
  Search search = without;
  search.refuse(cell, digit);
  SearchBudget budget{.nodes = 20'000};
  bool other = false;
  search.run(budget, kLeastFirst, [&] { return other = true, false; });
  return !other && !budget.spent();
}

std::optional<Puzzle> generate(const KnobValues& knobs, Draw& draw) {
  const int64_t side = knobs["side"], cells = side * side;
  if (boxes_of(side).rows == 0)
    throw Error({.code = ExitCode::kUsage,
                 .what = "there is no sudoku of that side",
                 .expected = "side=4, 6 or 9",
                 .found = fmt::format("{}", side)});
  const NumberGrid full = random_full_grid(side, draw);
  NumberGrid board = full;
  std::vector<size_t> order(static_cast<size_t>(cells));
  std::iota(order.begin(), order.end(), size_t{0});
  draw.shuffle(order);
  int64_t clues = cells;
  const int64_t wanted = std::max<int64_t>(1, knobs["clues_percent"] * cells / 100);
  Search search(full);
  for (const size_t cell : order) {
    if (clues == wanted) break;
    Search without = search;
    without.remove(cell);
    if (!is_still_unique(without, cell, full.cells[cell])) continue;
    search = without;
    board.cells[cell] = kBlank;
    --clues;
  }
  if (clues > wanted) return std::nullopt;  // nothing more can be taken away in this order
  return Puzzle{.given = {{"original_sudoku", grid_json(board)}}, .solution = grid_payload(full)};
}

Verdict verify(const nlohmann::json& given, std::string_view payload) {
  const NumberGrid board = board_of(given);
  const FilledBoard answer = read_filled(board, payload);
  if (!answer.verdict.accepted()) return answer.verdict;
  const Boxes boxes = boxes_of(board.rows);
  std::array<std::array<uint32_t, kLargestSide>, 3> seen{};
  for (int64_t r = 0; r < board.rows; ++r) {
    for (int64_t c = 0; c < board.columns; ++c) {
      const int64_t digit = answer.grid.at(r, c);
      if (digit < 1 || digit > board.rows)
        return {VerdictCode::kRuleBroken, fmt::format("{} in row {}, column {} is no digit from 1 to {}",
                                                      digit, r + 1, c + 1, board.rows)};
      const int64_t box = r / boxes.rows * (board.columns / boxes.columns) + c / boxes.columns;
      const int64_t units[3] = {r, c, box};
      constexpr std::string_view kNames[3] = {"row", "column", "box"};
      for (size_t kind = 0; kind < 3; ++kind) {
        uint32_t& digits = seen[kind][static_cast<size_t>(units[kind])];
        if ((digits >> digit & 1) != 0)
          return {VerdictCode::kRuleBroken,
                  fmt::format("{} stands twice in {} {}", digit, kNames[kind], units[kind] + 1)};
        digits |= 1U << digit;
      }
    }
  }
  return {};
}

SolutionCount count_of_given(const nlohmann::json& given, int64_t limit, SearchBudget& budget) {
  return count_solutions(board_of(given), limit, budget);
}

// Turned, mirrored and with its digits renamed in the order in which they come, the board that reads
// smallest.
std::string canonical(const nlohmann::json& given) {
  const NumberGrid board = board_of(given);
  const Boxes boxes = boxes_of(board.rows);
  // a quarter turn would lay boxes that are no squares across
  return least_turned(board.rows, board.columns, boxes.rows == boxes.columns, [&] {
    return [&, names = std::array<char, kLargestSide + 1>{}, next = '1'](size_t cell) mutable {
      if (board.cells[cell] == kBlank) return '.';
      char& name = names[static_cast<size_t>(board.cells[cell])];
      if (name == 0) name = next++;
      return name;
    };
  });
}

}  // namespace

Boxes boxes_of(int64_t side) {
  switch (side) {
    case 4:
      return {2, 2};
    case 6:
      return {2, 3};
    case 9:
      return {3, 3};
    default:
      return {};
  }
}

NumberGrid board_of(const nlohmann::json& given) {
  if (!given.is_object() || !given.contains("original_sudoku"))
    refuse_given(kTask.key, "an object with \"original_sudoku\"", given);
  NumberGrid board = number_grid(given["original_sudoku"], "original_sudoku", kLargestSide);
  if (board.rows != board.columns || boxes_of(board.rows).rows == 0 ||
      std::ranges::any_of(board.cells, [&](int64_t cell) { return cell == 0 || cell > board.rows; }))
    throw Error({.code = ExitCode::kData,
                 .what = "unusable puzzle of sudoku",
                 .expected = "4, 6 or 9 rows and columns of digits from 1 to the side, or \"X\"",
                 .found = fmt::format("{} rows, {} columns", board.rows, board.columns),
                 .where = "original_sudoku"});
  return board;
}

SolutionCount count_solutions(const NumberGrid& board, int64_t limit, SearchBudget& budget) {
  SolutionCount count;
  Search(board).run(budget, kLeastFirst, [&] { return ++count.found < limit; });
  count.known = !budget.spent();
  return count;
}

NumberGrid random_full_grid(int64_t side, Draw& draw) {
  NumberGrid grid(side, side, kBlank);
  SearchBudget budget;
  Search search(grid);
  const auto any = [&](uint32_t digits) {
    for (uint64_t skipped = draw.below(static_cast<uint64_t>(bit_count(digits))); skipped > 0; --skipped)
      digits &= digits - 1;
    return std::countr_zero(digits);
  };
  search.run(budget, any, [&] {
    for (size_t cell = 0; cell < grid.cells.size(); ++cell) grid.cells[cell] = search.digit(cell);
    return false;
  });
  return grid;
}

const TaskEntry kTask = {.key = "sudoku",
                         .title = "Sudoku",
                         .version = 2,
                         .knobs = kKnobs,
                         .generate = generate,
                         .prompt = prompt,
                         .verify = verify,
                         .count_solutions = count_of_given,
                         .canonical = canonical};

}  // namespace longhaul::puzzles::sudoku
