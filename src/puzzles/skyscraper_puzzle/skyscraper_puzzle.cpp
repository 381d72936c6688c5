#include "puzzles/skyscraper_puzzle/skyscraper_puzzle.h"

#include <algorithm>
#include <numeric>

#include "puzzles/engine/given.h"
#include "puzzles/engine/grids/filled.h"
#include "puzzles/engine/grids/latin.h"

namespace longhaul::puzzles::skyscraper_puzzle {
namespace {

constexpr int64_t kLargestSide = 8;
constexpr const char* kSides[4] = {"top", "bottom", "left", "right"};
constexpr Knob kKnobs[] = {
    {"side", 3, kLargestSide, 3, 6, "rows and columns"},
    {"clues_percent", 10, 100, 100, 60, "percent of the numbers around the grid that are told at least"}};

// Row by row, each as one of the orders that its two numbers allow, while what columns have so far can still
// come to theirs.
class Search {
 public:
  Search(const Board& board, int64_t limit, SearchBudget& budget)
      : board_(board),
        side_(board.grid.rows),
        limit_(limit),
        budget_(budget),
        columns_(static_cast<size_t>(side_)) {
    std::vector<int64_t> order(static_cast<size_t>(side_));
    std::iota(order.begin(), order.end(), int64_t{1});
    rows_.resize(static_cast<size_t>(side_));
    do {
      const int64_t left = seen(order);
      std::vector<int64_t> reversed(order.rbegin(), order.rend());
      const int64_t right = seen(reversed);
      for (int64_t r = 0; r < side_; ++r) {
        if (fits(r, order, left, right)) rows_[static_cast<size_t>(r)].push_back(order);
      }
    } while (std::ranges::next_permutation(order).found);
  }

  SolutionCount count() {
    step(0);
    return {found_, !budget_.spent()};
  }

 private:
  struct Column {
    uint32_t used = 0;
    int64_t highest = 0, visible = 0;  // from the top, so far
    std::vector<int64_t> heights;
  };

  bool fits(int64_t row, const std::vector<int64_t>& order, int64_t left, int64_t right) const {
    const int64_t wanted_left = board_.clues[2][static_cast<size_t>(row)],
                  wanted_right = board_.clues[3][static_cast<size_t>(row)];
    if ((wanted_left != 0 && wanted_left != left) || (wanted_right != 0 && wanted_right != right))
      return false;
    for (int64_t c = 0; c < side_; ++c) {
      if (board_.grid.at(row, c) != kBlank && board_.grid.at(row, c) != order[static_cast<size_t>(c)])
        return false;
    }
    return true;
  }

  bool column_can_be(size_t c, int64_t row) const {
    const Column& column = columns_[c];
    const int64_t top = board_.clues[0][c], bottom = board_.clues[1][c];
    // Each row that is left shows one more at most, and none once the highest stands.
    const int64_t most = column.highest == side_
                             ? column.visible
                             : column.visible + std::min(side_ - 1 - row, side_ - column.highest);
    const int64_t least = column.highest == side_ ? column.visible : column.visible + 1;
    if (top != 0 && (top < least || top > most)) return false;
    if (row + 1 < side_ || bottom == 0) return true;
    return seen(std::vector<int64_t>(column.heights.rbegin(), column.heights.rend())) == bottom;
  }

  bool step(int64_t row) {
    if (!budget_.spend()) return false;
    if (row == side_) return ++found_ < limit_;
    for (const std::vector<int64_t>& order : rows_[static_cast<size_t>(row)]) {
      bool possible = true;
      for (size_t c = 0; c < order.size() && possible; ++c)
        possible = (columns_[c].used >> order[c] & 1) == 0;
      if (!possible) continue;
      const std::vector<Column> before = columns_;
      for (size_t c = 0; c < order.size() && possible; ++c) {
        Column& column = columns_[c];
        column.used |= uint32_t{1} << order[c];
        column.heights.push_back(order[c]);
        if (order[c] > column.highest) column.highest = order[c], ++column.visible;
        possible = column_can_be(c, row);
      }
      const bool go_on = !possible || step(row + 1);
      columns_ = before;
      if (!go_on) return false;
    }
    return true;
  }

