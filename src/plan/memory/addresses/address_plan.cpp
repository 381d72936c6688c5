#include "plan/memory/addresses/address_plan.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>

#include "base/error.h"

namespace longhaul::plan {
namespace {

// Where more are to be placed, orders are so many that a search only repeats the greedy ones.
constexpr size_t kMostSearched = 400;

bool overlap(const TensorLife& a, const TensorLife& b) { return a.begin < b.end && b.begin < a.end; }

enum class Gap { kFirst, kTightest };

// Places the requests in this order, each into a gap between those of its lifetime that are placed.
AddressPlan placed_in(const std::vector<size_t>& order, std::span<const TensorLife> requests, Gap gap) {
  AddressPlan plan{.addresses = std::vector<int64_t>(requests.size(), 0)};
  std::vector<size_t> placed;  // by address
  for (const size_t i : order) {
    int64_t top = 0, best = -1, best_gap = std::numeric_limits<int64_t>::max();
    for (const size_t j : placed) {
      if (!overlap(requests[i], requests[j])) continue;
      const int64_t free = plan.addresses[j] - top;
      if (free >= requests[i].bytes && free < best_gap) {
        best = top, best_gap = free;
        if (gap == Gap::kFirst) break;
      }
      top = std::max(top, plan.addresses[j] + requests[j].bytes);
    }
    plan.looks += std::ssize(placed);
    const int64_t at = best >= 0 ? best : top;
    plan.addresses[i] = at;
    plan.peak = std::max(plan.peak, at + requests[i].bytes);
    const auto behind = std::ranges::upper_bound(placed, at, {}, [&](size_t j) { return plan.addresses[j]; });
    placed.insert(behind, i);
  }
  return plan;
}

// The best of the greedy orders; stops at the first that reaches the bound.
AddressPlan greedy(std::span<const TensorLife> requests, int64_t live, int64_t most_looks) {
  const auto size = [&](size_t i) { return static_cast<double>(requests[i].bytes); };
  const auto lifetime = [&](size_t i) { return static_cast<double>(requests[i].end - requests[i].begin); };
  const std::vector<std::function<double(size_t)>> weights = {
      size, [&](size_t i) { return size(i) * lifetime(i); }, lifetime};
  std::optional<AddressPlan> best;
  int64_t looks = 0;
  std::vector<size_t> order(requests.size());
  for (const auto& weight : weights) {
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, std::greater{}, weight);
    for (const Gap gap : {Gap::kFirst, Gap::kTightest}) {
      if (best && (best->peak == live || looks > most_looks)) break;
      AddressPlan plan = placed_in(order, requests, gap);
      looks += plan.looks;
      if (!best || plan.peak < best->peak) best = std::move(plan);
    }
  }
  best->looks = looks;
  return *best;
}

// Depth first over orders of ascending addresses. Time is cut into slots in which the same requests live.
class Search {
 public:
  Search(std::span<const TensorLife> requests, AddressPlan& best, int64_t most_looks)
      : requests_(requests), best_(best), most_looks_(most_looks), at_(requests.size(), kNowhere) {
    std::vector<int64_t> times;
    for (const TensorLife& request : requests) times.insert(times.end(), {request.begin, request.end});
    std::ranges::sort(times);
    // Clang 14 cannot compile std::ranges::unique of GCC 12's library.
    times.erase(std::unique(times.begin(), times.end()), times.end());
    const auto slot = [&](int64_t time) {
      return static_cast<size_t>(std::ranges::lower_bound(times, time) - times.begin());
    };
    top_.assign(times.size(), 0);
    left_.assign(times.size(), 0);
    for (size_t i = 0; i < requests.size(); ++i) {
      const TensorLife& request = requests[i];
      const auto same = std::find(requests.rend() - static_cast<ptrdiff_t>(i), requests.rend(), request);
      twin_.push_back(same == requests.rend() ? kNone : static_cast<size_t>(requests.rend() - same) - 1);
      slots_.push_back({slot(request.begin), slot(request.end)});
      for (size_t s = slots_.back().begin; s < slots_.back().end; ++s) left_[s] += request.bytes;
    }
  }

  // Leaves the best in the plan that it was given. True: the search came to its end.
  bool run() {
    descend(0, 0, 0);
    return best_.looks < most_looks_;
  }

 private:
  static constexpr int64_t kNowhere = -1;
  static constexpr size_t kNone = SIZE_MAX;
  struct Slots {
    size_t begin, end;
  };
  struct Candidate {
    int64_t at;
    size_t request;
  };

