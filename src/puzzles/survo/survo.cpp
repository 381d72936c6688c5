#include "puzzles/survo/survo.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "puzzles/engine/given.h"
#include "puzzles/engine/grids/filled.h"

namespace longhaul::puzzles::survo {
namespace {

constexpr int64_t kLargestSide = 10;
constexpr Knob kKnobs[] = {{"side", 3, kLargestSide, 4, 9, "rows and columns, with those of the sums"},
                           {"open_cells", 2, 40, 4, 24, "numbers that are taken out"},
                           {"largest", 2, 99, 9, 9, "largest number of the matrix, but for its sums"}};

// The open cell with the fewest numbers comes next. A number fits if its row and column can still reach their
// sums with the smallest and with the largest numbers that are left.
class Search {
 public:
  Search(const Board& board, SearchBudget& budget, const std::function<bool(const NumberGrid&)>& found)
      : grid_(board.matrix), budget_(budget), found_(found), left_(board.candidates) {
    const int64_t last = grid_.rows - 1;
    Line corner_row{grid_.at(last, last), 0}, corner_column = corner_row;  // the sums of the sums
    for (int64_t i = 0; i < last; ++i) {
      corner_row.wanted -= grid_.at(last, i), corner_column.wanted -= grid_.at(i, last);
      Line row{grid_.at(i, last), 0}, column{grid_.at(last, i), 0};
      for (int64_t j = 0; j < last; ++j) {
        grid_.at(i, j) == kBlank ? ++row.open : row.wanted -= grid_.at(i, j);
        grid_.at(j, i) == kBlank ? ++column.open : column.wanted -= grid_.at(j, i);
        if (grid_.at(i, j) == kBlank) open_.push_back({i, j});
      }
      consistent_ =
          consistent_ && (row.open > 0 || row.wanted == 0) && (column.open > 0 || column.wanted == 0);
      rows_.push_back(row);
      columns_.push_back(column);
    }
    consistent_ = consistent_ && corner_row.wanted == 0 && corner_column.wanted == 0;
  }

  void run() {
    if (consistent_) step();
  }

 private:
  struct Line {
    int64_t wanted = 0;
    size_t open = 0;
  };
  struct Cell {
    int64_t row = 0, column = 0;
  };

  // Whether `line` can reach its sum once it has `number`, which is still among those that are left.
  bool can_take(const Line& line, int64_t number) const {
    const int64_t wanted = line.wanted - number;
    const size_t others = line.open - 1;
    if (others == 0) return wanted == 0;
    const auto count = static_cast<std::ptrdiff_t>(others);
    return wanted >= std::accumulate(left_.begin(), left_.begin() + count, int64_t{0}) &&
           wanted <= std::accumulate(left_.end() - count, left_.end(), int64_t{0});
  }

  std::vector<int64_t> numbers_for(const Cell& cell) const {
    std::vector<int64_t> numbers;
    for (size_t i = 0; i < left_.size(); ++i) {
      if (i > 0 && left_[i] == left_[i - 1]) continue;
      if (can_take(rows_[static_cast<size_t>(cell.row)], left_[i]) &&
          can_take(columns_[static_cast<size_t>(cell.column)], left_[i]))
        numbers.push_back(left_[i]);
    }
    return numbers;
  }

  void put(const Cell& cell, int64_t number, int64_t direction) {
    Line &row = rows_[static_cast<size_t>(cell.row)], &column = columns_[static_cast<size_t>(cell.column)];
    row.wanted -= direction * number, column.wanted -= direction * number;
    row.open -= static_cast<size_t>(direction), column.open -= static_cast<size_t>(direction);
    const auto place = std::ranges::lower_bound(left_, number);
    direction > 0 ? left_.erase(place) : left_.insert(place, number);
    grid_.at(cell.row, cell.column) = direction > 0 ? number : kBlank;
  }

