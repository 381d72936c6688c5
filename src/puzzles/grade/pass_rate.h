// How often answers are right, from several answers to each of many problems: avg@k and pass@k, with standard
// errors over the problems.
//
//   pass_at_k(10, 3, 5)                   // of 10 answers 3 are right: 1 − C(7, 5) / C(10, 5), without bias
//                                         (2107.03374)
//
// Answers to one problem hang together, so that errors are those of the means over problems. Pure functions.
#pragma once

#include <cstdint>
#include <span>

namespace longhaul::puzzles {

struct Tried {  // one problem
  int64_t answers = 0, accepted = 0;
};
struct Estimate {
  double mean = 0;
  double error = 0;  // standard error of the mean; NaN of fewer than two problems
};

double pass_at_k(int64_t answers, int64_t accepted, int64_t k);  // 1 ≤ k ≤ answers
Estimate mean_of(std::span<const double> values);                // NaN of none
// avg@k: the mean over problems of the share that is accepted
Estimate average(std::span<const Tried> problems);
Estimate pass_at_k(std::span<const Tried> problems, int64_t k);

}  // namespace longhaul::puzzles