  bool over() const { return best_.peak == best_.live || best_.looks >= most_looks_; }

  // On top of what is placed in its lifetime. It comes next if that is no lower than the last one's address.
  std::vector<Candidate> candidates(int64_t last_at, size_t last) {
    std::vector<Candidate> found;
    for (size_t i = 0; i < requests_.size(); ++i) {
      if (at_[i] != kNowhere || (twin_[i] != kNone && at_[twin_[i]] == kNowhere)) continue;
      int64_t at = 0;
      for (size_t s = slots_[i].begin; s < slots_[i].end; ++s) at = std::max(at, top_[s]);
      best_.looks += 1 + static_cast<int64_t>(slots_[i].end - slots_[i].begin);
      if (at > last_at || (at == last_at && i >= last)) found.push_back({at, i});
    }
    const auto area = [&](size_t i) {
      return static_cast<double>(requests_[i].bytes) *
             static_cast<double>(requests_[i].end - requests_[i].begin);
    };
    std::ranges::stable_sort(found, [&](const Candidate& a, const Candidate& b) {
      return a.at != b.at ? a.at < b.at : area(a.request) > area(b.request);
    });
    return found;
  }

  // All that are left come at this address or above, and on top of what is placed.
  int64_t bound(int64_t last_at) {
    best_.looks += std::ssize(top_);
    int64_t bound = 0;
    for (size_t s = 0; s < top_.size(); ++s)
      bound = std::max(bound, left_[s] > 0 ? std::max(last_at, top_[s]) + left_[s] : top_[s]);
    return bound;
  }

  // last: the least index that may come at the last address
  void descend(size_t placed, int64_t last_at, size_t last) {
    if (placed == requests_.size()) {
      best_.peak = highest_;
      best_.addresses = at_;
      return;
    }
    for (const Candidate& next : candidates(last_at, last)) {
      if (over()) return;
      const TensorLife& request = requests_[next.request];
      const Slots slots = slots_[next.request];
      const std::vector<int64_t> tops(top_.begin() + static_cast<ptrdiff_t>(slots.begin),
                                      top_.begin() + static_cast<ptrdiff_t>(slots.end));
      const int64_t highest = highest_;
      for (size_t s = slots.begin; s < slots.end; ++s) {
        top_[s] = next.at + request.bytes;
        left_[s] -= request.bytes;
      }
      highest_ = std::max(highest_, next.at + request.bytes);
      at_[next.request] = next.at;
      if (std::max(highest_, bound(next.at)) < best_.peak) descend(placed + 1, next.at, next.request + 1);
      at_[next.request] = kNowhere;
      highest_ = highest;
      for (size_t s = slots.begin; s < slots.end; ++s) {
        top_[s] = tops[s - slots.begin];
        left_[s] += request.bytes;
      }
    }
  }

  std::span<const TensorLife> requests_;
  AddressPlan& best_;
  int64_t most_looks_;
  std::vector<int64_t> at_;
  std::vector<size_t> twin_;  // the one before it that is the same, and lies below it
  std::vector<Slots> slots_;
  std::vector<int64_t> top_, left_;  // of each slot: where what is placed ends; bytes that are not placed yet
  int64_t highest_ = 0;
};

}  // namespace

int64_t most_live(std::span<const TensorLife> requests) {
  std::vector<std::pair<int64_t, int64_t>> changes;  // what ends at a time goes before what begins
  for (const TensorLife& request : requests) {
    changes.emplace_back(request.begin, request.bytes);
    changes.emplace_back(request.end, -request.bytes);
  }
  std::ranges::sort(changes);
  int64_t live = 0, most = 0;
  for (const auto& [time, bytes] : changes) most = std::max(most, live += bytes);
  return most;
}

AddressPlan plan_addresses(std::span<const TensorLife> requests, int64_t most_looks) {
  for (const TensorLife& request : requests)
    LONGHAUL_ASSERT(request.bytes > 0 && request.begin < request.end, "{} bytes in [{}, {})", request.bytes,
                    request.begin, request.end);
  if (requests.empty()) return {};
  const int64_t live = most_live(requests);
  AddressPlan plan = greedy(requests, live, most_looks);
  plan.live = live;
  if (plan.peak == live) return plan;
  plan.optimal = requests.size() <= kMostSearched && Search(requests, plan, most_looks).run();
  plan.optimal = plan.optimal || plan.peak == live;
  return plan;
}

}  // namespace longhaul::plan
