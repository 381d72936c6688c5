#include "puzzles/sudoku/sudoku.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/error.h"
#include "puzzles/engine/bits.h"
#include "puzzles/engine/given.h"
#include "puzzles/engine/grids/filled.h"

namespace longhaul::puzzles::sudoku {
namespace {

constexpr int64_t kLargestSide = 9;
constexpr Knob kKnobs[] = {{"side", 4, 9, 9, 9, "rows and columns: 4, 6 or 9"},
                           {"clues_percent", 25, 95, 74, 30, "percent of the cells that are given"}};

// A grid that is being filled: which digits each row, column and box has already.
class Search {
 public:
  explicit Search(const NumberGrid& board) : side_(board.rows), cells_(board.cells) {
    const Boxes boxes = boxes_of(side_);
    for (size_t cell = 0; cell < cells_.size(); ++cell) {
      const auto row = static_cast<int64_t>(cell) / side_, column = static_cast<int64_t>(cell) % side_;
      const int64_t box = row / boxes.rows * (side_ / boxes.columns) + column / boxes.columns;
      places_[cell] = {static_cast<uint8_t>(row), static_cast<uint8_t>(column), static_cast<uint8_t>(box)};
    }
    for (size_t cell = 0; cell < cells_.size(); ++cell) {
      if (cells_[cell] != kBlank) consistent_ &= put(cell, static_cast<int>(cells_[cell]));
    }
  }

  // Solutions have another digit in `cell`, which must be open.
  void refuse(size_t cell, int64_t digit) {
    refused_cell_ = cell;
    refused_digit_ = 1U << digit;
  }

  // Calls `found` for each solution until it returns false. `order()` gives the digits in the order in which
  // the next open cell tries them.
  template <class Order, class Found>
  bool run(SearchBudget& budget, const Order& order, const Found& found) {
    if (!consistent_) return true;
    return step(budget, order, found);
  }
  const std::vector<int64_t>& cells() const { return cells_; }

 private:
  struct Place {
    uint8_t row = 0, column = 0, box = 0;
  };
  bool put(size_t cell, int digit) {
    const uint32_t bit = 1U << digit;
    uint32_t &row = rows_[places_[cell].row], &column = columns_[places_[cell].column],
             &box = used_[places_[cell].box];
    if (((row | column | box) & bit) != 0) return false;
    row |= bit, column |= bit, box |= bit;
    return true;
  }
  void take(size_t cell, int digit) {
    const uint32_t bit = 1U << digit;
    rows_[places_[cell].row] ^= bit;
    columns_[places_[cell].column] ^= bit;
    used_[places_[cell].box] ^= bit;
  }
  uint32_t free_digits(size_t cell) const {
    const uint32_t all = ((1U << side_) - 1) << 1, refused = cell == refused_cell_ ? refused_digit_ : 0;
    return all &
           ~(rows_[places_[cell].row] | columns_[places_[cell].column] | used_[places_[cell].box] | refused);
  }

  template <class Order, class Found>
  bool step(SearchBudget& budget, const Order& order, const Found& found) {
    if (!budget.spend()) return false;
    size_t best = cells_.size();
    int fewest = 100;
    for (size_t cell = 0; cell < cells_.size() && fewest > 1; ++cell) {
      if (cells_[cell] != kBlank) continue;
      const int free = bit_count(free_digits(cell));
      if (free < fewest) best = cell, fewest = free;
    }
    if (best == cells_.size()) return found();
    const uint32_t free = free_digits(best);
    for (const int digit : order()) {
      if ((free >> digit & 1) == 0) continue;
      put(best, digit);
      cells_[best] = digit;
      const bool go_on = step(budget, order, found);
      take(best, digit);
      cells_[best] = kBlank;
      if (!go_on) return false;
    }
    return true;
  }

  int64_t side_;
  std::vector<int64_t> cells_;
  std::array<Place, kLargestSide * kLargestSide> places_{};
  size_t refused_cell_ = kLargestSide * kLargestSide;
  uint32_t refused_digit_ = 0;
  std::array<uint32_t, kLargestSide> rows_{}, columns_{}, used_{};
  bool consistent_ = true;
};

std::vector<int> digits_of(int64_t side) {
  std::vector<int> digits(static_cast<size_t>(side));
  std::iota(digits.begin(), digits.end(), 1);
  return digits;
}

// Of a board that had one solution: whether it has one still without the digit in `cell`, so that no other
// digit can stand there.
bool is_still_unique(NumberGrid board, size_t cell, const std::vector<int>& digits) {
  const int64_t digit = board.cells[cell];
  board.cells[cell] = kBlank;
  Search search(board);
  search.refuse(cell, digit);
  SearchBudget budget{.nodes = 20'000};
  bool other = false;
  search.run(
      budget, [&]() -> const std::vector<int>& { return digits; }, [&] { return other = true, false; });
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
  const std::vector<int> digits = digits_of(side);
  for (const size_t cell : order) {
    if (clues == wanted) break;
    if (!is_still_unique(board, cell, digits)) continue;
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
  std::string least;
  const std::vector<NumberGrid> all = turned(board);
  for (size_t i = 0; i < all.size(); ++i) {
    if (boxes.rows != boxes.columns && i / 2 % 2 == 1) continue;  // a quarter turn would lay its boxes across
    std::array<char, kLargestSide + 1> name{};
    char next = '1';
    std::string text;
    for (const int64_t cell : all[i].cells) {
      if (cell == kBlank) {
        text += '.';
        continue;
      }
      char& known = name[static_cast<size_t>(cell)];
      if (known == 0) known = next++;
      text += known;
    }
    if (least.empty() || text < least) least = text;
  }
  return least;
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
  Search search(board);
  const std::vector<int> digits = digits_of(board.rows);
  search.run(
      budget, [&]() -> const std::vector<int>& { return digits; }, [&] { return ++count.found < limit; });
  count.known = !budget.spent();
  return count;
}

NumberGrid random_full_grid(int64_t side, Draw& draw) {
  NumberGrid grid(side, side, kBlank);
  SearchBudget budget;
  Search search(grid);
  const auto shuffled = [&] {
    std::vector<int> digits = digits_of(side);
    draw.shuffle(digits);
    return digits;
  };
  search.run(budget, shuffled, [&] {
    grid.cells = search.cells();
    return false;
  });
  return grid;
}

const TaskEntry kTask = {.key = "sudoku",
                         .title = "Sudoku",
                         .knobs = kKnobs,
                         .generate = generate,
                         .prompt = prompt,
                         .verify = verify,
                         .count_solutions = count_of_given,
                         .canonical = canonical};

}  // namespace longhaul::puzzles::sudoku
