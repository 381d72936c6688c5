#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <memory>
#include <span>
#include <vector>

#include "puzzles/calcudoko/calcudoko.h"
#include "puzzles/engine/bits.h"

namespace longhaul::puzzles::calcudoko {
namespace {

using Filling = std::array<uint8_t, kLargestSide>;

// What different numbers from 1 to a side make in cages of a size, sorted by it.
class FillingTable {
 public:
  struct Row {
    int64_t target = 0;
    Filling filling{};
  };
  FillingTable(int64_t side, size_t size, Sign sign) : side_(side), size_(size), sign_(sign) {
    Filling filling{};
    add(filling, 0, 0);
    std::ranges::stable_sort(rows_, {}, &Row::target);
  }
  std::span<const Row> making(int64_t target) const {
    return std::ranges::equal_range(rows_, target, {}, &Row::target);
  }

  // One that is made once; there are few of small cages, and none is kept of others.
  static const FillingTable* kept(int64_t side, size_t size, Sign sign) {
    constexpr size_t kLargestKept = 4;
    static std::array<std::array<std::array<std::atomic<const FillingTable*>, 4>, kLargestKept + 1>,
                      kLargestSide + 1>
        all;
    if (size > kLargestKept) return nullptr;
    auto& place = all[static_cast<size_t>(side)][size][static_cast<size_t>(sign)];
    if (const FillingTable* known = place.load()) return known;
    const auto* made = new FillingTable(side, size, sign);  // for as long as the program runs
    const FillingTable* first = nullptr;
    if (place.compare_exchange_strong(first, made)) return made;
    delete made;
    return first;
  }

 private:
  void add(Filling& filling, size_t count, uint32_t used) {
    if (count == size_) {
      const std::vector<int64_t> numbers(filling.begin(), filling.begin() + static_cast<int64_t>(size_));
      if (const auto made = made_of(sign_, numbers)) rows_.push_back({*made, filling});
      return;
    }
    for (int64_t number = 1; number <= side_; ++number) {
      if ((used >> number & 1) != 0) continue;
      filling[count] = static_cast<uint8_t>(number);
      add(filling, count + 1, used | 1U << number);
    }
  }

  int64_t side_;
  size_t size_;
  Sign sign_;
  std::vector<Row> rows_;
};

// Each cell has the numbers that it may hold, as bits. A cage leaves to its cells what its fillings have
// there; a number that is alone in its cell is in no other cell of the row and column, and one that fits one
// cell of a row or column only stands there.
class Search {
 public:
  Search(const Board& board, SearchBudget& budget, const std::function<bool(const NumberGrid&)>& found)
      : side_(board.side), budget_(budget), found_(found) {
    for (const Cage& cage : board.cages) {
      Fillings& fillings = cages_.emplace_back(Fillings{cage.cells, {}, {}});
      for (const int64_t cell : cage.cells) cage_of_[static_cast<size_t>(cell)] = cages_.size() - 1;
      const FillingTable* table = FillingTable::kept(side_, cage.cells.size(), cage.sign);
      if (table == nullptr)
        table =
            (fillings.own = std::make_shared<const FillingTable>(side_, cage.cells.size(), cage.sign)).get();
      fillings.all = table->making(cage.target);
    }
  }

  void run() {
    Numbers all{};
    for (int64_t cell = 0; cell < side_ * side_; ++cell)
      all[static_cast<size_t>(cell)] = static_cast<uint16_t>(((1U << side_) - 1) << 1);
    step(all, ~uint64_t{0});
  }

 private:
  using Numbers = std::array<uint16_t, kLargestSide * kLargestSide>;
  struct Fillings {
    std::vector<int64_t> cells;
    std::span<const FillingTable::Row> all;
    std::shared_ptr<const FillingTable> own;
  };

