// Dice: a sequence of random choices for generated material: a pure function of seed and name. Cheap to
// construct.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "base/random.h"

namespace longhaul::evaluate {

class Dice {
 public:
  Dice(uint64_t seed, const std::string& name) : stream_(seed, name) {}
  // [0, bound)
  int64_t below(int64_t bound) {
    return static_cast<int64_t>(stream_.below(at_++, static_cast<uint64_t>(bound)));
  }
  // both included
  int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
  template <class Value>
  void shuffle(std::vector<Value>& values) {
    for (size_t i = values.size(); i > 1; --i)
      std::swap(values[i - 1], values[static_cast<size_t>(below(static_cast<int64_t>(i)))]);
  }

 private:
  RandomStream stream_;
  uint64_t at_ = 0;
};

}  // namespace longhaul::evaluate
