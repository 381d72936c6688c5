#include <bit>

#include "puzzles/engine/bits.h"
#include "puzzles/zebra_puzzle/zebra_puzzle.h"

namespace longhaul::puzzles::zebra_puzzle {
namespace {

using Mask = uint32_t;  // of houses

// Every value has a set of houses; clues and "each house has one value of each attribute" make the sets
// smaller until nothing changes, then the value with the fewest houses is tried in each.
class Search {
 public:
  Search(const Zebra& zebra, int64_t limit, SearchBudget& budget)
      : zebra_(zebra), limit_(limit), budget_(budget), all_((Mask{1} << zebra.houses) - 1) {}

  SolutionCount count() {
    std::vector<Mask> may(zebra_.attributes.size() * zebra_.houses, all_);
    step(std::move(may));
    return {found_, !budget_.spent()};
  }

 private:
  // Houses in which b may be if a is in one of `from`. `turned`: a, if b is there.
  Mask reach(ClueKind kind, Mask from, bool turned) const {
    const Mask left = from >> 1, right = from << 1 & all_;
    switch (kind) {
      case ClueKind::kSame:
        return from;
      case ClueKind::kNotSame:
        return bit_count(from) == 1 ? all_ & ~from : all_;
      case ClueKind::kLeftOf:
        return turned ? left : right;
      case ClueKind::kRightOf:
        return turned ? right : left;
      case ClueKind::kBeside:
        return left | right;
      case ClueKind::kBefore:
      case ClueKind::kAfter: {
        if (from == 0) return 0;
        const bool to_the_right = (kind == ClueKind::kBefore) != turned;
        const int least = std::countr_zero(from), most = 31 - std::countl_zero(from);
        return to_the_right ? all_ & ~((Mask{2} << least) - 1) : (Mask{1} << most) - 1;
      }
      case ClueKind::kOneBetween:
        return (from >> 2 | from << 2) & all_;
      case ClueKind::kTwoBetween:
        return (from >> 3 | from << 3) & all_;
      default:
        return all_;
    }
  }

  Mask of_house_clue(const Clue& clue) const {
    const Mask house = Mask{1} << clue.house;
    if (clue.kind == ClueKind::kAt) return house;
    return clue.kind == ClueKind::kNotAt ? all_ & ~house : house | Mask{1} << clue.other_house;
  }

  // False: some value has no house left.
  bool narrow(std::vector<Mask>& may) const {
    for (bool changed = true; changed;) {
      changed = false;
      const auto keep = [&](size_t value, Mask houses) {
        const Mask kept = may[value] & houses;
        changed = changed || kept != may[value];
        may[value] = kept;
      };
      for (const Clue& clue : zebra_.clues) {
        if (is_about_houses(clue.kind)) {
          keep(clue.a, of_house_clue(clue));
          continue;
        }
        keep(clue.b, reach(clue.kind, may[clue.a], false));
        keep(clue.a, reach(clue.kind, may[clue.b], true));
      }
      for (size_t first = 0; first < may.size(); first += zebra_.houses) {
        Mask once = 0, twice = 0;
        for (size_t value = first; value < first + zebra_.houses; ++value) {
          twice |= once & may[value];
          once |= may[value];
          if (may[value] == 0) return false;
          if (bit_count(may[value]) != 1) continue;
          for (size_t other = first; other < first + zebra_.houses; ++other) {
            if (other != value) keep(other, ~may[value]);
          }
        }
        if (once != all_) return false;
        for (size_t value = first; value < first + zebra_.houses; ++value) {
          if (const Mask alone = may[value] & ~twice & once; alone != 0) keep(value, alone);
        }
      }
    }
    return true;
  }

  bool step(std::vector<Mask> may) {
    if (!budget_.spend()) return false;
    if (!narrow(may)) return true;
    size_t best = may.size();
    for (size_t value = 0; value < may.size(); ++value) {
      if (bit_count(may[value]) > 1 && (best == may.size() || bit_count(may[value]) < bit_count(may[best])))
        best = value;
    }
    if (best == may.size()) return ++found_ < limit_;
    for (Mask houses = may[best]; houses != 0; houses &= houses - 1) {
      std::vector<Mask> next = may;
      next[best] = houses & (~houses + 1);
      if (!step(std::move(next))) return false;
    }
    return true;
  }

  const Zebra& zebra_;
  int64_t limit_;
  SearchBudget& budget_;
  Mask all_;
  int64_t found_ = 0;
};

}  // namespace

bool is_about_houses(ClueKind kind) {
  return kind == ClueKind::kAt || kind == ClueKind::kNotAt || kind == ClueKind::kEither;
}

bool holds(const Clue& clue, const Places& places) {
  const auto a = static_cast<int64_t>(places[clue.a]), b = static_cast<int64_t>(places[clue.b]);
  switch (clue.kind) {
    case ClueKind::kSame:
      return a == b;
    case ClueKind::kNotSame:
      return a != b;
    case ClueKind::kAt:
      return places[clue.a] == clue.house;
    case ClueKind::kNotAt:
      return places[clue.a] != clue.house;
    case ClueKind::kEither:
      return places[clue.a] == clue.house || places[clue.a] == clue.other_house;
    case ClueKind::kLeftOf:
      return a + 1 == b;
    case ClueKind::kRightOf:
      return a == b + 1;
    case ClueKind::kBeside:
      return a + 1 == b || a == b + 1;
    case ClueKind::kBefore:
      return a < b;
    case ClueKind::kAfter:
      return a > b;
    case ClueKind::kOneBetween:
      return a + 2 == b || a == b + 2;
    case ClueKind::kTwoBetween:
      return a + 3 == b || a == b + 3;
  }
  return false;
}

SolutionCount count_solutions(const Zebra& zebra, int64_t limit, SearchBudget& budget) {
  return Search(zebra, limit, budget).count();
}

}  // namespace longhaul::puzzles::zebra_puzzle
