#include "puzzles/futoshiki/futoshiki.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "puzzles/engine/answers/literal.h"
#include "puzzles/engine/bits.h"
#include "puzzles/engine/given.h"
#include "puzzles/engine/grids/filled.h"
#include "puzzles/engine/grids/latin.h"

namespace longhaul::puzzles::futoshiki {
namespace {

constexpr int64_t kLargestSide = 9;
constexpr Knob kKnobs[] = {{"side", 3, kLargestSide, 4, 7, "rows and columns"},
                           {"signs", 0, 144, 4, 18, "signs at least (of neighbours that there are)"},
                           {"given_percent", 0, 90, 40, 5, "percent of the numbers that are given at least"}};

class Search {
 public:
  Search(const Board& board, int64_t limit, SearchBudget& budget)
      : side_(board.grid.rows),
        limit_(limit),
        budget_(budget),
        grid_(board.grid),
        cells_(side_),
        signs_(grid_.cells.size()) {
    for (const Sign& sign : board.signs) {
      signs_[static_cast<size_t>(sign.larger)].push_back({sign.smaller, true});
      signs_[static_cast<size_t>(sign.smaller)].push_back({sign.larger, false});
    }
    for (int64_t cell = 0; cell < side_ * side_; ++cell) {
      const int64_t number = grid_.cells[static_cast<size_t>(cell)];
      if (number == kBlank) continue;
      if ((cells_.free(cell / side_, cell % side_) >> number & 1) == 0) consistent_ = false;
      cells_.put(cell / side_, cell % side_, number);
    }
  }

  SolutionCount count() {
    if (consistent_) step();
    return {found_, !budget_.spent()};
  }

 private:
  struct Neighbour {
    int64_t cell = 0;
    bool smaller = false;  // than this cell
  };

  // Numbers that a cell may hold beside its row, its column and its signs. A neighbour that is open bounds it
  // by what that may hold.
  uint32_t candidates(int64_t cell) const {
    uint32_t free = cells_.free(cell / side_, cell % side_);
    for (const Neighbour& other : signs_[static_cast<size_t>(cell)]) {
      const int64_t number = grid_.cells[static_cast<size_t>(other.cell)];
      const uint32_t its =
          number != kBlank ? uint32_t{1} << number : cells_.free(other.cell / side_, other.cell % side_);
      if (its == 0) return 0;
      if (other.smaller) {
        free &= ~((uint32_t{2} << std::countr_zero(its)) - 1);  // above its least
      } else {
        free &= (uint32_t{1} << (31 - std::countl_zero(its))) - 1;  // below its largest
      }
    }
    return free;
  }

  bool signs_hold(int64_t cell) const {
    return std::ranges::all_of(signs_[static_cast<size_t>(cell)], [&](const Neighbour& other) {
      const int64_t number = grid_.cells[static_cast<size_t>(other.cell)],
                    own = grid_.cells[static_cast<size_t>(cell)];
      return number == kBlank || (other.smaller ? own > number : own < number);
    });
  }

  bool step() {
    if (!budget_.spend()) return false;
    int64_t best = -1;
    int fewest = 100;
    uint32_t open = 0;
    for (int64_t cell = 0; cell < side_ * side_ && fewest > 1; ++cell) {
      if (grid_.cells[static_cast<size_t>(cell)] != kBlank) continue;
      const uint32_t may = candidates(cell);
      if (bit_count(may) < fewest) best = cell, fewest = bit_count(may), open = may;
    }
    if (best < 0) {
      for (int64_t cell = 0; cell < side_ * side_; ++cell) {
        if (!signs_hold(cell)) return true;  // among given numbers
      }
      return ++found_ < limit_;
    }
    for (int64_t number = 1; number <= side_; ++number) {
      if ((open >> number & 1) == 0) continue;
      grid_.cells[static_cast<size_t>(best)] = number;
      cells_.put(best / side_, best % side_, number);
      const bool go_on = step();
      cells_.take(best / side_, best % side_, number);
      grid_.cells[static_cast<size_t>(best)] = kBlank;
      if (!go_on) return false;
    }
    return true;
  }

