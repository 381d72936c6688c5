// Blend: which dataset sample i of a run comes from, and which of that dataset's samples it is, both in O(1). Weights are turned
// into whole numbers that add up to a period (exactly, when some period up to 65,536 allows it; otherwise rounded to 65,536 parts),
// and one period is laid out so that every dataset's count over the first n samples, for every n, differs from n · weight by less
// than 1 (the chairman assignment rule, Tijdeman 1980). Immutable.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace longhaul::data {

class Blend {
 public:
  explicit Blend(std::span<const double> weights);  // ≥ 0, at least one > 0; need not add up to 1. kUsage otherwise

  struct Place {
    int64_t dataset = 0;
    int64_t index = 0;  // that dataset's how-manieth sample
    bool operator==(const Place&) const = default;
  };
  Place at(int64_t sample) const;
  int64_t datasets() const { return static_cast<int64_t>(counts_.size()); }
  double weight(int64_t dataset) const;  // as used
  int64_t period() const { return static_cast<int64_t>(table_.size()); }

 private:
  struct Slot {
    int32_t dataset;
    int32_t rank;  // samples of that dataset before it in the period
  };
  std::vector<Slot> table_;
  std::vector<int64_t> counts_;  // of each dataset in a period
};

}  // namespace longhaul::data
