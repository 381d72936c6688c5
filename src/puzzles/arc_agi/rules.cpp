#include "puzzles/arc_agi/rules.h"

#include <algorithm>
#include <array>
#include <set>

#include "puzzles/arc_agi/objects.h"

namespace longhaul::puzzles::arc_agi {
namespace {

using MaybeGrid = std::optional<NumberGrid>;

struct Direction {
  const char* name;
  int64_t dr, dc;
};
constexpr std::array<Direction, 4> kDirections = {
    {{"right", 0, 1}, {"down", 1, 0}, {"left", 0, -1}, {"up", -1, 0}}};

// The colour of each cell of a result, from its place.
template <class Colour>
MaybeGrid made(int64_t rows, int64_t columns, const Colour& colour) {
  if (rows < 1 || columns < 1 || rows > kLongestSide || columns > kLongestSide) return std::nullopt;
  NumberGrid out(rows, columns);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) out.at(r, c) = colour(r, c);
  }
  return out;
}

// Way 0 to 6 of turning and mirroring, those that change something.
MaybeGrid turned_by(const NumberGrid& grid, int way) {
  const int64_t last_row = grid.rows - 1, last_column = grid.columns - 1;
  switch (way) {
    case 0:
      return made(grid.rows, grid.columns, [&](int64_t r, int64_t c) { return grid.at(r, last_column - c); });
    case 1:
      return made(grid.rows, grid.columns, [&](int64_t r, int64_t c) { return grid.at(last_row - r, c); });
    case 2:
      return made(grid.rows, grid.columns,
                  [&](int64_t r, int64_t c) { return grid.at(last_row - r, last_column - c); });
    case 3:
      return made(grid.columns, grid.rows, [&](int64_t r, int64_t c) { return grid.at(c, r); });
    case 4:
      return made(grid.columns, grid.rows, [&](int64_t r, int64_t c) { return grid.at(last_row - c, r); });
    case 5:
      return made(grid.columns, grid.rows, [&](int64_t r, int64_t c) { return grid.at(c, last_column - r); });
    default:
      return made(grid.columns, grid.rows,
                  [&](int64_t r, int64_t c) { return grid.at(last_row - c, last_column - r); });
  }
}

// Cells fall one by one, those that are nearest to the side first.
MaybeGrid fallen(const NumberGrid& grid, const Direction& way) {
  NumberGrid out = grid;
  for (int64_t i = 0; i < grid.rows + grid.columns; ++i) {
    for (int64_t r = 0; r < grid.rows; ++r) {
      for (int64_t c = 0; c < grid.columns; ++c) {
        if (out.at(r, c) == 0 || !out.holds(r + way.dr, c + way.dc) || out.at(r + way.dr, c + way.dc) != 0)
          continue;
        std::swap(out.at(r, c), out.at(r + way.dr, c + way.dc));
      }
    }
  }
  return out;
}

MaybeGrid shifted_by_one(const NumberGrid& grid, const Direction& way) {
  return made(grid.rows, grid.columns, [&](int64_t r, int64_t c) {
    return grid.holds(r - way.dr, c - way.dc) ? grid.at(r - way.dr, c - way.dc) : 0;
  });
}

// Every coloured cell colours the empty cells that follow it in a direction, up to the next coloured one.
NumberGrid with_rays(const NumberGrid& grid, int64_t dr, int64_t dc) {
  NumberGrid out = grid;
  for (int64_t r = 0; r < grid.rows; ++r) {
    for (int64_t c = 0; c < grid.columns; ++c) {
      if (grid.at(r, c) == 0) continue;
      for (int64_t y = r + dr, x = c + dc; grid.holds(y, x) && grid.at(y, x) == 0; y += dr, x += dc)
        out.at(y, x) = grid.at(r, c);
    }
  }
  return out;
}

// In the four diagonal directions; none where rays of two colours meet, as nothing shows which of them wins.
MaybeGrid with_diagonal_rays(const NumberGrid& grid) {
  NumberGrid out = grid;
  for (const auto& [dr, dc] : {std::pair<int64_t, int64_t>{1, 1}, {1, -1}, {-1, 1}, {-1, -1}}) {
    const NumberGrid rays = with_rays(grid, dr, dc);
    for (size_t cell = 0; cell < out.cells.size(); ++cell) {
      if (rays.cells[cell] == 0) continue;
      if (out.cells[cell] != 0 && out.cells[cell] != rays.cells[cell]) return std::nullopt;
      out.cells[cell] = rays.cells[cell];
    }
  }
  return out;
}

