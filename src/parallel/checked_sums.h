// CheckedSums: checks that gradient sums over ranks equal the sum of their parts (docs/sources/reliability.md
// §5.10, collective checksum). Every rank sums its own blocks of 4,096 numbers, and their magnitudes, in
// fp64. A second, small all-reduce adds these up, and the blocks of the result must agree with them up to
// rounding. So a number that was damaged in a message, or while messages were added, is found unless it is
// small compared with its block. The cost is 0.1 % more bytes and two passes over the gradients.
//
//   CheckedSums check;                       // active for this thread while it lives: for some of the steps
//   … sums that start here are checked (parallel/ranks.cpp) …
//   if (const auto wrong = check.wrong()) …  // after all sums have been waited for
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "comm/communicator.h"

namespace longhaul::parallel {

inline constexpr int64_t kSumBlock = 4096;

// [2, blocks] fp64: sums and sums of magnitudes of the blocks of a tensor, of each run of rows by itself
// (empty: one run of all).
Tensor block_sums(const Tensor& numbers, std::span<const int64_t> rows = {});

// How far the tensor differs from the sum of its parts, in units of the largest rounding error. Above 1 it is
// wrong, and NaN counts as wrong. `sums`: the sums of its blocks, added up over that many ranks.
double excess_of_sums(const Tensor& numbers, const Tensor& sums, int64_t ranks);

class CheckedSums {
 public:
  CheckedSums();
  ~CheckedSums();
  CheckedSums(const CheckedSums&) = delete;
  CheckedSums& operator=(const CheckedSums&) = delete;

  const std::optional<std::string>& wrong() const { return wrong_; }  // describes the first wrong sum
  int64_t checked() const { return checked_; }                        // sums so far

 private:
  friend comm::Work started_sum(comm::Communicator&, const Tensor&, const Tensor&, std::span<const int64_t>,
                                const comm::CallOptions&);
  std::optional<std::string> wrong_;
  int64_t checked_ = 0;
  CheckedSums* before_;
};

// Starts the sum of `from` over the group, in place (`into` is the same tensor, no rows) or with this rank's
// run of rows written to `into`. The sum is checked where a CheckedSums of this thread lives.
comm::Work started_sum(comm::Communicator& group, const Tensor& from, const Tensor& into,
                       std::span<const int64_t> rows, const comm::CallOptions& options);

}  // namespace longhaul::parallel
