// CheckedSums: whether sums of gradients over ranks are what their parts add up to (docs/sources/reliability.md §5.10, collective checksum). Of blocks of 4,096
// numbers every rank adds its own up in fp64, and their magnitudes; a second small sum over the ranks brings both together, and the blocks of what came
// out must agree with them up to rounding. So a number that is damaged in a message, or while messages are added up, shows, unless it is small beside its
// block: 0.1 % of the bytes more, and two passes over the gradients.
//
//   CheckedSums check;                       // of this thread, while it lives: a step now and then
//   … sums that start here are checked (parallel/ranks.cpp) …
//   if (const auto wrong = check.wrong()) …  // once all have been waited for
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "comm/communicator.h"

namespace longhaul::parallel {

inline constexpr int64_t kSumBlock = 4096;

// [2, blocks] fp64: sums and sums of magnitudes of the blocks of a tensor, of each run of rows by itself (empty: one run of all).
Tensor block_sums(const Tensor& numbers, std::span<const int64_t> rows = {});

// How far the tensor is off what its parts add up to, in units of what rounding may leave; above 1 it is wrong, NaN counts as wrong too. `sums`: those of
// its blocks, added up over so many ranks.
double excess_of_sums(const Tensor& numbers, const Tensor& sums, int64_t ranks);

class CheckedSums {
 public:
  CheckedSums();
  ~CheckedSums();
  CheckedSums(const CheckedSums&) = delete;
  CheckedSums& operator=(const CheckedSums&) = delete;

  const std::optional<std::string>& wrong() const { return wrong_; }  // the first, for a person
  int64_t checked() const { return checked_; }                        // sums so far

 private:
  friend comm::Work started_sum(comm::Communicator&, const Tensor&, const Tensor&, std::span<const int64_t>, const comm::CallOptions&);
  std::optional<std::string> wrong_;
  int64_t checked_ = 0;
  CheckedSums* before_;
};

// Starts the sum of `from` over the group: into itself (`into` is the same tensor, no rows), or this rank's run of rows into `into`. Checked where a
// CheckedSums of this thread lives.
comm::Work started_sum(comm::Communicator& group, const Tensor& from, const Tensor& into, std::span<const int64_t> rows,
                       const comm::CallOptions& options);

}  // namespace longhaul::parallel
