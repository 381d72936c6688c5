#include "puzzles/minesweeper/minesweeper.h"

#include <algorithm>

#include "puzzles/engine/answers/literal.h"
#include "puzzles/engine/given.h"

namespace longhaul::puzzles::minesweeper {
namespace {

constexpr int64_t kLargestSide = 16;
constexpr Knob kKnobs[] = {
    {"side", 3, kLargestSide, 5, 16, "rows and columns"},
    {"mines_percent", 5, 60, 20, 35, "percent of the cells that hold mines"},
    {"revealed_percent", 5, 95, 65, 40,
     "percent of the cells without mines that are revealed (fewer where joint_mines is 0)"},
    {"joint_mines", 0, 20, 0, 1,
     "mines at least that follow only from several numbers together; 0: every mine follows from one number "
     "alone"}};

// The place of a pair [row, column] of JSON, counted from 0.
int64_t place_of_mine(const nlohmann::json& json, const NumberGrid& grid) {
  if (!json.is_array() || json.size() != 2 || !json[0].is_number_integer() || !json[1].is_number_integer() ||
      !grid.holds(json[0].get<int64_t>(), json[1].get<int64_t>()) || grid.at(json[0], json[1]) != kBlank)
    refuse_given(kTask.key, "\"current_mines\": hidden places [row, column] of the grid, counted from 0",
                 json);
  return json[0].get<int64_t>() * grid.columns + json[1].get<int64_t>();
}

// A board of the largest side on which nothing is revealed.
Board board_of_mines(const nlohmann::json& given) {
  if (!given.is_object() || !given.contains("current_mines") || !given["current_mines"].is_array())
    refuse_given(kTask.key, "\"current_mines\": a list of places", given);
  Board board{NumberGrid(kLargestSide, kLargestSide), {}};
  std::ranges::fill(board.grid.cells, kBlank);
  for (const nlohmann::json& mine : given["current_mines"]) board.mines.add(place_of_mine(mine, board.grid));
  return board;
}

std::optional<Puzzle> generate(const KnobValues& knobs, Draw& draw) {
  const int64_t side = knobs["side"], cells = side * side;
  const int64_t count = std::max<int64_t>(1, cells * knobs["mines_percent"] / 100);
  const int64_t revealed = std::max<int64_t>(1, (cells - count) * knobs["revealed_percent"] / 100);
  const Neighbours near(side, side);
  std::vector<int64_t> order = near.all().cells();
  draw.shuffle(order);
  CellSet mines;
  for (int64_t i = 0; i < count; ++i) mines.add(order[static_cast<size_t>(i)]);
  NumberGrid grid(side, side, kBlank);
  for (int64_t i = count; i < count + revealed; ++i) {
    const int64_t cell = order[static_cast<size_t>(i)];
    grid.cells[static_cast<size_t>(cell)] = (near.around(cell) & mines).count();
  }
  SearchBudget budget{.nodes = 50'000};
  std::optional<CellSet> certain = certain_mines(grid, mines, budget);
  const int64_t wanted = knobs["joint_mines"];
  // Where no mine may follow from several numbers only, numbers beside such mines are hidden again.
  while (certain && wanted == 0 && certain->without(single_mines(grid)).count() > 0) {
    std::vector<int64_t> joint = certain->without(single_mines(grid)).cells();
    std::vector<int64_t> beside = near.around(draw.pick(joint)).cells();
    std::erase_if(beside, [&](int64_t cell) { return grid.cells[static_cast<size_t>(cell)] == kBlank; });
    grid.cells[static_cast<size_t>(draw.pick(beside))] = kBlank;
    certain = certain_mines(grid, mines, budget);
  }
  if (!certain || certain->empty() || certain->without(single_mines(grid)).count() < wanted)
    return std::nullopt;
  nlohmann::json places = nlohmann::json::array();
  std::vector<std::string> texts;
  certain->for_each([&](int64_t cell) {
    places.push_back({cell / side, cell % side});
    texts.push_back(fmt::format("({}, {})", cell / side, cell % side));
  });
  return Puzzle{.given = {{"current_mines", places}, {"grid", grid_json(grid)}},
                .solution = fmt::format("[{}]", fmt::join(texts, ", "))};
}

Verdict verify(const nlohmann::json& given, std::string_view payload) {
  // Public data hold the mines alone; where the grid stands beside them, it says which places there are.
  const bool with_grid = given.is_object() && given.contains("grid");
  const Board board = with_grid ? read_given(given) : board_of_mines(given);
  const std::optional<Literal> answer = read_literal(payload);
  if (!answer || !answer->is_list()) return {VerdictCode::kUnreadable, "no list of places"};
  CellSet mines;
  for (const Literal& item : answer->items) {
    const auto place = read_pair(item);
    if (!place) return {VerdictCode::kUnreadable, "a place that is not (row, column)"};
    const auto [row, column] = *place;
    if (!board.grid.holds(row, column))
      return {VerdictCode::kShape, fmt::format("({}, {}) is not in the grid", row, column)};
    if (!board.mines.has(row * board.grid.columns + column))
      return {VerdictCode::kRuleBroken, fmt::format("({}, {}) is not certain to be a mine", row, column)};
    mines.add(row * board.grid.columns + column);
  }
  const int64_t missing = board.mines.without(mines).count();
  if (missing > 0)
    return {VerdictCode::kRuleBroken, fmt::format("{} of the certain mines are missing", missing)};
  return {};
}

std::string canonical(const nlohmann::json& given) { return canonical_grid(read_given(given).grid); }

}  // namespace

Board read_given(const nlohmann::json& given) {
  if (!given.is_object() || !given.contains("grid") || !given.contains("current_mines") ||
      !given["current_mines"].is_array())
    refuse_given(kTask.key, "\"grid\": rows of numbers and \"X\", and \"current_mines\": a list", given);
  Board board{number_grid(given["grid"], "grid", kLargestSide), {}};
  if (std::ranges::any_of(board.grid.cells, [](int64_t cell) { return cell > 8; }))
    refuse_given(kTask.key, "numbers from 0 to 8", given);
  for (const nlohmann::json& mine : given["current_mines"]) board.mines.add(place_of_mine(mine, board.grid));
  return board;
}

const TaskEntry kTask = {.key = "minesweeper",
                         .title = "Minesweeper",
                         .version = 3,
                         .uniqueness = Uniqueness::kComputed,
                         .knobs = kKnobs,
                         .generate = generate,
                         .prompt = prompt,
                         .verify = verify,
                         .count_solutions = nullptr,
                         .canonical = canonical};

}  // namespace longhaul::puzzles::minesweeper