// Empty areas that do not reach the border take the colour of the cells around them, where that is one.
MaybeGrid filled_by_walls(const NumberGrid& grid) {
  NumberGrid empty(grid.rows, grid.columns), out = grid;
  for (size_t cell = 0; cell < grid.cells.size(); ++cell) empty.cells[cell] = grid.cells[cell] == 0 ? 1 : 0;
  for (const Object& area : objects_of(empty)) {
    if (touches_border(empty, area)) continue;
    std::set<int64_t> walls;
    for (const size_t cell : area.cells) {
      const int64_t row = static_cast<int64_t>(cell) / grid.columns,
                    column = static_cast<int64_t>(cell) % grid.columns;
      for (const Direction& way : kDirections) walls.insert(grid.at(row + way.dr, column + way.dc));
    }
    walls.erase(0);
    if (walls.size() > 1) return std::nullopt;
    for (const size_t cell : area.cells) out.cells[cell] = *walls.begin();
  }
  return out;
}

// The colours of one period of a mosaic; none where cells that should be alike differ, or nothing is seen of
// one.
MaybeGrid mosaic_tile(const NumberGrid& grid, int64_t rows, int64_t columns) {
  NumberGrid tile(rows, columns);
  for (int64_t r = 0; r < grid.rows; ++r) {
    for (int64_t c = 0; c < grid.columns; ++c) {
      int64_t& known = tile.at(r % rows, c % columns);
      if (grid.at(r, c) == 0) continue;
      if (known != 0 && known != grid.at(r, c)) return std::nullopt;
      known = grid.at(r, c);
    }
  }
  return std::ranges::find(tile.cells, 0) == tile.cells.end() ? MaybeGrid(tile) : std::nullopt;
}

// Empty cells of a mosaic, which repeats the smallest tile that it can be made of, are restored.
MaybeGrid restored_mosaic(const NumberGrid& grid) {
  for (int64_t cells = 2; cells <= 9; ++cells) {
    for (int64_t rows = 1; rows <= cells; ++rows) {
      if (cells % rows != 0 || rows * 2 > grid.rows || cells / rows * 2 > grid.columns) continue;
      const MaybeGrid tile = mosaic_tile(grid, rows, cells / rows);
      if (tile)
        return made(grid.rows, grid.columns,
                    [&](int64_t r, int64_t c) { return tile->at(r % tile->rows, c % tile->columns); });
    }
  }
  return std::nullopt;
}

// Empty cells that no path of empty cells joins to the border.
MaybeGrid filled_inside(const NumberGrid& grid, int64_t colour) {
  NumberGrid empty(grid.rows, grid.columns);
  for (size_t cell = 0; cell < grid.cells.size(); ++cell) empty.cells[cell] = grid.cells[cell] == 0 ? 1 : 0;
  NumberGrid out = grid;
  for (const Object& area : objects_of(empty)) {
    if (touches_border(empty, area)) continue;
    for (const size_t cell : area.cells) out.cells[cell] = colour;
  }
  return out;
}

// Two cells of one colour in a row or a column with nothing but empty cells between them are joined; none
// where lines of two colours would cross.
MaybeGrid joined_points(const NumberGrid& grid) {
  NumberGrid out = grid;
  for (int64_t r = 0; r < grid.rows; ++r) {
    for (int64_t c = 0; c < grid.columns; ++c) {
      for (const auto& [dr, dc] : {std::pair<int64_t, int64_t>{0, 1}, {1, 0}}) {
        if (grid.at(r, c) == 0) continue;
        int64_t y = r + dr, x = c + dc;
        while (grid.holds(y, x) && grid.at(y, x) == 0) y += dr, x += dc;
        if (!grid.holds(y, x) || grid.at(y, x) != grid.at(r, c)) continue;
        for (int64_t v = r + dr, u = c + dc; v != y || u != x; v += dr, u += dc) {
          if (out.at(v, u) != 0 && out.at(v, u) != grid.at(r, c)) return std::nullopt;
          out.at(v, u) = grid.at(r, c);
        }
      }
    }
  }
  return out;
}