  const Board& board_;
  int64_t side_, limit_;
  SearchBudget& budget_;
  std::vector<std::vector<std::vector<int64_t>>> rows_;
  std::vector<Column> columns_;
  int64_t found_ = 0;
};

std::array<std::vector<int64_t>, 4> clues_of(const NumberGrid& grid) {
  std::array<std::vector<int64_t>, 4> clues;
  for (int64_t i = 0; i < grid.rows; ++i) {
    std::vector<int64_t> column, row;
    for (int64_t j = 0; j < grid.rows; ++j) column.push_back(grid.at(j, i)), row.push_back(grid.at(i, j));
    clues[0].push_back(seen(column));
    clues[2].push_back(seen(row));
    clues[1].push_back(seen({column.rbegin(), column.rend()}));
    clues[3].push_back(seen({row.rbegin(), row.rend()}));
  }
  return clues;
}

std::optional<Puzzle> generate(const KnobValues& knobs, Draw& draw) {
  const int64_t side = knobs["side"];
  const NumberGrid full = random_latin_square(side, draw);
  const auto all = clues_of(full);
  std::vector<size_t> order(4 * static_cast<size_t>(side)), cells(full.cells.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::iota(cells.begin(), cells.end(), size_t{0});
  draw.shuffle(order);
  draw.shuffle(cells);
  Board board{NumberGrid(side, side, kBlank), {}};
  for (auto& clues : board.clues) clues.assign(static_cast<size_t>(side), 0);
  size_t told = order.size() * static_cast<size_t>(knobs["clues_percent"]) / 100, given = 0;
  const auto tell = [&](size_t which) {
    board.clues[which / static_cast<size_t>(side)][which % static_cast<size_t>(side)] =
        all[which / static_cast<size_t>(side)][which % static_cast<size_t>(side)];
  };
  for (size_t i = 0; i < told; ++i) tell(order[i]);
  for (;;) {  // more clues, then heights, until nothing else fits
    SearchBudget budget{.nodes = 100'000};
    if (count_solutions(board, 2, budget).unique()) break;
    if (told < order.size()) {
      tell(order[told++]);
    } else if (given < cells.size()) {
      board.grid.cells[cells[given]] = full.cells[cells[given]];
      ++given;
    } else {
      return std::nullopt;
    }
  }
  nlohmann::json json = {{"n", side},
                         {"top", board.clues[0]},
                         {"bottom", board.clues[1]},
                         {"left", board.clues[2]},
                         {"right", board.clues[3]}};
  if (given > 0) json["grid"] = grid_json(board.grid);
  return Puzzle{.given = std::move(json), .solution = grid_payload(full)};
}

Verdict verify(const nlohmann::json& given, std::string_view payload) {
  const Board board = read_given(given);
  const FilledBoard answer = read_filled(board.grid, payload);
  if (!answer.verdict.accepted()) return answer.verdict;
  if (Verdict latin = judged_as_latin(answer.grid); !latin.accepted()) return latin;
  const auto clues = clues_of(answer.grid);
  for (size_t which = 0; which < 4; ++which) {
    for (size_t i = 0; i < clues[which].size(); ++i) {
      if (board.clues[which][i] != 0 && clues[which][i] != board.clues[which][i])
        return {VerdictCode::kRuleBroken,
                fmt::format("{} are seen from the {} at place {}, not {}", clues[which][i], kSides[which],
                            i + 1, board.clues[which][i])};
    }
  }
  return {};
}

SolutionCount count_of_given(const nlohmann::json& given, int64_t limit, SearchBudget& budget) {
  return count_solutions(read_given(given), limit, budget);
}

// Turned and mirrored, the board that reads smallest: a frame of clues around the heights that are given.
std::string canonical(const nlohmann::json& given) {
  const Board board = read_given(given);
  const int64_t side = board.grid.rows;
  NumberGrid framed(side + 2, side + 2, 0);
  for (int64_t i = 0; i < side; ++i) {
    framed.at(0, i + 1) = board.clues[0][static_cast<size_t>(i)];
    framed.at(side + 1, i + 1) = board.clues[1][static_cast<size_t>(i)];
    framed.at(i + 1, 0) = board.clues[2][static_cast<size_t>(i)];
    framed.at(i + 1, side + 1) = board.clues[3][static_cast<size_t>(i)];
    for (int64_t j = 0; j < side; ++j) framed.at(i + 1, j + 1) = board.grid.at(i, j);
  }
  return canonical_grid(framed);
}

}  // namespace

int64_t seen(const std::vector<int64_t>& heights) {
  int64_t highest = 0, count = 0;
  for (const int64_t height : heights) {
    if (height > highest) highest = height, ++count;
  }
  return count;
}

Board read_given(const nlohmann::json& given) {
  if (!given.is_object() || !given.contains("n") || !given["n"].is_number_integer() ||
      given["n"].get<int64_t>() < 1 || given["n"].get<int64_t>() > kLargestSide)
    refuse_given(kTask.key, fmt::format("\"n\": 1 to {}", kLargestSide), given);
  const auto side = given["n"].get<int64_t>();
  Board board{NumberGrid(side, side, kBlank), {}};
  for (size_t which = 0; which < 4; ++which) {
    const char* name = kSides[which];
    const bool good = given.contains(name) && given[name].is_array() &&
                      static_cast<int64_t>(given[name].size()) == side &&
                      std::ranges::all_of(given[name], [&](const auto& each) {
                        return each.is_number_integer() && each.template get<int64_t>() >= 0 &&
                               each.template get<int64_t>() <= side;
                      });
    if (!good)
      refuse_given(kTask.key, fmt::format("\"{}\": {} numbers from 0 to {}", name, side, side), given);
    board.clues[which] = given[name].get<std::vector<int64_t>>();
  }
  if (given.contains("grid")) board.grid = number_grid(given["grid"], "grid", kLargestSide);
  if (board.grid.rows != side || board.grid.columns != side ||
      std::ranges::any_of(board.grid.cells, [&](int64_t cell) { return cell == 0 || cell > side; }))
    refuse_given(kTask.key, "a grid of n rows and columns of heights from 1 to n", given);
  return board;
}

SolutionCount count_solutions(const Board& board, int64_t limit, SearchBudget& budget) {
  return Search(board, limit, budget).count();
}

const TaskEntry kTask = {.key = "skyscraper_puzzle",
                         .title = "Skyscrapers",
                         .version = 2,
                         .knobs = kKnobs,
                         .generate = generate,
                         .prompt = prompt,
                         .verify = verify,
                         .count_solutions = count_of_given,
                         .canonical = canonical};

}  // namespace longhaul::puzzles::skyscraper_puzzle
