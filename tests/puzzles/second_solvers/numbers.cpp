// Boards of numbers, arrows, words and houses.
#include <cstdlib>
#include <map>
#include <set>

#include "puzzles/second_solvers/encoders.h"

namespace longhaul::puzzles {

// A variable for each cell and number that is near enough to all that are given.
Literals numbrix_clauses(const nlohmann::json& given, Cnf& cnf) {
  const nlohmann::json& grid = given["grid"];
  const auto side = static_cast<int64_t>(grid.size()), cells = side * side;
  const auto apart = [&](int64_t a, int64_t b) {
    return std::abs(a / side - b / side) + std::abs(a % side - b % side);
  };
  std::map<int64_t, int64_t> known;  // number to cell
  for (int64_t cell = 0; cell < cells; ++cell) {
    const nlohmann::json& one = grid[static_cast<size_t>(cell / side)][static_cast<size_t>(cell % side)];
    if (one.is_number()) known[one.get<int64_t>()] = cell;
  }
  std::map<std::pair<int64_t, int64_t>, int> at;  // cell and number
  Literals all;
  for (int64_t cell = 0; cell < cells; ++cell) {
    for (int64_t number = 1; number <= cells; ++number) {
      bool near = true;
      for (const auto& [other, place] : known)
        near = near && apart(cell, place) <= std::abs(number - other) && (cell == place) == (number == other);
      if (near) all.push_back(at[{cell, number}] = cnf.variable());
    }
  }
  for (int64_t one = 0; one < cells; ++one) {
    Literals of_cell, of_number;
    for (int64_t other = 0; other < cells; ++other) {
      if (const auto found = at.find({one, other + 1}); found != at.end()) of_cell.push_back(found->second);
      if (const auto found = at.find({other, one + 1}); found != at.end()) of_number.push_back(found->second);
    }
    cnf.exactly_one(of_cell);
    cnf.exactly_one(of_number);
  }
  for (const auto& [key, variable] : at) {
    if (key.second == cells) continue;
    Literals next = {-variable};
    for (int64_t other = 0; other < cells; ++other) {
      const auto found = at.find({other, key.second + 1});
      if (apart(other, key.first) == 1 && found != at.end()) next.push_back(found->second);
    }
    cnf.clause(next);
  }
  return all;
}

Literals survo_clauses(const nlohmann::json& given, Cnf& cnf) {
  const nlohmann::json& matrix = given["original_matrix"];
  const size_t last = matrix.size() - 1;
  std::map<int64_t, int64_t> times;
  for (const nlohmann::json& number : given["candidate_numbers"]) ++times[number.get<int64_t>()];
  std::map<int64_t, std::vector<std::pair<int, int64_t>>> of_number;
  std::vector<std::vector<std::pair<int, int64_t>>> rows(last), columns(last);
  std::vector<int64_t> row_rest(last), column_rest(last);
  Literals all;
  for (size_t i = 0; i < last; ++i)
    row_rest[i] = matrix[i][last].get<int64_t>(), column_rest[i] = matrix[last][i].get<int64_t>();
  for (size_t r = 0; r < last; ++r) {
    for (size_t c = 0; c < last; ++c) {
      const auto known = matrix[r][c].get<int64_t>();
      row_rest[r] -= known;
      column_rest[c] -= known;
      if (known != 0) continue;
      Literals cell;
      for (const auto& [number, count] : times) {
        cell.push_back(cnf.variable());
        of_number[number].emplace_back(cell.back(), 1);
        rows[r].emplace_back(cell.back(), number);
        columns[c].emplace_back(cell.back(), number);
      }
      cnf.exactly_one(cell);
      all.insert(all.end(), cell.begin(), cell.end());
    }
  }
  for (const auto& [number, count] : times) cnf.adds_up(of_number[number], count);
  for (size_t i = 0; i < last; ++i) {
    cnf.adds_up(rows[i], row_rest[i]);
    cnf.adds_up(columns[i], column_rest[i]);
  }
  return all;
}

namespace {

constexpr std::pair<const char*, std::pair<int64_t, int64_t>> kWays[] = {
    {"↑", {-1, 0}},  {"↓", {1, 0}},  {"←", {0, -1}}, {"→", {0, 1}},
    {"↖", {-1, -1}}, {"↗", {-1, 1}}, {"↙", {1, -1}}, {"↘", {1, 1}}};

}  // namespace

// A variable for each open cell and way; along a ray, variables for "all so far hold its arrow".
Literals arrow_maze_clauses(const nlohmann::json& given, Cnf& cnf) {
  const nlohmann::json& maze = given["maze"];
  const auto rows = static_cast<int64_t>(maze.size()), columns = static_cast<int64_t>(maze[0].size());
  const auto text = [&](int64_t r, int64_t c) {
    return maze[static_cast<size_t>(r)][static_cast<size_t>(c)].get<std::string>();
  };
  const auto is_number = [&](int64_t r, int64_t c) {
    return std::isdigit(static_cast<unsigned char>(text(r, c)[0])) != 0;
  };
  const auto inside = [&](int64_t r, int64_t c) { return r >= 0 && c >= 0 && r < rows && c < columns; };
  std::map<std::pair<int64_t, int64_t>, Literals> arrows;
  Literals all;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      if (is_number(r, c)) continue;
      Literals& cell = arrows[{r, c}];
      for (const auto& [arrow, way] : kWays) {
        cell.push_back(cnf.variable());
        if (text(r, c) == arrow) cnf.clause({cell.back()});
      }
      cnf.exactly_one(cell);
      all.insert(all.end(), cell.begin(), cell.end());
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      std::vector<std::pair<int, int64_t>> lengths;
      for (size_t d = 0; d < std::size(kWays); ++d) {
        const auto [down, right] = kWays[d].second;
        if (is_number(r, c)) {
          int so_far = 0;
          for (int64_t y = r + down, x = c + right; inside(y, x) && !is_number(y, x); y += down, x += right) {
            const int arrow = arrows[{y, x}][d], whole = cnf.variable();  // whole ⇔ so far ∧ arrow
            cnf.clause({-whole, arrow});
            if (so_far != 0) cnf.clause({-whole, so_far});
            cnf.clause(so_far != 0 ? Literals{whole, -arrow, -so_far} : Literals{whole, -arrow});
            lengths.emplace_back(so_far = whole, 1);
          }
        } else {  // an arrow needs its like before it, or a number
          const int64_t y = r - down, x = c - right;
          const int own = arrows[{r, c}][d];
          if (!inside(y, x)) cnf.clause({-own});
          if (inside(y, x) && !is_number(y, x)) cnf.clause({-own, arrows[{y, x}][d]});
        }
      }
      if (is_number(r, c)) cnf.adds_up(lengths, std::stoll(text(r, c)));
    }
  }
  return all;
}

