#include <algorithm>

#include "puzzles/wordscapes/wordscapes.h"

namespace longhaul::puzzles::wordscapes {
namespace {

// Fills the slot with the fewest words that fit, and back. Solutions are grids: a word that is listed twice
// is tried once.
class Search {
 public:
  Search(const Board& board, int64_t limit, SearchBudget& budget)
      : limit_(limit),
        budget_(budget),
        words_{board.across, board.down},
        cells_(board.grid.cells.size(), 0),
        slots_(slots_of(board.grid)) {
    for (std::vector<std::string>& words : words_) std::ranges::sort(words);
    for (size_t way = 0; way < 2; ++way) used_[way].assign(words_[way].size(), false);
    for (size_t way = 0; way < 2; ++way) {
      const auto slots =
          std::ranges::count_if(slots_, [&](const Slot& slot) { return slot.down == (way == 1); });
      possible_ &= slots == static_cast<int64_t>(words_[way].size());
    }
    filled_.assign(slots_.size(), false);
  }

  SolutionCount count() {
    if (possible_) step();
    return {found_, !budget_.spent()};
  }

 private:
  bool fits(const Slot& slot, const std::string& word) const {
    if (word.size() != slot.cells.size()) return false;
    for (size_t i = 0; i < word.size(); ++i) {
      const char there = cells_[slot.cells[i]];
      if (there != 0 && there != word[i]) return false;
    }
    return true;
  }

  // The words of a slot's direction that fit into it, each text once.
  std::vector<size_t> fitting(const Slot& slot) const {
    const size_t way = slot.down ? 1 : 0;
    std::vector<size_t> all;
    for (size_t word = 0; word < words_[way].size(); ++word) {
      if (used_[way][word] || !fits(slot, words_[way][word])) continue;
      if (all.empty() || words_[way][all.back()] != words_[way][word]) all.push_back(word);
    }
    return all;
  }

  bool step() {
    if (!budget_.spend()) return false;
    size_t best = slots_.size();
    std::vector<size_t> fewest;
    for (size_t slot = 0; slot < slots_.size(); ++slot) {
      if (filled_[slot]) continue;
      std::vector<size_t> may = fitting(slots_[slot]);
      if (best == slots_.size() || may.size() < fewest.size()) best = slot, fewest = std::move(may);
      if (fewest.empty()) return true;
    }
    if (best == slots_.size()) return ++found_ < limit_;
    const Slot& slot = slots_[best];
    const size_t way = slot.down ? 1 : 0;
    filled_[best] = true;
    for (const size_t word : fewest) {
      const std::vector<char> before = cells_;
      used_[way][word] = true;
      for (size_t i = 0; i < slot.cells.size(); ++i) cells_[slot.cells[i]] = words_[way][word][i];
      const bool go_on = step();
      cells_ = before;
      used_[way][word] = false;
      if (!go_on) return false;
    }
    filled_[best] = false;
    return true;
  }

  int64_t limit_;
  SearchBudget& budget_;
  std::vector<std::string> words_[2];  // across, down
  std::vector<bool> used_[2], filled_;
  std::vector<char> cells_;  // 0: open
  std::vector<Slot> slots_;
  int64_t found_ = 0;
  bool possible_ = true;
};

}  // namespace

std::vector<Slot> slots_of(const Grid<char>& grid) {
  std::vector<Slot> slots;
  for (const bool down : {false, true}) {
    const int64_t lines = down ? grid.columns : grid.rows, length = down ? grid.rows : grid.columns;
    for (int64_t line = 0; line < lines; ++line) {
      Slot slot{.down = down};
      for (int64_t i = 0; i <= length; ++i) {
        const int64_t row = down ? i : line, column = down ? line : i;
        if (i < length && grid.at(row, column) == 'X') {
          slot.cells.push_back(static_cast<size_t>(row * grid.columns + column));
          continue;
        }
        if (slot.cells.size() > 1) slots.push_back(slot);
        slot.cells.clear();
      }
    }
  }
  return slots;
}

SolutionCount count_solutions(const Board& board, int64_t limit, SearchBudget& budget) {
  return Search(board, limit, budget).count();
}

}  // namespace longhaul::puzzles::wordscapes