  bool step() {
    if (!budget_.spend()) return false;
    if (open_.empty()) return found_(grid_);
    size_t best = 0;
    std::vector<int64_t> fewest;
    for (size_t i = 0; i < open_.size(); ++i) {
      std::vector<int64_t> numbers = numbers_for(open_[i]);
      if (numbers.empty()) return true;
      if (i == 0 || numbers.size() < fewest.size()) best = i, fewest = std::move(numbers);
    }
    const Cell cell = open_[best];
    std::swap(open_[best], open_.back());
    open_.pop_back();
    bool go_on = true;
    for (size_t i = 0; i < fewest.size() && go_on; ++i) {
      put(cell, fewest[i], 1);
      go_on = step();
      put(cell, fewest[i], -1);
    }
    open_.push_back(cell);
    std::swap(open_[best], open_.back());
    return go_on;
  }

  NumberGrid grid_;
  SearchBudget& budget_;
  const std::function<bool(const NumberGrid&)>& found_;
  std::vector<int64_t> left_;  // candidates, sorted
  std::vector<Line> rows_, columns_;
  std::vector<Cell> open_;
  bool consistent_ = true;
};

NumberGrid drawn_matrix(int64_t side, int64_t largest, Draw& draw) {
  NumberGrid full(side, side, 0);
  const int64_t last = side - 1;
  for (int64_t r = 0; r < last; ++r) {
    for (int64_t c = 0; c < last; ++c) {
      const int64_t number = draw.between(1, largest);
      full.at(r, c) = number;
      full.at(r, last) += number, full.at(last, c) += number, full.at(last, last) += number;
    }
  }
  return full;
}

Board opened(const NumberGrid& full, const std::vector<size_t>& cells) {
  Board board{full, {}};
  for (const size_t cell : cells) {
    board.matrix.cells[cell] = kBlank;
    board.candidates.push_back(full.cells[cell]);
  }
  std::ranges::sort(board.candidates);
  return board;
}

std::optional<Puzzle> generate(const KnobValues& knobs, Draw& draw) {
  constexpr int kMostChanges = 60;  // of cells that are open, before another matrix is drawn
  const int64_t side = knobs["side"];
  const auto wanted = static_cast<size_t>(knobs["open_cells"]);
  const NumberGrid full = drawn_matrix(side, knobs["largest"], draw);
  std::vector<size_t> order;
  for (size_t cell = 0; cell < full.cells.size(); ++cell) {
    const auto place = static_cast<int64_t>(cell);
    if (place / side < side - 1 && place % side < side - 1) order.push_back(cell);
  }
  if (wanted > order.size())
    throw Error({.code = ExitCode::kUsage,
                 .what = "a matrix of survo has fewer cells than that",
                 .expected = fmt::format("open_cells up to {} where side is {}", order.size(), side),
                 .found = fmt::format("{}", wanted)});
  draw.shuffle(order);
  std::vector<size_t> cells(order.begin(), order.begin() + static_cast<int64_t>(wanted));
  for (size_t next = wanted, change = 0; change < kMostChanges; ++change) {
    const Board board = opened(full, cells);
    SearchBudget budget{.nodes = 20'000};
    const auto other =
        other_than(full, budget, [&](SearchBudget& left, const auto& found) { solve(board, left, found); });
    if (other.unique()) {
      NumberGrid matrix = board.matrix;
      std::ranges::replace(matrix.cells, kBlank, int64_t{0});
      return Puzzle{.given = {{"original_matrix", grid_json(matrix)},
                              {"candidate_numbers", board.candidates},
                              {"n", side}},
                    .solution = grid_payload(full)};
    }
    if (!other.known || next == order.size()) return std::nullopt;
    // A cell in which the other solution differs is given, and another one opens.
    std::vector<size_t> differ;
    for (size_t i = 0; i < cells.size(); ++i) {
      if (other.solution->cells[cells[i]] != full.cells[cells[i]]) differ.push_back(i);
    }
    cells[draw.pick(differ)] = order[next++];
  }
  return std::nullopt;
}

Verdict verify(const nlohmann::json& given, std::string_view payload) {
  const Board board = read_given(given);
  const FilledBoard answer = read_filled(board.matrix, payload);
  if (!answer.verdict.accepted()) return answer.verdict;
  std::vector<int64_t> used;
  for (size_t cell = 0; cell < board.matrix.cells.size(); ++cell) {
    if (board.matrix.cells[cell] == kBlank) used.push_back(answer.grid.cells[cell]);
  }
  std::ranges::sort(used);
  if (used != board.candidates)
    return {VerdictCode::kRuleBroken, "the open cells do not hold each of the given numbers once"};
  const int64_t last = board.matrix.rows - 1;
  for (int64_t i = 0; i <= last; ++i) {
    int64_t row = 0, column = 0;
    for (int64_t j = 0; j < last; ++j) row += answer.grid.at(i, j), column += answer.grid.at(j, i);
    if (row != answer.grid.at(i, last))
      return {VerdictCode::kRuleBroken,
              fmt::format("row {} adds up to {}, not to {}", i + 1, row, answer.grid.at(i, last))};
    if (column != answer.grid.at(last, i))
      return {VerdictCode::kRuleBroken,
              fmt::format("column {} adds up to {}, not to {}", i + 1, column, answer.grid.at(last, i))};
  }
  return {};
}

SolutionCount count_of_given(const nlohmann::json& given, int64_t limit, SearchBudget& budget) {
  const Board board = read_given(given);
  return count_with<NumberGrid>(limit, budget,
                                [&](SearchBudget& left, const auto& found) { solve(board, left, found); });
}

// Rows may be in any order, and columns too, and rows may be columns: of each row the numbers with the sums
// of their columns, sorted, and the same of each column.
std::string canonical(const nlohmann::json& given) {
  const Board board = read_given(given);
  const int64_t last = board.matrix.rows - 1;
  const auto lines_of = [&](const auto& at) {
    std::vector<std::string> lines;
    for (int64_t i = 0; i < last; ++i) {
      std::vector<std::pair<int64_t, int64_t>> cells;
      for (int64_t j = 0; j < last; ++j) cells.emplace_back(at(i, j), at(last, j));
      std::ranges::sort(cells);
      std::string& line = lines.emplace_back(fmt::format("{}=", at(i, last)));
      for (const auto& [number, sum] : cells) line += fmt::format("{}/{},", number, sum);
    }
    std::ranges::sort(lines);
    return fmt::format("{}", fmt::join(lines, ";"));
  };
  const std::string rows = lines_of([&](int64_t i, int64_t j) { return board.matrix.at(i, j); });
  const std::string columns = lines_of([&](int64_t i, int64_t j) { return board.matrix.at(j, i); });
  return fmt::format("{}|{}|{}", std::min(rows, columns), std::max(rows, columns),
                     fmt::join(board.candidates, ","));
}

}  // namespace

Board read_given(const nlohmann::json& given) {
  if (!given.is_object() || !given.contains("original_matrix") || !given.contains("candidate_numbers") ||
      !given["candidate_numbers"].is_array() ||
      !std::ranges::all_of(given["candidate_numbers"], [](const nlohmann::json& each) {
        return each.is_number_integer() && each.get<int64_t>() >= 1 && each.get<int64_t>() <= 1'000'000;
      }))
    refuse_given(kTask.key, "\"original_matrix\" and \"candidate_numbers\": whole numbers from 1", given);
  Board board{number_grid(given["original_matrix"], "original_matrix", kLargestSide),
              given["candidate_numbers"].get<std::vector<int64_t>>()};
  std::ranges::sort(board.candidates);
  std::ranges::replace(board.matrix.cells, int64_t{0}, kBlank);
  const int64_t last = board.matrix.rows - 1;
  if (board.matrix.columns != board.matrix.rows || last < 1)
    refuse_given(kTask.key, "as many rows as columns, two at least", given["original_matrix"]);
  for (int64_t i = 0; i <= last; ++i) {
    if (board.matrix.at(i, last) == kBlank || board.matrix.at(last, i) == kBlank)
      refuse_given(kTask.key, "all sums in the last row and the last column", given["original_matrix"]);
  }
  if (std::ranges::count(board.matrix.cells, kBlank) != static_cast<int64_t>(board.candidates.size()))
    refuse_given(kTask.key, "one candidate number for each open cell (0)", given["candidate_numbers"]);
  return board;
}

void solve(const Board& board, SearchBudget& budget, const std::function<bool(const NumberGrid&)>& found) {
  Search(board, budget, found).run();
}

const TaskEntry kTask = {.key = "survo",
                         .title = "Survo",
                         .version = 2,
                         .knobs = kKnobs,
                         .generate = generate,
                         .prompt = prompt,
                         .verify = verify,
                         .count_solutions = count_of_given,
                         .canonical = canonical};

}  // namespace longhaul::puzzles::survo