  bool narrow(Numbers& may, size_t cell, uint16_t to, uint64_t& changed) const {
    if ((may[cell] & to) == may[cell]) return true;
    may[cell] &= to;
    changed |= uint64_t{1} << cage_of_[cell];
    return may[cell] != 0;
  }

  bool narrowed_by_cage(Numbers& may, const Fillings& cage, uint64_t& changed) const {
    std::array<uint16_t, kLargestSide> left{};
    for (const auto& [target, filling] : cage.all) {
      bool fits = true;
      for (size_t i = 0; i < cage.cells.size() && fits; ++i)
        fits = (may[static_cast<size_t>(cage.cells[i])] >> filling[i] & 1) != 0;
      if (!fits) continue;
      for (size_t i = 0; i < cage.cells.size(); ++i) left[i] |= static_cast<uint16_t>(1U << filling[i]);
    }
    for (size_t i = 0; i < cage.cells.size(); ++i) {
      if (!narrow(may, static_cast<size_t>(cage.cells[i]), left[i], changed)) return false;
    }
    return true;
  }

  // One row (by 1 from `first`) or column (by the side).
  bool narrowed_by_line(Numbers& may, int64_t first, int64_t by, uint64_t& changed) const {
    uint16_t alone = 0, once = 0, twice = 0;
    for (int64_t i = 0; i < side_; ++i) {
      const uint16_t own = may[static_cast<size_t>(first + i * by)];
      if (is_single_bit(own)) {
        if ((alone & own) != 0) return false;
        alone |= own;
      }
      twice |= once & own;
      once |= own;
    }
    if (bit_count(once) != side_) return false;
    const uint16_t only = once & static_cast<uint16_t>(~twice);
    for (int64_t i = 0; i < side_; ++i) {
      const auto cell = static_cast<size_t>(first + i * by);
      const uint16_t own = may[cell], hidden = own & only;
      if (is_single_bit(own)) continue;
      if (!narrow(may, cell, hidden != 0 ? hidden : static_cast<uint16_t>(~alone), changed)) return false;
    }
    return true;
  }

  bool narrowed(Numbers& may, uint64_t changed) const {
    while (changed != 0) {
      uint64_t next = 0;
      for (size_t i = 0; i < cages_.size(); ++i) {
        if ((changed >> i & 1) != 0 && !narrowed_by_cage(may, cages_[i], next)) return false;
      }
      for (int64_t i = 0; i < side_; ++i) {
        if (!narrowed_by_line(may, i * side_, 1, next) || !narrowed_by_line(may, i, side_, next))
          return false;
      }
      changed = next;
    }
    return true;
  }

  bool step(Numbers may, uint64_t changed) {
    if (!budget_.spend()) return false;
    if (!narrowed(may, changed)) return true;
    size_t best = may.size();
    for (size_t cell = 0; cell < static_cast<size_t>(side_ * side_); ++cell) {
      const int open = bit_count(may[cell]);
      if (open > 1 && (best == may.size() || open < bit_count(may[best]))) best = cell;
    }
    if (best == may.size()) {
      NumberGrid grid(side_, side_);
      for (size_t cell = 0; cell < grid.cells.size(); ++cell) grid.cells[cell] = std::countr_zero(may[cell]);
      return found_(grid);
    }
    for (uint16_t left = may[best]; left != 0; left &= static_cast<uint16_t>(left - 1)) {
      Numbers with = may;
      with[best] = static_cast<uint16_t>(1U << std::countr_zero(left));
      if (!step(with, uint64_t{1} << cage_of_[best])) return false;
    }
    return true;
  }

  int64_t side_;
  SearchBudget& budget_;
  const std::function<bool(const NumberGrid&)>& found_;
  std::vector<Fillings> cages_;
  std::array<size_t, kLargestSide * kLargestSide> cage_of_{};
};

}  // namespace

void solve(const Board& board, SearchBudget& budget, const std::function<bool(const NumberGrid&)>& found) {
  Search(board, budget, found).run();
}

}  // namespace longhaul::puzzles::calcudoko
