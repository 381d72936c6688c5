#include "puzzles/arrow_maze/arrow_maze.h"

#include <algorithm>

#include "puzzles/engine/answers/literal.h"
#include "puzzles/engine/given.h"

namespace longhaul::puzzles::arrow_maze {
namespace {

constexpr int64_t kLargestSide = 12;
constexpr Knob kKnobs[] = {{"side", 3, kLargestSide, 4, 10, "rows and columns"},
                           {"given_percent", 0, 95, 80, 0, "percent of the arrows that are given at least"},
                           {"longest_ray", 1, 10, 3, 6, "arrows of one ray at most"}};

// A cell of a maze; none: it is no number, no arrow and not X.
std::optional<int64_t> read_cell(std::string_view text) {
  if (text == "X") return kBlank;
  const auto arrow = std::ranges::find(kArrows, text, &Arrow::text);
  if (arrow != kArrows.end()) return arrow_cell(static_cast<size_t>(arrow - kArrows.begin()));
  const std::optional<int64_t> number = read_integer(text);
  if (!number || *number < 0 || *number > 1000) return std::nullopt;
  return number;
}

// Numbers are put into open cells, and their rays over open cells, until all is covered. A cell that no ray
// finds any more goes on with a ray that ends beside it, or begins one there. None: that cannot be.
std::optional<NumberGrid> drawn_maze(int64_t side, int64_t longest, Draw& draw) {
  NumberGrid maze(side, side, kBlank);
  std::vector<int64_t> order, numbers;
  for (int64_t cell = 0; cell < side * side; ++cell) order.push_back(cell);
  draw.shuffle(order);
  std::array<size_t, kArrows.size()> directions{0, 1, 2, 3, 4, 5, 6, 7};
  for (const int64_t cell : order) {
    const int64_t row = cell / side, column = cell % side;
    if (maze.at(row, column) != kBlank) continue;
    draw.shuffle(directions);
    int64_t laid = 0;
    for (const size_t d : directions) {
      if (!draw.chance(60)) continue;
      int64_t r = row + kArrows[d].down, c = column + kArrows[d].right;
      for (int64_t left = draw.between(1, longest); left > 0 && maze.holds(r, c) && maze.at(r, c) == kBlank;
           --left, ++laid, r += kArrows[d].down, c += kArrows[d].right)
        maze.at(r, c) = arrow_cell(d);
    }
    if (laid > 0) {
      maze.at(row, column) = 0;  // counted when all rays stand
      numbers.push_back(cell);
      continue;
    }
    const auto found = std::ranges::find_if(directions, [&](size_t d) {
      const int64_t r = row - kArrows[d].down, c = column - kArrows[d].right;
      return maze.holds(r, c) && (maze.at(r, c) == 0 || maze.at(r, c) == arrow_cell(d));
    });
    if (found == directions.end()) return std::nullopt;
    maze.at(row, column) = arrow_cell(*found);
  }
  for (const int64_t cell : numbers)
    maze.cells[static_cast<size_t>(cell)] = counted_arrows(maze, cell / side, cell % side);
  return maze;
}

nlohmann::json maze_json(const NumberGrid& maze) {
  nlohmann::json json = nlohmann::json::array();
  for (int64_t r = 0; r < maze.rows; ++r) {
    nlohmann::json& row = json.emplace_back(nlohmann::json::array());
    for (int64_t c = 0; c < maze.columns; ++c) row.push_back(text_of(maze.at(r, c)));
  }
  return json;
}

std::string solution_of(const NumberGrid& maze) {
  std::vector<std::string> rows;
  for (int64_t r = 0; r < maze.rows; ++r) {
    std::vector<std::string> cells;
    for (int64_t c = 0; c < maze.columns; ++c) cells.push_back('"' + text_of(maze.at(r, c)) + '"');
    rows.push_back(fmt::format("[{}]", fmt::join(cells, ", ")));
  }
  return fmt::format("[{}]", fmt::join(rows, ", "));
}

std::optional<Puzzle> generate(const KnobValues& knobs, Draw& draw) {
  const std::optional<NumberGrid> full = drawn_maze(knobs["side"], knobs["longest_ray"], draw);
  if (!full) return std::nullopt;
  NumberGrid maze = *full;
  std::vector<size_t> arrows;
  for (size_t cell = 0; cell < maze.cells.size(); ++cell) {
    if (is_arrow(maze.cells[cell])) arrows.push_back(cell);
  }
  draw.shuffle(arrows);
  for (size_t i = arrows.size() * static_cast<size_t>(knobs["given_percent"]) / 100; i < arrows.size(); ++i)
    maze.cells[arrows[i]] = kBlank;
  for (;;) {  // more arrows, until nothing else fits
    SearchBudget budget{.nodes = 2'000};
    const auto other =
        other_than(*full, budget, [&](SearchBudget& left, const auto& found) { solve(maze, left, found); });
    if (other.unique()) break;
    std::vector<size_t> open;
    for (const size_t cell : arrows) {
      const bool differs = !other.solution || other.solution->cells[cell] != full->cells[cell];
      if (maze.cells[cell] == kBlank && differs) open.push_back(cell);
    }
    const size_t cell = draw.pick(open);
    maze.cells[cell] = full->cells[cell];
  }
  if (std::ranges::count(maze.cells, kBlank) == 0) return std::nullopt;  // nothing is left to find
  return Puzzle{.given = {{"maze", maze_json(maze)}}, .solution = solution_of(*full)};
}

Verdict verify(const nlohmann::json& given, std::string_view payload) {
  const NumberGrid maze = read_given(given);
  const auto rows = read_grid(payload);
  if (!rows) return {VerdictCode::kUnreadable, "no list of rows"};
  if (static_cast<int64_t>(rows->size()) != maze.rows)
    return {VerdictCode::kShape, fmt::format("{} rows, where the puzzle has {}", rows->size(), maze.rows)};
  NumberGrid full = maze;
  for (int64_t r = 0; r < maze.rows; ++r) {
    const std::vector<std::string_view>& row = (*rows)[static_cast<size_t>(r)];
    if (static_cast<int64_t>(row.size()) != maze.columns)
      return {VerdictCode::kShape,
              fmt::format("{} cells in row {}, where the puzzle has {}", row.size(), r + 1, maze.columns)};
    for (int64_t c = 0; c < maze.columns; ++c) {
      const std::optional<int64_t> cell = read_cell(row[static_cast<size_t>(c)]);
      if (maze.at(r, c) != kBlank && cell != maze.at(r, c))
        return {VerdictCode::kGivenChanged,
                fmt::format("row {}, column {} is given as {}", r + 1, c + 1, text_of(maze.at(r, c)))};
      if (!cell || (maze.at(r, c) == kBlank && !is_arrow(*cell)))
        return {VerdictCode::kRuleBroken, fmt::format("row {}, column {} holds no arrow", r + 1, c + 1)};
      full.at(r, c) = *cell;
    }
  }
  for (int64_t r = 0; r < full.rows; ++r) {
    for (int64_t c = 0; c < full.columns; ++c) {
      const int64_t cell = full.at(r, c);
      if (!is_arrow(cell)) {
        const int64_t count = counted_arrows(full, r, c);
        if (count != cell)
          return {VerdictCode::kRuleBroken,
                  fmt::format("the {} in row {}, column {} has {} arrows in its rays", cell, r + 1, c + 1,
                              count)};
        continue;
      }
      const int64_t down = kArrows[arrow_of(cell)].down, right = kArrows[arrow_of(cell)].right;
      int64_t row = r, column = c;  // back over equal arrows
      while (full.holds(row, column) && full.at(row, column) == cell) row -= down, column -= right;
      if (!full.holds(row, column) || is_arrow(full.at(row, column)))
        return {VerdictCode::kRuleBroken,
                fmt::format("the arrow in row {}, column {} is in no ray", r + 1, c + 1)};
    }
  }
  return {};
}

SolutionCount count_of_given(const nlohmann::json& given, int64_t limit, SearchBudget& budget) {
  const NumberGrid maze = read_given(given);
  return count_with<NumberGrid>(limit, budget,
                                [&](SearchBudget& left, const auto& found) { solve(maze, left, found); });
}

// Turned and mirrored with its arrows, the maze that reads smallest.
std::string canonical(const nlohmann::json& given) {
  const NumberGrid maze = read_given(given);
  std::string least;
  for (const std::vector<int64_t>& to : turned_places(maze.rows, maze.columns)) {
    // Where one step leads is seen from the first cell and the ones beside it; a maze of one row or column
    // has no other way to lie there.
    const auto step_of = [&](int64_t place) {
      return std::pair(to[static_cast<size_t>(place)] / maze.columns - to[0] / maze.columns,
                       to[static_cast<size_t>(place)] % maze.columns - to[0] % maze.columns);
    };
    const auto down = maze.rows > 1 ? step_of(maze.columns) : std::pair<int64_t, int64_t>(1, 0);
    const auto right = maze.columns > 1 ? step_of(1) : std::pair<int64_t, int64_t>(0, 1);
    NumberGrid now(maze.rows, maze.columns);
    for (size_t cell = 0; cell < maze.cells.size(); ++cell) {
      int64_t own = maze.cells[cell];
      if (is_arrow(own)) {
        const Arrow& arrow = kArrows[arrow_of(own)];
        const auto turned_arrow = std::ranges::find_if(kArrows, [&](const Arrow& each) {
          return each.down == arrow.down * down.first + arrow.right * right.first &&
                 each.right == arrow.down * down.second + arrow.right * right.second;
        });
        own = arrow_cell(static_cast<size_t>(turned_arrow - kArrows.begin()));
      }
      now.cells[static_cast<size_t>(to[cell])] = own;
    }
    const std::string text = grid_lines(now);
    if (least.empty() || text < least) least = text;
  }
  return least;
}

}  // namespace

std::string text_of(int64_t cell) {
  if (cell == kBlank) return "X";
  return is_arrow(cell) ? std::string(kArrows[arrow_of(cell)].text) : std::to_string(cell);
}

NumberGrid read_given(const nlohmann::json& given) {
  if (!given.is_object() || !given.contains("maze") || !given["maze"].is_array() || given["maze"].empty() ||
      given["maze"].size() > static_cast<size_t>(kLargestSide) || !given["maze"][0].is_array() ||
      given["maze"][0].empty() || given["maze"][0].size() > static_cast<size_t>(kLargestSide))
    refuse_given(kTask.key, fmt::format("\"maze\": rows of cells, 1 to {} each way", kLargestSide), given);
  const nlohmann::json& rows = given["maze"];
  NumberGrid maze(static_cast<int64_t>(rows.size()), static_cast<int64_t>(rows[0].size()));
  size_t at = 0;
  for (const nlohmann::json& row : rows) {
    if (!row.is_array() || row.size() != rows[0].size()) refuse_given(kTask.key, "rows of one length", row);
    for (const nlohmann::json& each : row) {
      const std::optional<int64_t> cell =
          each.is_string() ? read_cell(each.get<std::string>()) : std::nullopt;
      if (!cell) refuse_given(kTask.key, "texts in all cells: a number, an arrow or X", each);
      maze.cells[at++] = *cell;
    }
  }
  return maze;
}

const TaskEntry kTask = {.key = "arrow_maze",
                         .title = "Arrow maze",
                         .version = 2,
                         .knobs = kKnobs,
                         .generate = generate,
                         .prompt = prompt,
                         .verify = verify,
                         .count_solutions = count_of_given,
                         .canonical = canonical};

}  // namespace longhaul::puzzles::arrow_maze
