// Boards of cells that are marked or not: campsites, norinori, stars and walls.
#include <cstdlib>
#include <map>

#include "puzzles/second_solvers/encoders.h"

namespace longhaul::puzzles {
namespace {

struct Cells {
  size_t rows = 0, columns = 0;
  Literals all;

  Cells(size_t row_count, size_t column_count, Cnf& cnf) : rows(row_count), columns(column_count) {
    for (size_t i = 0; i < rows * columns; ++i) all.push_back(cnf.variable());
  }
  // Places that share a side with one, or a side or corner.
  std::vector<size_t> near(size_t place, bool corners) const {
    std::vector<size_t> found;
    for (size_t other = 0; other < all.size(); ++other) {
      const auto apart = [](size_t a, size_t b) { return a > b ? a - b : b - a; };
      const size_t r = apart(place / columns, other / columns), c = apart(place % columns, other % columns);
      if (corners ? r <= 1 && c <= 1 && r + c > 0 : r + c == 1) found.push_back(other);
    }
    return found;
  }
};

void add_count(const Literals& literals, int64_t count, Cnf& cnf) {
  std::vector<std::pair<int, int64_t>> weighted;
  for (const int literal : literals) weighted.emplace_back(literal, 1);
  cnf.adds_up(weighted, count);
}

void add_lines(const Cells& cells, const std::vector<int64_t>& rows, const std::vector<int64_t>& columns,
               Cnf& cnf) {
  for (size_t r = 0; r < cells.rows; ++r)
    add_count({cells.all.begin() + static_cast<int64_t>(r * cells.columns),
               cells.all.begin() + static_cast<int64_t>((r + 1) * cells.columns)},
              rows[r], cnf);
  for (size_t c = 0; c < cells.columns; ++c) {
    Literals column;
    for (size_t r = 0; r < cells.rows; ++r) column.push_back(cells.all[r * cells.columns + c]);
    add_count(column, columns[c], cnf);
  }
}

void add_apart(const Cells& cells, Cnf& cnf) {
  for (size_t place = 0; place < cells.all.size(); ++place) {
    for (const size_t other : cells.near(place, true)) {
      if (other > place) cnf.clause({-cells.all[place], -cells.all[other]});
    }
  }
}

std::map<std::string, Literals> by_region(const nlohmann::json& grid, const Cells& cells) {
  std::map<std::string, Literals> regions;
  for (size_t place = 0; place < cells.all.size(); ++place)
    regions[grid[place / cells.columns][place % cells.columns].get<std::string>()].push_back(
        cells.all[place]);
  return regions;
}

}  // namespace

// A variable more for each tree and tent beside it that belong together.
Literals campsite_clauses(const nlohmann::json& given, Cnf& cnf) {
  const nlohmann::json& grid = given["grid"];
  const Cells tents(grid.size(), grid[0].size(), cnf);
  add_lines(tents, given["row_constraints"].get<std::vector<int64_t>>(),
            given["col_constraints"].get<std::vector<int64_t>>(), cnf);
  add_apart(tents, cnf);
  const auto is_tree = [&](size_t place) {
    return grid[place / tents.columns][place % tents.columns] == "T";
  };
  std::vector<Literals> of_tent(tents.all.size());
  for (size_t tree = 0; tree < tents.all.size(); ++tree) {
    if (!is_tree(tree)) continue;
    cnf.clause({-tents.all[tree]});
    Literals of_tree;
    for (const size_t place : tents.near(tree, false)) {
      const int pair = cnf.variable();
      cnf.clause({-pair, tents.all[place]});
      of_tree.push_back(pair);
      of_tent[place].push_back(pair);
    }
    cnf.exactly_one(of_tree);
  }
  for (size_t place = 0; place < tents.all.size(); ++place) {
    for (size_t i = 0; i < of_tent[place].size(); ++i) {
      for (size_t j = 0; j < i; ++j) cnf.clause({-of_tent[place][i], -of_tent[place][j]});
    }
    Literals some = of_tent[place];
    some.push_back(-tents.all[place]);
    cnf.clause(some);
  }
  return tents.all;
}

Literals norinori_clauses(const nlohmann::json& given, Cnf& cnf) {
  const nlohmann::json& grid = given["region_grid"];
  const Cells covered(grid.size(), grid[0].size(), cnf);
  for (const auto& [region, literals] : by_region(grid, covered)) {
    if (region != "X") add_count(literals, 2, cnf);
    for (const int literal : literals) {
      if (region == "X") cnf.clause({literal});
    }
  }
  for (size_t place = 0; place < covered.all.size(); ++place) {  // one neighbour of a covered cell is covered
    const std::vector<size_t> near = covered.near(place, false);
    Literals some = {-covered.all[place]};
    for (size_t i = 0; i < near.size(); ++i) {
      some.push_back(covered.all[near[i]]);
      for (size_t j = 0; j < i; ++j)
        cnf.clause({-covered.all[place], -covered.all[near[i]], -covered.all[near[j]]});
    }
    cnf.clause(some);
  }
  return covered.all;
}

Literals star_clauses(const nlohmann::json& given, Cnf& cnf) {
  const nlohmann::json& grid = given["region_grid"];
  const Cells stars(grid.size(), grid.size(), cnf);
  const std::vector<int64_t> each(grid.size(), given["k"].get<int64_t>());
  add_lines(stars, each, each, cnf);
  add_apart(stars, cnf);
  for (const auto& [region, literals] : by_region(grid, stars)) add_count(literals, each[0], cnf);
  return stars.all;
}

// A variable for each cell that may belong to the island of a number, and one for each number of steps in
// which the number reaches it.
Literals number_wall_clauses(const nlohmann::json& given, Cnf& cnf) {
  const nlohmann::json& grid = given["grid"];
  const Cells land(grid.size(), grid[0].size(), cnf);
  // of a cell: which number's, and the variable
  std::vector<std::vector<std::pair<size_t, int>>> islands_of(land.all.size());
  size_t number = 0;
  for (size_t from = 0; from < land.all.size(); ++from) {
    const nlohmann::json& cell = grid[from / land.columns][from % land.columns];
    if (!cell.is_number()) continue;
    const auto size = cell.get<size_t>();
    std::vector<int> own(land.all.size(), 0), reached(land.all.size(), 0);
    for (size_t place = 0; place < own.size(); ++place) {
      own[place] = cnf.variable();
      reached[place] = cnf.variable();
      cnf.clause({place == from ? reached[place] : -reached[place]});
      islands_of[place].emplace_back(number, own[place]);
    }
    cnf.clause({own[from]});
    for (size_t step = 1; step < size; ++step) {
      std::vector<int> next;
      for (size_t place = 0; place < own.size(); ++place) {
        Literals any = {reached[place]};
        for (const size_t beside : land.near(place, false)) any.push_back(reached[beside]);
        const int near = cnf.variable(), both = cnf.variable();  // both ⇔ near ∧ own
        cnf.iff_any(near, any);
        cnf.clause({-both, near});
        cnf.clause({-both, own[place]});
        cnf.clause({both, -near, -own[place]});
        next.push_back(both);
      }
      reached = next;
    }
    for (size_t place = 0; place < own.size(); ++place) cnf.clause({-own[place], reached[place]});
    add_count({own.begin(), own.end()}, static_cast<int64_t>(size), cnf);
    ++number;
  }
  for (size_t place = 0; place < land.all.size(); ++place) {
    Literals any;
    for (const auto& [island, own] : islands_of[place]) any.push_back(own);
    cnf.iff_any(land.all[place], any);
    std::vector<size_t> near = land.near(place, true);
    near.push_back(place);
    for (const size_t other : near) {
      for (const auto& [island, own] : islands_of[place]) {
        for (const auto& [other_island, other_own] : islands_of[other]) {
          if (island < other_island) cnf.clause({-own, -other_own});
        }
      }
    }
    if (place / land.columns + 1 < land.rows && place % land.columns + 1 < land.columns)
      cnf.clause({land.all[place], land.all[place + 1], land.all[place + land.columns],
                  land.all[place + land.columns + 1]});
  }
  return land.all;
}

}  // namespace longhaul::puzzles
