// What one of several ranks does of an evaluation: its units (batches, questions, groups of sequences), counted from 0, are dealt out in turn, and what a
// rank found of its own is 0 in the others' numbers; so their sum is what one process finds, to the bit, and every rank goes on with it in the
// order of the units.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace longhaul::evaluate {

struct EvaluationShare {
  int64_t ranks = 1, rank = 0;
  std::function<void(std::vector<double>&)> sum_over_ranks{};  // element by element; called once, at the end, where there are several

  bool has(int64_t unit) const { return unit % ranks == rank; }
  void complete(std::vector<double>& numbers) const {
    if (ranks > 1) sum_over_ranks(numbers);
  }
};

}  // namespace longhaul::evaluate
