// Addresses of tensors in one block of memory, chosen before they are asked for: tensors whose lifetimes
// overlap share no bytes, and the block is as small as the search finds (offline dynamic storage allocation,
// docs/sources/long-context-parallelism.md part B4).
//
//   const AddressPlan plan = plan_addresses(requests);
//   plan.addresses[i]   where request i begins
//   plan.peak           the block's size; at least plan.live, the most bytes that live at one time
//
// First come greedy orders (by size, by size times lifetime, by lifetime) with the first and with the
// tightest gap. Where none of them reaches the bound of live bytes, branch and bound over the orders of
// ascending addresses follows: a plan in which no tensor could be moved down is found by placing tensors in
// the order of their addresses, each on top of those below it, so an order whose addresses descend is some
// other order. The search ends at the bound, or when the limit is used up; its answer is the same on every
// machine.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace longhaul::plan {

// It lives in [begin, end), in any unit that is ordered.
struct TensorLife {
  int64_t bytes = 0, begin = 0, end = 0;
  auto operator<=>(const TensorLife&) const = default;
};

struct AddressPlan {
  std::vector<int64_t> addresses;  // of each request
  int64_t peak = 0;
  int64_t live = 0;     // the bound
  int64_t looks = 0;    // what the search has cost: comparisons of a request with another, or with a time
  bool optimal = true;  // no plan has a smaller peak; false: the limit ended the search
};

// The most comparisons that a search makes.
inline constexpr int64_t kMostLooks = 100'000'000;

AddressPlan plan_addresses(std::span<const TensorLife> requests, int64_t most_looks = kMostLooks);

// The most bytes that live at one time.
int64_t most_live(std::span<const TensorLife> requests);

}  // namespace longhaul::plan
