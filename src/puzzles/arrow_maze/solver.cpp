#include <algorithm>
#include <bit>
#include <vector>

#include "puzzles/arrow_maze/arrow_maze.h"
#include "puzzles/engine/bits.h"

namespace longhaul::puzzles::arrow_maze {
namespace {

// Each cell has the arrows that it may hold, as bits. A number's rays have least and largest lengths, which
// bound each other by their sum; an arrow can only stand where the way back to a number may hold the same
// arrow.
class Search {
 public:
  Search(const NumberGrid& maze, SearchBudget& budget, const std::function<bool(const NumberGrid&)>& found)
      : maze_(maze), budget_(budget), found_(found) {
    for (int64_t r = 0; r < maze.rows; ++r) {
      for (int64_t c = 0; c < maze.columns; ++c) {
        if (maze.at(r, c) >= 0) add_number(r, c);
      }
    }
  }

  void run() {
    Arrows may(maze_.cells.size());
    for (const Number& number : numbers_) {
      for (size_t d = 0; d < kArrows.size(); ++d) {
        for (const size_t cell : number.rays[d]) may[cell] |= bit(d);
      }
    }
    for (size_t cell = 0; cell < may.size(); ++cell) {
      if (is_arrow(maze_.cells[cell])) may[cell] &= bit(arrow_of(maze_.cells[cell]));
    }
    step(may);
  }

 private:
  using Arrows = std::vector<uint8_t>;
  struct Number {
    int64_t count = 0;
    std::array<std::vector<size_t>, 8> rays;  // cells up to the next number or the border
  };
  static uint8_t bit(size_t direction) { return static_cast<uint8_t>(1U << direction); }

  void add_number(int64_t row, int64_t column) {
    Number& number = numbers_.emplace_back();
    number.count = maze_.at(row, column);
    for (size_t d = 0; d < kArrows.size(); ++d) {
      int64_t r = row + kArrows[d].down, c = column + kArrows[d].right;
      for (; maze_.holds(r, c) && maze_.at(r, c) < 0; r += kArrows[d].down, c += kArrows[d].right)
        number.rays[d].push_back(static_cast<size_t>(r * maze_.columns + c));
    }
  }

  bool narrowed_by_number(const Number& number, Arrows& may, bool& changed) const {
    std::array<int64_t, 8> least{}, most{};
    int64_t least_sum = 0, most_sum = 0;
    for (size_t d = 0; d < kArrows.size(); ++d) {
      const std::vector<size_t>& ray = number.rays[d];
      const auto first_not = [&](const auto& holds) {
        return std::ranges::find_if_not(ray, holds) - ray.begin();
      };
      least[d] = first_not([&](size_t cell) { return may[cell] == bit(d); });
      most[d] = first_not([&](size_t cell) { return (may[cell] & bit(d)) != 0; });
      least_sum += least[d], most_sum += most[d];
    }
    if (number.count < least_sum || number.count > most_sum) return false;
    for (size_t d = 0; d < kArrows.size(); ++d) {
      const int64_t from = std::max(least[d], number.count - (most_sum - most[d]));
      const int64_t to = std::min(most[d], number.count - (least_sum - least[d]));
      for (size_t i = 0; i < number.rays[d].size(); ++i) {
        uint8_t& own = may[number.rays[d][i]];
        const auto place = static_cast<int64_t>(i);
        const auto left = static_cast<uint8_t>(place < from ? own & bit(d)
                                               : place < to ? own
                                                            : own & ~bit(d));
        changed = changed || left != own;
        own = left;
        if (own == 0) return false;
      }
    }
    return true;
  }

  bool step(Arrows may) {
    if (!budget_.spend()) return false;
    for (bool changed = true; changed;) {
      changed = false;
      for (const Number& number : numbers_) {
        if (!narrowed_by_number(number, may, changed)) return true;
      }
    }
    size_t best = may.size();
    for (size_t cell = 0; cell < may.size(); ++cell) {
      if (maze_.cells[cell] >= 0) continue;
      if (may[cell] == 0) return true;
      if (!is_single_bit(may[cell]) && (best == may.size() || bit_count(may[cell]) < bit_count(may[best])))
        best = cell;
    }
    if (best == may.size()) {
      NumberGrid full = maze_;
      for (size_t cell = 0; cell < may.size(); ++cell) {
        if (full.cells[cell] < 0)
          full.cells[cell] = arrow_cell(static_cast<size_t>(std::countr_zero(may[cell])));
      }
      return found_(full);
    }
    for (size_t d = 0; d < kArrows.size(); ++d) {
      if ((may[best] & bit(d)) == 0) continue;
      Arrows with = may;
      with[best] = bit(d);
      if (!step(std::move(with))) return false;
    }
    return true;
  }

  const NumberGrid& maze_;
  SearchBudget& budget_;
  const std::function<bool(const NumberGrid&)>& found_;
  std::vector<Number> numbers_;
};

}  // namespace

int64_t counted_arrows(const NumberGrid& maze, int64_t row, int64_t column) {
  int64_t count = 0;
  for (size_t d = 0; d < kArrows.size(); ++d) {
    int64_t r = row + kArrows[d].down, c = column + kArrows[d].right;
    for (; maze.holds(r, c) && maze.at(r, c) == arrow_cell(d); r += kArrows[d].down, c += kArrows[d].right)
      ++count;
  }
  return count;
}

void solve(const NumberGrid& maze, SearchBudget& budget,
           const std::function<bool(const NumberGrid&)>& found) {
  Search(maze, budget, found).run();
}

}  // namespace longhaul::puzzles::arrow_maze
