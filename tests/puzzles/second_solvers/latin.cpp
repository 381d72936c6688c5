// The family of Latin squares: a variable for each cell and number.
#include <functional>

#include "puzzles/second_solvers/encoders.h"

namespace longhaul::puzzles {
namespace {

struct Square {
  size_t side = 0;
  Literals all;
  int at(size_t row, size_t column, size_t number) const {
    return all[(row * side + column) * side + number - 1];
  }
};

Square latin_square(size_t side, Cnf& cnf) {
  Square square{side, {}};
  for (size_t i = 0; i < side * side * side; ++i) square.all.push_back(cnf.variable());
  for (size_t a = 0; a < side; ++a) {
    for (size_t b = 0; b < side; ++b) {
      Literals cell, row, column;
      for (size_t i = 0; i < side; ++i) {
        cell.push_back(square.at(a, b, i + 1));
        row.push_back(square.at(a, i, b + 1));
        column.push_back(square.at(i, a, b + 1));
      }
      for (const Literals& group : {cell, row, column}) cnf.exactly_one(group);
    }
  }
  return square;
}

void add_given_numbers(const nlohmann::json& grid, const Square& square, Cnf& cnf) {
  for (size_t r = 0; r < grid.size(); ++r) {
    for (size_t c = 0; c < grid[r].size(); ++c) {
      if (grid[r][c].is_number()) cnf.clause({square.at(r, c, grid[r][c].get<size_t>())});
    }
  }
}

// `tops[i]` of the line holds where no cell before the i-th has its height or more; as many of them as the
// clue says.
void add_view(const std::vector<std::pair<size_t, size_t>>& line, int64_t clue, const Square& square,
              Cnf& cnf) {
  Literals before(square.side + 1);  // [h]: some cell so far has height h or more
  for (int& each : before) each = cnf.variable(), cnf.clause({-each});
  std::vector<std::pair<int, int64_t>> seen;
  for (const auto& [row, column] : line) {
    const int sees = cnf.variable();
    Literals now(square.side + 1);
    for (size_t h = 1; h <= square.side; ++h) {
      cnf.clause({-square.at(row, column, h), before[h], sees});
      cnf.clause({-square.at(row, column, h), -before[h], -sees});
      Literals any = {before[h]};
      for (size_t higher = h; higher <= square.side; ++higher) any.push_back(square.at(row, column, higher));
      now[h] = cnf.variable();
      cnf.iff_any(now[h], any);
    }
    before = now;
    seen.emplace_back(sees, 1);
  }
  cnf.adds_up(seen, clue);
}

}  // namespace

Literals sudoku_clauses(const nlohmann::json& given, Cnf& cnf) {
  const nlohmann::json& board = given["original_sudoku"];
  const Square square = latin_square(board.size(), cnf);
  const size_t tall = board.size() == 9 ? 3 : 2, wide = board.size() / tall;
  for (size_t box = 0; box < board.size(); ++box) {
    for (size_t number = 1; number <= board.size(); ++number) {
      Literals cells;
      for (size_t i = 0; i < board.size(); ++i)
        cells.push_back(square.at(box / (board.size() / wide) * tall + i / wide,
                                  box % (board.size() / wide) * wide + i % wide, number));
      cnf.exactly_one(cells);
    }
  }
  add_given_numbers(board, square, cnf);
  return square.all;
}

Literals futoshiki_clauses(const nlohmann::json& given, Cnf& cnf) {
  const Square square = latin_square(given["grid_size"].get<size_t>(), cnf);
  add_given_numbers(given["grid"], square, cnf);
  for (const nlohmann::json& sign : given["constraints"]) {
    const bool first_is_larger = sign[2] == ">";
    const nlohmann::json &larger = sign[first_is_larger ? 0 : 1], &smaller = sign[first_is_larger ? 1 : 0];
    for (size_t number = 1; number <= square.side; ++number) {
      Literals either = {-square.at(larger[0], larger[1], number)};
      for (size_t less = 1; less < number; ++less) either.push_back(square.at(smaller[0], smaller[1], less));
      cnf.clause(either);
    }
  }
  return square.all;
}

Literals skyscraper_clauses(const nlohmann::json& given, Cnf& cnf) {
  const auto side = given["n"].get<size_t>();
  const Square square = latin_square(side, cnf);
  if (given.contains("grid")) add_given_numbers(given["grid"], square, cnf);
  for (const std::string name : {"top", "bottom", "left", "right"}) {
    for (size_t place = 0; place < side; ++place) {
      const auto clue = given[name][place].get<int64_t>();
      if (clue == 0) continue;
      std::vector<std::pair<size_t, size_t>> line;
      for (size_t i = 0; i < side; ++i) {
        const size_t along = name == "top" || name == "left" ? i : side - 1 - i;
        line.emplace_back(name == "top" || name == "bottom" ? std::pair(along, place)
                                                            : std::pair(place, along));
      }
      add_view(line, clue, square, cnf);
    }
  }
  return square.all;
}

// A variable for each filling of a cage that makes its target; digits of a cage are different.
Literals calcudoko_clauses(const nlohmann::json& given, Cnf& cnf) {
  const Square square = latin_square(given["grid_size"].get<size_t>(), cnf);
  for (const nlohmann::json& cage : given["regions"]) {
    std::vector<std::pair<size_t, size_t>> cells;
    for (const nlohmann::json& cell : cage["cells"]) {
      const auto text = cell.get<std::string>();  // "(r,c)", from 1
      const size_t comma = text.find(',');
      cells.emplace_back(std::stoul(text.substr(1)) - 1, std::stoul(text.substr(comma + 1)) - 1);
    }
    const auto operation = cage["operator"].get<std::string>();
    const auto target = cage["target"].get<size_t>();
    Literals fillings;
    std::vector<size_t> numbers;
    const std::function<void()> fill = [&] {
      if (numbers.size() < cells.size()) {
        for (size_t number = 1; number <= square.side; ++number) {
          if (std::ranges::find(numbers, number) != numbers.end()) continue;
          numbers.push_back(number);
          fill();
          numbers.pop_back();
        }
        return;
      }
      size_t sum = 0, product = 1;
      for (const size_t number : numbers) sum += number, product *= number;
      const size_t most = std::ranges::max(numbers), least = std::ranges::min(numbers);
      const bool fits = operation == "+"   ? sum == target
                        : operation == "*" ? product == target
                        : operation == "-" ? most - least == target
                                           : most == least * target;
      if (!fits) return;
      fillings.push_back(cnf.variable());
      for (size_t i = 0; i < cells.size(); ++i)
        cnf.clause({-fillings.back(), square.at(cells[i].first, cells[i].second, numbers[i])});
    };
    fill();
    cnf.clause(fillings);
  }
  return square.all;
}

}  // namespace longhaul::puzzles
