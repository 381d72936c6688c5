// Draw: the random numbers of one attempt at one puzzle. They are a pure function of (task, version, seed,
// index, attempt), so that a puzzle is the same on every machine and whatever the number of threads.
// Decisions never use floating point: probabilities are percents.
//
//   Draw draw({.task = "sudoku", .version = 1, .seed = 7, .index = 12, .attempt = 0});
//   draw.shuffle(digits);
//   if (draw.chance(30)) …            // 30 %
//
// A block of the stream gives four numbers of 32 bits, one after the other. Source: docs/puzzles.md;
// Philox4x32-10 (base/random.h). A Draw belongs to one thread.
#pragma once

#include <fmt/compile.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/random.h"

namespace longhaul::puzzles {

struct DrawName {
  std::string_view task;
  int64_t version = 1;
  uint64_t seed = 0, index = 0, attempt = 0;
};

class Draw {
 public:
  explicit Draw(const DrawName& name) : stream_(name.seed, text_of(name)) {}

  // [0, bound), each as often as the others: by Lemire's method, whatever 2^32 leaves over is drawn again.
  uint64_t below(uint64_t bound) {
    if (bound >> 32 != 0) return stream_.below(kWide + wide_++, bound);
    LONGHAUL_ASSERT(bound > 0, "a number below 0");
    uint64_t product = next() * bound;
    if (static_cast<uint32_t>(product) < bound) {
      const auto over = static_cast<uint32_t>((uint64_t{1} << 32) % bound);
      while (static_cast<uint32_t>(product) < over) product = next() * bound;
    }
    return product >> 32;
  }
  int64_t between(int64_t least, int64_t most) {  // both may come
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
  static constexpr uint64_t kWide = uint64_t{1} << 63;  // places of the stream that next() does not come to

  static std::string text_of(const DrawName& name) {
    return fmt::format(FMT_COMPILE("puzzles/{}/{}/{}/{}"), name.task, name.version, name.index, name.attempt);
  }
  uint64_t next() {  // 32 bits
    if (place_ == words_.size()) words_ = stream_.block(block_++), place_ = 0;
    return words_[place_++];
  }

  RandomStream stream_;
  std::array<uint32_t, 4> words_{};
  size_t place_ = words_.size();  // in `words_`: all of them are spent
  uint64_t block_ = 0, wide_ = 0;
};

}  // namespace longhaul::puzzles