// A variable for each value and house.
Literals zebra_clauses(const nlohmann::json& given, Cnf& cnf) {
  const auto houses = given["houses"].get<int64_t>();
  std::map<std::string, Literals> of_value;
  Literals all;
  for (const nlohmann::json& attribute : given["attributes"]) {
    for (const nlohmann::json& value : attribute["values"]) {
      Literals& at = of_value[value.get<std::string>()];
      for (int64_t house = 0; house < houses; ++house) at.push_back(cnf.variable());
      cnf.exactly_one(at);
      all.insert(all.end(), at.begin(), at.end());
    }
    for (size_t house = 0; house < static_cast<size_t>(houses); ++house) {
      Literals one;
      for (const nlohmann::json& value : attribute["values"])
        one.push_back(of_value[value.get<std::string>()][house]);
      cnf.exactly_one(one);
    }
  }
  for (const nlohmann::json& clue : given["clues"]) {
    const std::string kind = clue["kind"];
    const Literals& a = of_value[clue["a"].get<std::string>()];
    // houses from 1; of a clue about houses, of_b is of_a
    const auto fits = [&](int64_t of_a, int64_t of_b) {
      const int64_t house = clue.value("house", int64_t{0}), other = clue.value("other_house", int64_t{0}),
                    way = of_b - of_a;
      return kind == "same"          ? way == 0
             : kind == "not_same"    ? way != 0
             : kind == "at"          ? of_a == house
             : kind == "not_at"      ? of_a != house
             : kind == "either"      ? of_a == house || of_a == other
             : kind == "left_of"     ? way == 1
             : kind == "right_of"    ? way == -1
             : kind == "beside"      ? std::abs(way) == 1
             : kind == "before"      ? way > 0
             : kind == "after"       ? way < 0
             : kind == "one_between" ? std::abs(way) == 2
                                     : std::abs(way) == 3;
    };
    for (int64_t i = 1; i <= houses; ++i) {
      if (!clue.contains("b")) {
        if (!fits(i, i)) cnf.clause({-a[static_cast<size_t>(i - 1)]});
        continue;
      }
      Literals some = {-a[static_cast<size_t>(i - 1)]};
      for (int64_t j = 1; j <= houses; ++j) {
        if (fits(i, j)) some.push_back(of_value[clue["b"].get<std::string>()][static_cast<size_t>(j - 1)]);
      }
      cnf.clause(some);
    }
  }
  return all;
}

