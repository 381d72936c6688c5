#include "puzzles/calcudoko/calcudoko.h"

#include <fmt/compile.h>

#include <algorithm>

#include "puzzles/engine/answers/literal.h"
#include "puzzles/engine/given.h"
#include "puzzles/engine/grids/cells.h"
#include "puzzles/engine/grids/filled.h"
#include "puzzles/engine/grids/latin.h"

namespace longhaul::puzzles::calcudoko {
namespace {

constexpr Knob kKnobs[] = {
    {"side", 3, kLargestSide, 4, 8, "rows and columns"},
    {"largest_cage", 3, 5, 3, 4, "cells of a cage at most (two at least)"},
    {"minus_percent", 0, 100, 90, 30, "percent of the cages of two cells that have - or ÷, where ÷ can be"}};
constexpr Sign kSigns[] = {Sign::kSum, Sign::kDifference, Sign::kProduct, Sign::kQuotient};

std::vector<int64_t> numbers_in(const NumberGrid& grid, const std::vector<int64_t>& cells) {
  std::vector<int64_t> numbers;
  for (const int64_t cell : cells) numbers.push_back(grid.cells[static_cast<size_t>(cell)]);
  return numbers;
}

bool all_different(std::vector<int64_t> numbers) {
  std::ranges::sort(numbers);
  return std::ranges::adjacent_find(numbers) == numbers.end();
}

// Cages grow from the cell with the fewest open neighbours, over numbers that they have not yet. A cell that
// stays alone joins a cage beside it. None: it could not.
std::optional<std::vector<std::vector<int64_t>>> drawn_cages(const NumberGrid& full, size_t largest,
                                                             Draw& draw) {
  const Neighbours near(full.rows, full.columns);
  std::vector<std::vector<int64_t>> cages;
  CellSet open = near.all();
  const auto may_join = [&](const std::vector<int64_t>& cage, int64_t cell) {
    return std::ranges::none_of(cage, [&](int64_t other) {
      return full.cells[static_cast<size_t>(other)] == full.cells[static_cast<size_t>(cell)];
    });
  };
  std::vector<int64_t> order = open.cells();
  draw.shuffle(order);
  while (!open.empty()) {
    const auto ways = [&](int64_t cell) {
      return open.has(cell) ? (near.beside(cell) & open).count() : kMostCells;
    };
    const int64_t first = *std::ranges::min_element(order, {}, ways);
    open.remove(first);
    std::vector<int64_t> cage = {first};
    const auto wanted = static_cast<size_t>(draw.between(2, static_cast<int64_t>(largest)));
    while (cage.size() < wanted) {
      CellSet own;
      for (const int64_t cell : cage) own.add(cell);
      std::vector<int64_t> edge = (near.beside_any(own) & open).cells();
      std::erase_if(edge, [&](int64_t cell) { return !may_join(cage, cell); });
      if (edge.empty()) break;
      cage.push_back(draw.pick(edge));
      open.remove(cage.back());
    }
    if (cage.size() > 1) {
      cages.push_back(std::move(cage));
      continue;
    }
    std::vector<std::vector<int64_t>*> others;
    for (std::vector<int64_t>& other : cages) {
      const bool beside =
          std::ranges::any_of(other, [&](int64_t cell) { return near.beside(first).has(cell); });
      if (beside && other.size() < largest && may_join(other, first)) others.push_back(&other);
    }
    if (others.empty()) return std::nullopt;
    draw.pick(others)->push_back(first);
  }
  return cages;
}

Sign drawn_sign(const std::vector<int64_t>& numbers, int64_t minus_percent, Draw& draw) {
  if (numbers.size() > 2 || !draw.chance(minus_percent)) return draw.chance(50) ? Sign::kSum : Sign::kProduct;
  return made_of(Sign::kQuotient, numbers) && draw.chance(60) ? Sign::kQuotient : Sign::kDifference;
}

// Another sign for one of the cages, so that `other` is no solution any more while `full` stays one. False:
// there is none.
bool tell_apart(Board& board, const NumberGrid& full, const NumberGrid& other, Draw& draw) {
  std::vector<std::pair<Cage*, Cage>> ways;
  for (Cage& cage : board.cages) {
    for (const Sign sign : kSigns) {
      const std::optional<int64_t> target = made_of(sign, numbers_in(full, cage.cells));
      if (target && made_of(sign, numbers_in(other, cage.cells)) != target)
        ways.emplace_back(&cage, Cage{cage.cells, *target, sign});
    }
  }
  if (ways.empty()) return false;
  const auto& [cage, changed] = draw.pick(ways);
  *cage = changed;
  return true;
}

nlohmann::json given_of(const Board& board) {
  nlohmann::json::array_t regions;
  regions.reserve(board.cages.size());
  for (const Cage& cage : board.cages) {
    nlohmann::json::array_t cells;
    cells.reserve(cage.cells.size());
    for (const int64_t cell : cage.cells)
      cells.emplace_back(fmt::format(FMT_COMPILE("({},{})"), cell / board.side + 1, cell % board.side + 1));
    nlohmann::json& region = regions.emplace_back(nlohmann::json::object());
    region["cells"] = std::move(cells);
    region["target"] = cage.target;
    region["operator"] = text_of(cage.sign);
  }
  nlohmann::json given = nlohmann::json::object();
  given["grid_size"] = board.side;
  given["regions"] = std::move(regions);
  return given;
}

std::optional<Puzzle> generate(const KnobValues& knobs, Draw& draw) {
  constexpr int kMostChanges = 12;  // of signs, before other cages are drawn
  const NumberGrid full = random_latin_square(knobs["side"], draw);
  auto cages = drawn_cages(full, static_cast<size_t>(std::min(knobs["largest_cage"], knobs["side"])), draw);
  if (!cages) return std::nullopt;
  Board board{full.rows, {}};
  for (std::vector<int64_t>& cells : *cages) {
    std::ranges::sort(cells);
    const std::vector<int64_t> numbers = numbers_in(full, cells);
    const Sign sign = drawn_sign(numbers, knobs["minus_percent"], draw);
    board.cages.push_back({cells, *made_of(sign, numbers), sign});
  }
  std::ranges::sort(board.cages, {}, &Cage::cells);
  for (int change = 0; change < kMostChanges; ++change) {
    SearchBudget budget{.nodes = 5'000};
    const auto other =
        other_than(full, budget, [&](SearchBudget& left, const auto& found) { solve(board, left, found); });
    if (other.unique()) return Puzzle{.given = given_of(board), .solution = grid_payload(full)};
    if (!other.known || !tell_apart(board, full, *other.solution, draw)) return std::nullopt;
  }
  return std::nullopt;
}

Verdict verify(const nlohmann::json& given, std::string_view payload) {
  const Board board = read_given(given);
  const FilledBoard answer = read_filled(NumberGrid(board.side, board.side, kBlank), payload);
  if (!answer.verdict.accepted()) return answer.verdict;
  if (Verdict latin = judged_as_latin(answer.grid); !latin.accepted()) return latin;
  for (const Cage& cage : board.cages) {
    const std::vector<int64_t> numbers = numbers_in(answer.grid, cage.cells);
    const std::optional<int64_t> made = made_of(cage.sign, numbers);
    const bool differ = all_different(numbers);
    if (differ && made == cage.target) continue;
    const std::string place = fmt::format("the cage at ({},{})", cage.cells.front() / board.side + 1,
                                          cage.cells.front() % board.side + 1);
    if (!differ) return {VerdictCode::kRuleBroken, "a number stands twice in " + place};
    return {VerdictCode::kRuleBroken,
            fmt::format("{} makes {}, not {}{}", place, made ? std::to_string(*made) : "no whole number",
                        cage.target, text_of(cage.sign))};
  }
  return {};
}

SolutionCount count_of_given(const nlohmann::json& given, int64_t limit, SearchBudget& budget) {
  const Board board = read_given(given);
  return count_with<NumberGrid>(limit, budget,
                                [&](SearchBudget& left, const auto& found) { solve(board, left, found); });
}

// Turned and mirrored, the cages that read smallest: a letter for each cell's cage, in the order in which
// they come, and what each makes.
std::string canonical(const nlohmann::json& given) {
  const Board board = read_given(given);
  std::vector<size_t> cage_of_cell(static_cast<size_t>(board.side * board.side));
  for (size_t cage = 0; cage < board.cages.size(); ++cage) {
    for (const int64_t cell : board.cages[cage].cells) cage_of_cell[static_cast<size_t>(cell)] = cage;
  }
  std::string least;
  for (const std::vector<int64_t>& to : turned_places(board.side, board.side)) {
    std::vector<size_t> cage_at(to.size()), order;
    for (size_t cell = 0; cell < to.size(); ++cell)
      cage_at[static_cast<size_t>(to[cell])] = cage_of_cell[cell];
    std::vector<char> names(board.cages.size(), 0);
    std::string text;
    for (const size_t cage : cage_at) {
      if (names[cage] == 0) {
        order.push_back(cage);
        names[cage] = static_cast<char>('0' + static_cast<char>(order.size()));
      }
      text += names[cage];
    }
    if (!least.empty() && least.compare(0, text.size(), text) < 0) continue;
    for (const size_t cage : order)
      (text += std::to_string(board.cages[cage].target)) += text_of(board.cages[cage].sign);
    if (least.empty() || text < least) least = text;
  }
  return least;
}

// "(2,3)", counted from 1; -1: it is no cell of the grid.
int64_t place_at(const nlohmann::json& json, int64_t side) {
  const auto* text = json.get_ptr<const std::string*>();
  if (text != nullptr && text->size() == 5 && (*text)[0] == '(' && (*text)[2] == ',' && (*text)[4] == ')') {
    const int64_t row = (*text)[1] - '1', column = (*text)[3] - '1';  // as we write them
    if (row >= 0 && row < side && column >= 0 && column < side) return row * side + column;
  }
  const std::optional<Literal> value =
      json.is_string() ? read_literal(json.get<std::string>()) : std::nullopt;
  const auto place = value ? read_pair(*value) : std::nullopt;
  if (!place || place->first < 1 || place->first > side || place->second < 1 || place->second > side)
    return -1;
  return (place->first - 1) * side + place->second - 1;
}

Cage cage_of(const nlohmann::json& json, int64_t side) {
  const auto refuse = [&] {
    refuse_given(kTask.key, "regions with \"cells\", \"target\" (a whole number) and \"operator\" (+ - * ÷)",
                 json);
  };
  const auto cells = json.find("cells"), target = json.find("target"), told = json.find("operator");
  if (cells == json.end() || target == json.end() || told == json.end() || !told->is_string()) refuse();
  const auto sign = std::ranges::find(kSigns, std::string_view(told->get_ref<const std::string&>()), text_of);
  if (sign == std::end(kSigns) || !target->is_number_integer() || !cells->is_array() || cells->empty() ||
      static_cast<int64_t>(cells->size()) > side)
    refuse();
  Cage cage{{}, target->get<int64_t>(), *sign};
  cage.cells.reserve(cells->size());
  for (const nlohmann::json& each : *cells) {
    cage.cells.push_back(place_at(each, side));
    if (cage.cells.back() < 0)
      refuse_given(kTask.key, "cells such as \"(1,2)\", inside the grid and counted from 1", each);
  }
  return cage;
}

}  // namespace

std::string_view text_of(Sign sign) {
  constexpr std::string_view kTexts[] = {"+", "-", "*", "÷"};
  return kTexts[static_cast<size_t>(sign)];
}

std::optional<int64_t> made_of(Sign sign, const std::vector<int64_t>& numbers) {
  int64_t sum = 0, product = 1;
  for (const int64_t number : numbers) sum += number, product *= number;
  if (sign == Sign::kSum) return sum;
  if (sign == Sign::kProduct) return product;
  if (numbers.size() != 2) return std::nullopt;
  const auto [less, more] = std::minmax(numbers[0], numbers[1]);
  if (sign == Sign::kDifference) return more - less;
  if (more % less != 0) return std::nullopt;
  return more / less;
}

Board read_given(const nlohmann::json& given) {
  if (!given.is_object() || !given.contains("grid_size") || !given["grid_size"].is_number_integer() ||
      !given.contains("regions") || !given["regions"].is_array() || given["grid_size"].get<int64_t>() < 1 ||
      given["grid_size"].get<int64_t>() > kLargestSide)
    refuse_given(kTask.key, fmt::format("\"grid_size\": 1 to {}, and \"regions\": a list", kLargestSide),
                 given);
  Board board{given["grid_size"].get<int64_t>(), {}};
  CellSet covered;
  int64_t cells = 0;
  for (const nlohmann::json& each : given["regions"]) {
    for (const int64_t cell : board.cages.emplace_back(cage_of(each, board.side)).cells)
      covered.add(cell), ++cells;
  }
  if (cells != board.side * board.side || covered.count() != cells)
    refuse_given(kTask.key, "\"regions\": each cell of the grid in one of them", given["regions"]);
  return board;
}

const TaskEntry kTask = {.key = "calcudoko",
                         .title = "Calcudoko",
                         .version = 2,
                         .knobs = kKnobs,
                         .generate = generate,
                         .prompt = prompt,
                         .verify = verify,
                         .count_solutions = count_of_given,
                         .canonical = canonical};

}  // namespace longhaul::puzzles::calcudoko