MaybeGrid outlined(const NumberGrid& grid, int64_t colour) {
  return made(grid.rows, grid.columns, [&](int64_t r, int64_t c) {
    if (grid.at(r, c) != 0) return grid.at(r, c);
    for (int64_t y = r - 1; y <= r + 1; ++y) {
      for (int64_t x = c - 1; x <= c + 1; ++x) {
        if (grid.holds(y, x) && grid.at(y, x) != 0) return colour;
      }
    }
    return int64_t{0};
  });
}

// The one object that has more (fewer) cells than any other; none where two have as many.
std::optional<Object> extreme_object(const NumberGrid& grid, bool largest) {
  std::vector<Object> objects = objects_of(grid);
  if (objects.size() < 2) return std::nullopt;
  std::ranges::sort(objects, [&](const Object& a, const Object& b) {
    return largest ? a.cells.size() > b.cells.size() : a.cells.size() < b.cells.size();
  });
  if (objects[0].cells.size() == objects[1].cells.size()) return std::nullopt;
  return objects[0];
}

// The only object of its colour, where every other colour has two objects at least.
std::optional<Object> odd_object(const NumberGrid& grid) {
  std::array<std::vector<Object>, 10> by_colour;
  for (Object& object : objects_of(grid)) {
    const int64_t colour = grid.cells[object.cells[0]];
    if (std::ranges::any_of(object.cells, [&](size_t cell) { return grid.cells[cell] != colour; }))
      return std::nullopt;
    by_colour[static_cast<size_t>(colour)].push_back(std::move(object));
  }
  const auto is_alone = [](const std::vector<Object>& objects) { return objects.size() == 1; };
  const auto alone = std::ranges::find_if(by_colour, is_alone);
  const bool others =
      std::ranges::any_of(by_colour, [](const std::vector<Object>& objects) { return objects.size() > 1; });
  if (std::ranges::count_if(by_colour, is_alone) != 1 || !others) return std::nullopt;
  return (*alone)[0];
}

MaybeGrid objects_where(const NumberGrid& grid,
                        bool (*wanted)(const NumberGrid& grid, const Object& object)) {
  std::vector<Object> objects = objects_of(grid);
  std::erase_if(objects, [&](const Object& object) { return !wanted(grid, object); });
  return only(grid, objects);
}

MaybeGrid most_frequent_colour(const NumberGrid& grid) {
  std::array<int64_t, 10> counts{};
  for (const int64_t cell : grid.cells) ++counts[static_cast<size_t>(cell)];
  counts[0] = 0;
  const auto most = std::ranges::max_element(counts);
  if (*most == 0 || std::ranges::count(counts, *most) > 1) return std::nullopt;
  const int64_t colour = most - counts.begin();
  return made(grid.rows, grid.columns,
              [&](int64_t r, int64_t c) { return grid.at(r, c) == colour ? colour : 0; });
}

MaybeGrid columns_by_height(const NumberGrid& grid) {
  std::vector<int64_t> columns, heights(static_cast<size_t>(grid.columns), 0);
  for (int64_t c = 0; c < grid.columns; ++c) {
    columns.push_back(c);
    for (int64_t r = 0; r < grid.rows; ++r) heights[static_cast<size_t>(c)] += grid.at(r, c) != 0 ? 1 : 0;
  }
  std::ranges::stable_sort(columns, {}, [&](int64_t column) { return heights[static_cast<size_t>(column)]; });
  return made(grid.rows, grid.columns,
              [&](int64_t r, int64_t c) { return grid.at(r, columns[static_cast<size_t>(c)]); });
}

// Two halves with a column of one colour between them. Kind 0: cells that are coloured in both, 1: in one at
// least, 2: in one only.
MaybeGrid panels(const NumberGrid& grid, int kind) {
  const int64_t width = grid.columns / 2, wall = grid.at(0, width);
  if (grid.columns % 2 == 0 || grid.columns < 3 || wall == 0) return std::nullopt;
  for (int64_t r = 0; r < grid.rows; ++r) {
    if (grid.at(r, width) != wall) return std::nullopt;
  }
  return made(grid.rows, width, [&](int64_t r, int64_t c) {
    const int64_t left = grid.at(r, c), right = grid.at(r, c + width + 1),
                  both = (left != 0 ? 1 : 0) + (right != 0 ? 1 : 0);
    const bool taken = kind == 0 ? both == 2 : kind == 1 ? both > 0 : both == 1;
    return taken ? (left != 0 ? left : right) : 0;
  });
}

