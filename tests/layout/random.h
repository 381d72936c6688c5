// Draws small random whole numbers for property tests; the same on every run.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/random.h"

namespace longhaul::layout {

class Draw {
 public:
  explicit Draw(std::string_view name) : stream_(20260801, name) {}
  int64_t between(int64_t low, int64_t high) {  // both included
    return low + static_cast<int64_t>(stream_.below(next_++, static_cast<uint64_t>(high - low + 1)));
  }
  bool coin() { return between(0, 1) == 1; }
  template <class T>
  T one_of(const std::vector<T>& choices) {
    return choices[static_cast<size_t>(between(0, static_cast<int64_t>(choices.size()) - 1))];
  }

 private:
  RandomStream stream_;
  uint64_t next_ = 0;
};

}  // namespace longhaul::layout
