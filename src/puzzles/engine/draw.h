// Draw: the random numbers of one attempt at one puzzle. They are a pure function of (task, version, seed,
// index, attempt), so that a puzzle is the same on every machine and whatever the number of threads.
// Decisions never use floating point: probabilities are percents.
//
//   Draw draw({.task = "sudoku", .version = 1, .seed = 7, .index = 12, .attempt = 0});
//   draw.shuffle(digits);
//   if (draw.chance(30)) …            // 30 %
//
// Source: docs/puzzles.md; Philox4x32-10 (base/random.h). A Draw belongs to one thread.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string_view>
#include <utility>

#include "base/random.h"

namespace longhaul::puzzles {

struct DrawName {
  std::string_view task;
  int64_t version = 1;
  uint64_t seed = 0, index = 0, attempt = 0;
};

class Draw {
 public:
  explicit Draw(const DrawName& name)
      : stream_(name.seed,
                fmt::format("puzzles/{}/{}/{}/{}", name.task, name.version, name.index, name.attempt)) {}

  uint64_t below(uint64_t bound) { return stream_.below(next_++, bound); }  // [0, bound)
  int64_t between(int64_t least, int64_t most) {                            // both may come
    return least + static_cast<int64_t>(below(static_cast<uint64_t>(most - least + 1)));
  }
  bool chance(int64_t percent) { return static_cast<int64_t>(below(100)) < percent; }

  template <class Items>
  void shuffle(Items& items) {
    for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }
  template <class Items>
  auto& pick(Items& items) {
    return items[below(items.size())];
  }

 private:
  RandomStream stream_;
  uint64_t next_ = 0;
};

}  // namespace longhaul::puzzles