MaybeGrid mirrored_onto_itself(const NumberGrid& grid, bool left_right) {
  return made(grid.rows, grid.columns, [&](int64_t r, int64_t c) {
    if (grid.at(r, c) != 0) return grid.at(r, c);
    return left_right ? grid.at(r, grid.columns - 1 - c) : grid.at(grid.rows - 1 - r, c);
  });
}

std::vector<size_t> coloured_cells(const NumberGrid& grid) {
  std::vector<size_t> cells;
  for (size_t cell = 0; cell < grid.cells.size(); ++cell) {
    if (grid.cells[cell] != 0) cells.push_back(cell);
  }
  return cells;
}

void add_with_directions(std::vector<Rule>& all) {
  constexpr std::array<const char*, 7> kTurns = {
      "mirror left right",  "mirror top bottom", "half turn",      "transpose",
      "quarter turn right", "quarter turn left", "other transpose"};
  for (int way = 0; way < 7; ++way)
    all.push_back(
        {kTurns[static_cast<size_t>(way)], [way](const NumberGrid& grid) { return turned_by(grid, way); }});
  for (const Direction& way : kDirections) {
    all.push_back(
        {fmt::format("gravity {}", way.name), [way](const NumberGrid& grid) { return fallen(grid, way); }});
    all.push_back({fmt::format("shift {}", way.name),
                   [way](const NumberGrid& grid) { return shifted_by_one(grid, way); }});
    all.push_back({fmt::format("rays {}", way.name),
                   [way](const NumberGrid& grid) -> MaybeGrid { return with_rays(grid, way.dr, way.dc); }});
  }
  all.push_back({"diagonal rays", with_diagonal_rays});
}

void add_with_colours(std::vector<Rule>& all) {
  for (int64_t colour = 1; colour <= 9; ++colour) {
    all.push_back({fmt::format("fill inside {}", colour),
                   [colour](const NumberGrid& grid) { return filled_inside(grid, colour); }});
    all.push_back({fmt::format("outline {}", colour),
                   [colour](const NumberGrid& grid) { return outlined(grid, colour); }});
    for (int64_t other = 1; other <= 9; ++other) {
      if (other == colour) continue;
      all.push_back({fmt::format("recolour {} {}", colour, other),
                     [colour, other](const NumberGrid& grid) -> MaybeGrid {
                       NumberGrid out = grid;
                       std::ranges::replace(out.cells, colour, other);
                       return out;
                     }});
    }
  }
  all.push_back({"most frequent colour", most_frequent_colour});
}

void add_with_objects(std::vector<Rule>& all) {
  for (const bool largest : {true, false}) {
    const char* name = largest ? "largest" : "smallest";
    all.push_back({fmt::format("crop to {} object", name), [largest](const NumberGrid& grid) -> MaybeGrid {
                     const std::optional<Object> object = extreme_object(grid, largest);
                     return object ? MaybeGrid(cropped(only(grid, {*object}), object->cells)) : std::nullopt;
                   }});
    all.push_back({fmt::format("keep {} object", name), [largest](const NumberGrid& grid) -> MaybeGrid {
                     const std::optional<Object> object = extreme_object(grid, largest);
                     return object ? MaybeGrid(only(grid, {*object})) : std::nullopt;
                   }});
  }
  all.push_back({"keep objects at the border",
                 [](const NumberGrid& grid) { return objects_where(grid, touches_border); }});
  all.push_back({"remove objects at the border", [](const NumberGrid& grid) {
                   return objects_where(grid, [](const NumberGrid& all_of, const Object& object) {
                     return !touches_border(all_of, object);
                   });
                 }});
  all.push_back({"remove single cells", [](const NumberGrid& grid) {
                   return objects_where(
                       grid, [](const NumberGrid&, const Object& object) { return object.cells.size() > 1; });
                 }});
  all.push_back({"count objects", [](const NumberGrid& grid) {
                   return made(1, static_cast<int64_t>(objects_of(grid).size()),
                               [](int64_t, int64_t) { return 1; });
                 }});
  all.push_back({"crop to content", [](const NumberGrid& grid) -> MaybeGrid {
                   const std::vector<size_t> cells = coloured_cells(grid);
                   return cells.empty() ? std::nullopt : MaybeGrid(cropped(grid, cells));
                 }});
}