  int64_t side_, limit_;
  SearchBudget& budget_;
  NumberGrid grid_;
  LatinCells cells_;
  std::vector<std::vector<Neighbour>> signs_;
  int64_t found_ = 0;
  bool consistent_ = true;
};

nlohmann::json given_of(const Board& board) {
  const int64_t side = board.grid.rows;
  nlohmann::json coordinates = nlohmann::json::array(), constraints = nlohmann::json::array();
  for (int64_t cell = 0; cell < side * side; ++cell) {
    if (board.grid.cells[static_cast<size_t>(cell)] != kBlank)
      coordinates.push_back({cell / side, cell % side});
  }
  for (const Sign& sign : board.signs) {
    constraints.push_back(
        {{sign.larger / side, sign.larger % side}, {sign.smaller / side, sign.smaller % side}, ">"});
  }
  return {{"grid_size", side},
          {"grid", grid_json(board.grid)},
          {"prefilled_coords", coordinates},
          {"constraints", constraints}};
}

std::optional<Puzzle> generate(const KnobValues& knobs, Draw& draw) {
  const int64_t side = knobs["side"];
  const NumberGrid full = random_latin_square(side, draw);
  std::vector<Sign> all;
  for (int64_t cell = 0; cell < side * side; ++cell) {
    for (const int64_t other :
         {cell % side + 1 < side ? cell + 1 : -1, cell + side < side * side ? cell + side : -1}) {
      if (other < 0) continue;
      const bool larger = full.cells[static_cast<size_t>(cell)] > full.cells[static_cast<size_t>(other)];
      all.push_back(larger ? Sign{cell, other} : Sign{other, cell});
    }
  }
  draw.shuffle(all);
  Board board{NumberGrid(side, side, kBlank), {}};
  const size_t signs = std::min(all.size(), static_cast<size_t>(knobs["signs"]));
  board.signs.assign(all.begin(), all.begin() + static_cast<int64_t>(signs));
  std::vector<size_t> order(full.cells.size());
  std::iota(order.begin(), order.end(), size_t{0});
  draw.shuffle(order);
  size_t given = full.cells.size() * static_cast<size_t>(knobs["given_percent"]) / 100;
  for (size_t i = 0; i < given; ++i) board.grid.cells[order[i]] = full.cells[order[i]];
  // More signs, then more numbers, until nothing else fits.
  for (size_t next = signs;;) {
    SearchBudget budget{.nodes = 50'000};
    if (count_solutions(board, 2, budget).unique()) break;
    if (next < all.size() && (given == order.size() || draw.chance(50))) {
      board.signs.push_back(all[next++]);
    } else if (given < order.size()) {
      board.grid.cells[order[given]] = full.cells[order[given]];
      ++given;
    } else {
      return std::nullopt;
    }
  }
  std::ranges::sort(board.signs, {}, [](const Sign& sign) {
    return std::pair(std::min(sign.larger, sign.smaller), std::max(sign.larger, sign.smaller));
  });
  return Puzzle{.given = given_of(board), .solution = grid_payload(full)};
}

Verdict verify(const nlohmann::json& given, std::string_view payload) {
  const Board board = read_given(given);
  const FilledBoard answer = read_filled(board.grid, payload);
  if (!answer.verdict.accepted()) return answer.verdict;
  if (Verdict latin = judged_as_latin(answer.grid); !latin.accepted()) return latin;
  const int64_t side = board.grid.rows;
  for (const Sign& sign : board.signs) {
    if (answer.grid.cells[static_cast<size_t>(sign.larger)] <=
        answer.grid.cells[static_cast<size_t>(sign.smaller)])
      return {VerdictCode::kRuleBroken,
              fmt::format("({},{}) must be larger than ({},{})", sign.larger / side + 1,
                          sign.larger % side + 1, sign.smaller / side + 1, sign.smaller % side + 1)};
  }
  return {};
}

SolutionCount count_of_given(const nlohmann::json& given, int64_t limit, SearchBudget& budget) {
  return count_solutions(read_given(given), limit, budget);
}

// Turned and mirrored, the board that reads smallest.
std::string canonical(const nlohmann::json& given) {
  const Board board = read_given(given);
  const int64_t side = board.grid.rows;
  std::string least;
  for (const std::vector<int64_t>& to : turned_places(side, side)) {
    std::vector<std::pair<int64_t, int64_t>> signs;
    for (const Sign& sign : board.signs)
      signs.emplace_back(to[static_cast<size_t>(sign.larger)], to[static_cast<size_t>(sign.smaller)]);
    std::ranges::sort(signs);
    NumberGrid grid(side, side);
    for (size_t cell = 0; cell < to.size(); ++cell)
      grid.cells[static_cast<size_t>(to[cell])] = board.grid.cells[cell];
    std::string text = grid_lines(grid) + ' ';
    for (const auto& [larger, smaller] : signs) text += fmt::format("{}>{};", larger, smaller);
    if (least.empty() || text < least) least = text;
  }
  return least;
}

// The words between blanks, commas and brackets.
std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words(1);
  for (const char c : line) {
    if (std::string_view(" \t\r,[]|'\"").find(c) == std::string_view::npos) {
      words.back() += c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

// Public data give the numbers in the question alone: lines of numbers and X after "Current puzzle:".
nlohmann::json from_reference(const nlohmann::json& object) {
  const nlohmann::json& metadata = object.at("metadata");
  if (metadata.contains("grid")) return metadata;
  const std::string question = object.value("question", "");
  constexpr std::string_view kHeader = "Current puzzle:";
  const size_t header = question.find(kHeader);
  const bool has_side = metadata.contains("grid_size") && metadata["grid_size"].is_number_integer();
  if (header == std::string_view::npos || !has_side)
    refuse_given(kTask.key,
                 fmt::format("\"grid\", or \"grid_size\" and a question with the line \"{}\"", kHeader),
                 metadata);
  const auto side = metadata["grid_size"].get<int64_t>();
  nlohmann::json grid = nlohmann::json::array(), given = nlohmann::json::array();
  std::string_view rest = std::string_view(question).substr(header + kHeader.size());
  while (!rest.empty() && static_cast<int64_t>(grid.size()) < side) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const std::vector<std::string> words = words_of(line);
    if (words.empty()) continue;
    nlohmann::json& row = grid.emplace_back(nlohmann::json::array());
    for (const std::string& word : words) {
      const std::optional<int64_t> number = read_integer(word);
      if (number) given.push_back({grid.size() - 1, row.size()});
      row.push_back(number ? nlohmann::json(*number) : nlohmann::json(word));
    }
  }
  if (metadata.contains("prefilled_coords")) {
    nlohmann::json told = metadata["prefilled_coords"];
    if (told.is_array()) std::sort(told.begin(), told.end());
    if (told != given)
      refuse_given(kTask.key, "numbers in the question at the places of \"prefilled_coords\"", metadata);
  }
  nlohmann::json whole = metadata;
  whole["grid"] = grid;
  return whole;
}

int64_t place_of(const nlohmann::json& json, int64_t side) {
  if (!json.is_array() || json.size() != 2 || !json[0].is_number_integer() || !json[1].is_number_integer())
    return -1;
  const auto row = json[0].get<int64_t>(), column = json[1].get<int64_t>();
  return row < 0 || row >= side || column < 0 || column >= side ? -1 : row * side + column;
}

}  // namespace

Board read_given(const nlohmann::json& given) {
  if (!given.is_object() || !given.contains("grid") || !given.contains("constraints") ||
      !given["constraints"].is_array())
    refuse_given(kTask.key, "\"grid\": rows of numbers and \"X\", and \"constraints\": a list", given);
  Board board{number_grid(given["grid"], "grid", kLargestSide), {}};
  const int64_t side = board.grid.rows;
  if (board.grid.columns != side ||
      std::ranges::any_of(board.grid.cells, [&](int64_t cell) { return cell == 0 || cell > side; }))
    refuse_given(kTask.key, "a square grid of numbers from 1 to its side", given);
  for (const nlohmann::json& one : given["constraints"]) {
    const bool whole = one.is_array() && one.size() == 3 && one[2].is_string();
    const int64_t a = whole ? place_of(one[0], side) : -1, b = whole ? place_of(one[1], side) : -1;
    const std::string sign = whole ? one[2].get<std::string>() : "";
    if (a < 0 || b < 0 || a == b || (sign != ">" && sign != "<"))
      refuse_given(kTask.key, "constraints [[row, column], [row, column], \">\" or \"<\"], inside the grid",
                   one);
    board.signs.push_back(sign == ">" ? Sign{a, b} : Sign{b, a});
  }
  return board;
}

SolutionCount count_solutions(const Board& board, int64_t limit, SearchBudget& budget) {
  return Search(board, limit, budget).count();
}

const TaskEntry kTask = {.key = "futoshiki",
                         .title = "Futoshiki",
                         .version = 2,
                         .knobs = kKnobs,
                         .generate = generate,
                         .prompt = prompt,
                         .verify = verify,
                         .count_solutions = count_of_given,
                         .canonical = canonical,
                         .from_reference = from_reference};

}  // namespace longhaul::puzzles::futoshiki
