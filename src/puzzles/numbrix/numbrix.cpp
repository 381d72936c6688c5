#include "puzzles/numbrix/numbrix.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "puzzles/engine/given.h"
#include "puzzles/engine/grids/cells.h"
#include "puzzles/engine/grids/filled.h"

namespace longhaul::puzzles::numbrix {
namespace {

constexpr int64_t kLargestSide = 12;
constexpr Knob kKnobs[] = {
    {"side", 3, kLargestSide, 4, 12, "rows and columns"},
    {"given_percent", 5, 90, 40, 20, "percent of the numbers that are given at least"}};

std::optional<Puzzle> generate(const KnobValues& knobs, Draw& draw) {
  const NumberGrid full = random_full_grid(knobs["side"], draw);
  const auto cells = static_cast<int64_t>(full.cells.size());
  NumberGrid board(full.rows, full.columns, kBlank);
  std::vector<size_t> order(full.cells.size());
  std::iota(order.begin(), order.end(), size_t{0});
  draw.shuffle(order);
  // The two ends are always given.
  std::stable_partition(order.begin(), order.end(),
                        [&](size_t cell) { return full.cells[cell] == 1 || full.cells[cell] == cells; });
  const int64_t given = std::max<int64_t>(2, cells * knobs["given_percent"] / 100);
  for (size_t i = 0; i < static_cast<size_t>(given); ++i) board.cells[order[i]] = full.cells[order[i]];
  for (;;) {  // more numbers, until nothing else fits
    SearchBudget budget{.nodes = 2'000};
    const auto other =
        other_than(full, budget, [&](SearchBudget& left, const auto& found) { solve(board, left, found); });
    if (other.unique()) return Puzzle{.given = {{"grid", grid_json(board)}}, .solution = grid_payload(full)};
    std::vector<size_t> open;
    for (size_t cell = 0; cell < full.cells.size(); ++cell) {
      const bool differs = !other.solution || other.solution->cells[cell] != full.cells[cell];
      if (board.cells[cell] == kBlank && differs) open.push_back(cell);
    }
    const size_t cell = draw.pick(open);
    board.cells[cell] = full.cells[cell];
  }
}

Verdict verify(const nlohmann::json& given, std::string_view payload) {
  const NumberGrid board = read_given(given);
  const FilledBoard answer = read_filled(board, payload);
  if (!answer.verdict.accepted()) return answer.verdict;
  const auto cells = static_cast<int64_t>(board.cells.size());
  std::vector<int64_t> place(board.cells.size(), -1);
  for (int64_t cell = 0; cell < cells; ++cell) {
    const int64_t number = answer.grid.cells[static_cast<size_t>(cell)];
    if (number < 1 || number > cells)
      return {VerdictCode::kRuleBroken, fmt::format("{} is not from 1 to {}", number, cells)};
    if (place[static_cast<size_t>(number - 1)] >= 0)
      return {VerdictCode::kRuleBroken, fmt::format("{} stands twice", number)};
    place[static_cast<size_t>(number - 1)] = cell;
  }
  const Neighbours near(board.rows, board.columns);
  for (size_t i = 1; i < place.size(); ++i) {
    if (!near.beside(place[i - 1]).has(place[i]))
      return {VerdictCode::kRuleBroken, fmt::format("{} does not stand beside {}", i + 1, i)};
  }
  return {};
}

SolutionCount count_of_given(const nlohmann::json& given, int64_t limit, SearchBudget& budget) {
  const NumberGrid board = read_given(given);
  return count_with<NumberGrid>(limit, budget,
                                [&](SearchBudget& left, const auto& found) { solve(board, left, found); });
}

// Turned, mirrored and counted from the other end.
std::string canonical(const nlohmann::json& given) {
  const NumberGrid board = read_given(given);
  NumberGrid reversed = board;
  for (int64_t& number : reversed.cells) {
    if (number != kBlank) number = static_cast<int64_t>(board.cells.size()) + 1 - number;
  }
  return std::min(canonical_grid(board), canonical_grid(reversed));
}

}  // namespace

NumberGrid read_given(const nlohmann::json& given) {
  if (!given.is_object() || !given.contains("grid"))
    refuse_given(kTask.key, "an object with \"grid\"", given);
  NumberGrid board = number_grid(given["grid"], "grid", kLargestSide);
  const auto cells = static_cast<int64_t>(board.cells.size());
  std::vector<int64_t> place(board.cells.size(), -1);
  if (board.rows != board.columns) refuse_given(kTask.key, "as many rows as columns", given);
  for (int64_t cell = 0; cell < cells; ++cell) {
    const int64_t number = board.cells[static_cast<size_t>(cell)];
    if (number == kBlank) continue;
    if (number < 1 || number > cells || place[static_cast<size_t>(number - 1)] >= 0)
      refuse_given(kTask.key, fmt::format("numbers from 1 to {}, each once at most", cells), given);
    place[static_cast<size_t>(number - 1)] = cell;
  }
  for (int64_t number = 1, last = 0; number <= cells; ++number) {
    const int64_t to = place[static_cast<size_t>(number - 1)],
                  from = last > 0 ? place[static_cast<size_t>(last - 1)] : to;
    if (to < 0) continue;
    const int64_t way = std::abs(to / board.columns - from / board.columns) +
                        std::abs(to % board.columns - from % board.columns);
    if (last > 0 && way > number - last)
      refuse_given(kTask.key, fmt::format("{} near enough to {}", number, last), given);
    last = number;
  }
  return board;
}

NumberGrid random_full_grid(int64_t side, Draw& draw) {
  const Neighbours near(side, side);
  std::vector<int64_t> path;
  for (int64_t cell = 0; cell < side * side; ++cell) {
    path.push_back(cell / side % 2 == 0 ? cell : cell / side * side + side - 1 - cell % side);
  }
  for (int64_t move = 0; move < 10 * side * side; ++move) {
    if (draw.chance(50)) std::ranges::reverse(path);
    std::vector<int64_t> bites = near.beside(path.back()).cells();
    std::erase(bites, path[path.size() - 2]);
    const auto bitten = std::ranges::find(path, draw.pick(bites));
    std::reverse(bitten + 1, path.end());
  }
  NumberGrid grid(side, side);
  for (size_t i = 0; i < path.size(); ++i)
    grid.cells[static_cast<size_t>(path[i])] = static_cast<int64_t>(i) + 1;
  return grid;
}

const TaskEntry kTask = {.key = "numbrix",
                         .title = "Numbrix",
                         .version = 2,
                         .knobs = kKnobs,
                         .generate = generate,
                         .prompt = prompt,
                         .verify = verify,
                         .count_solutions = count_of_given,
                         .canonical = canonical};

}  // namespace longhaul::puzzles::numbrix