void add_others(std::vector<Rule>& all) {
  for (const int64_t times : {int64_t{2}, int64_t{3}}) {
    all.push_back({fmt::format("scale {}", times), [times](const NumberGrid& grid) {
                     return made(grid.rows * times, grid.columns * times,
                                 [&](int64_t r, int64_t c) { return grid.at(r / times, c / times); });
                   }});
    all.push_back({fmt::format("tile {}", times), [times](const NumberGrid& grid) {
                     return made(grid.rows * times, grid.columns * times, [&](int64_t r, int64_t c) {
                       return grid.at(r % grid.rows, c % grid.columns);
                     });
                   }});
  }
  for (const bool left_right : {true, false})
    all.push_back({left_right ? "complete left right" : "complete top bottom",
                   [left_right](const NumberGrid& grid) { return mirrored_onto_itself(grid, left_right); }});
  constexpr std::array<const char*, 3> kKinds = {"panels and", "panels or", "panels xor"};
  for (int kind = 0; kind < 3; ++kind)
    all.push_back(
        {kKinds[static_cast<size_t>(kind)], [kind](const NumberGrid& grid) { return panels(grid, kind); }});
  all.push_back({"join points", joined_points});
  all.push_back({"fill between walls", filled_by_walls});
  all.push_back({"mosaic", restored_mosaic});
  all.push_back({"crop to odd object", [](const NumberGrid& grid) -> MaybeGrid {
                   const std::optional<Object> object = odd_object(grid);
                   return object ? MaybeGrid(cropped(only(grid, {*object}), object->cells)) : std::nullopt;
                 }});
  all.push_back({"columns by height", columns_by_height});
}

// The rest of a sequence that begins with `before` on each grid; the last of the grids is the test.
bool all_agree(std::span<const Demonstration> shown, const std::vector<NumberGrid>& before,
               const NumberGrid& output, int64_t depth) {
  const auto fits = [&] {
    for (size_t i = 0; i < shown.size(); ++i) {
      if (before[i] != *shown[i].output) return false;
    }
    return true;
  };
  if (fits() && before.back() != output) return false;
  if (depth == 0) return true;
  // first grids: a rule that makes the same of all of them need not be tried twice
  std::set<std::vector<int64_t>> seen;
  for (const Rule& rule : rules()) {
    std::vector<NumberGrid> next;
    for (size_t i = 0; i < before.size(); ++i) {
      MaybeGrid one = rule.apply(before[i]);
      // With the last rule of a sequence, most rules fail at the first grid.
      if (!one || (depth == 1 && i < shown.size() && *one != *shown[i].output)) break;
      next.push_back(std::move(*one));
    }
    if (next.size() != before.size()) continue;
    if (depth > 1) {
      std::vector<int64_t> all;
      for (const NumberGrid& grid : next) {
        all.push_back(grid.columns);
        all.insert(all.end(), grid.cells.begin(), grid.cells.end());
      }
      if (next == before || !seen.insert(std::move(all)).second) continue;
    }
    if (!all_agree(shown, next, output, depth - 1)) return false;
  }
  return true;
}

}  // namespace

std::span<const Rule> rules() {
  static const std::vector<Rule> all = [] {
    std::vector<Rule> rules;
    add_with_directions(rules);
    add_with_colours(rules);
    add_with_objects(rules);
    add_others(rules);
    return rules;
  }();
  return all;
}

bool agree_on(std::span<const Demonstration> shown, const NumberGrid& test, const NumberGrid& output,
              int64_t depth) {
  std::vector<NumberGrid> grids;
  for (const Demonstration& one : shown) grids.push_back(*one.input);
  grids.push_back(test);
  return all_agree(shown, grids, output, depth);
}

}  // namespace longhaul::puzzles::arc_agi
