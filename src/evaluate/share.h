// EvaluationShare: the part of an evaluation that one of several ranks does. Units (batches, questions,
// groups of sequences) are counted from 0 and assigned to the ranks in turn. Each rank leaves 0 for the
// units of the other ranks; so the sum over ranks is what one process would find, to the bit, and every
// rank then processes the numbers in the order of the units.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace longhaul::evaluate {

struct EvaluationShare {
  int64_t ranks = 1, rank = 0;
  // Element by element; called once, at the end, if there are several ranks.
  std::function<void(std::vector<double>&)> sum_over_ranks{};

  bool has(int64_t unit) const { return unit % ranks == rank; }
  void complete(std::vector<double>& numbers) const {
    if (ranks > 1) sum_over_ranks(numbers);
  }
};

}  // namespace longhaul::evaluate