namespace {

// The runs of two or more X of a direction, as lists of places.
std::vector<std::vector<size_t>> runs_of(const nlohmann::json& grid, bool down) {
  const size_t rows = grid.size(), columns = grid[0].size();
  std::vector<std::vector<size_t>> runs;
  for (size_t line = 0; line < (down ? columns : rows); ++line) {
    std::vector<size_t> run;
    for (size_t i = 0; i <= (down ? rows : columns); ++i) {
      const size_t r = down ? i : line, c = down ? line : i;
      if (r < rows && c < columns && grid[r][c] == "X") {
        run.push_back(r * columns + c);
        continue;
      }
      if (run.size() > 1) runs.push_back(run);
      run.clear();
    }
  }
  return runs;
}

}  // namespace

// A variable for each X cell and letter, and for each run and word of its length; each word is in one run.
Literals wordscapes_clauses(const nlohmann::json& given, Cnf& cnf) {
  const nlohmann::json& grid = given["grid"];
  const size_t columns = grid[0].size();
  std::map<size_t, Literals> letters;
  Literals all;
  for (size_t place = 0; place < grid.size() * columns; ++place) {
    if (grid[place / columns][place % columns] != "X") continue;
    for (int letter = 0; letter < 26; ++letter) letters[place].push_back(cnf.variable());
    cnf.exactly_one(letters[place]);
    all.insert(all.end(), letters[place].begin(), letters[place].end());
  }
  for (const bool down : {false, true}) {
    const nlohmann::json& words = given[down ? "down_words" : "across_words"];
    std::vector<Literals> of_word(words.size());
    for (const std::vector<size_t>& run : runs_of(grid, down)) {
      Literals of_run;
      for (size_t w = 0; w < words.size(); ++w) {
        const auto word = words[w].get<std::string>();
        if (word.size() != run.size()) continue;
        of_run.push_back(cnf.variable());
        of_word[w].push_back(of_run.back());
        for (size_t i = 0; i < run.size(); ++i)
          cnf.clause({-of_run.back(), letters[run[i]][static_cast<size_t>(
                                          std::tolower(static_cast<unsigned char>(word[i])) - 'a')]});
      }
      cnf.exactly_one(of_run);
    }
    for (const Literals& one : of_word) cnf.exactly_one(one);
  }
  return all;
}

}  // namespace longhaul::puzzles
