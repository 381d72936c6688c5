#include "plan/memory/addresses/step_addresses.h"

#include <algorithm>
#include <map>

namespace longhaul::plan {
namespace {

// A search of the first level gets this part of the limit, so that something is left to the second.
constexpr int64_t kOfOneKind = 8;

// The part of a time: how many cuts are at or before it.
size_t part_of(std::span<const int64_t> cuts, int64_t time) {
  return static_cast<size_t>(std::ranges::upper_bound(cuts, time) - cuts.begin());
}

struct Parts {
  std::map<size_t, std::vector<size_t>> of_part;  // requests that begin and end within it
  std::vector<size_t> across;
};

Parts parts_of(std::span<const TensorLife> requests, std::span<const int64_t> cuts) {
  Parts parts;
  for (size_t i = 0; i < requests.size(); ++i) {
    const size_t first = part_of(cuts, requests[i].begin), last = part_of(cuts, requests[i].end - 1);
    if (first == last)
      parts.of_part[first].push_back(i);
    else
      parts.across.push_back(i);
  }
  return parts;
}

// Both levels; nothing is compared with a plan of one level.
StepAddresses plan_of_parts(std::span<const TensorLife> requests, const Parts& parts, int64_t most_looks) {
  StepAddresses step{.parts = std::ssize(parts.of_part)};
  std::map<std::vector<TensorLife>, AddressPlan> kinds;
  std::vector<const AddressPlan*> of_parts;
  std::vector<TensorLife> whole;  // the second level: parts first
  for (const auto& [part, members] : parts.of_part) {
    TensorLife block{.begin = requests[members.front()].begin, .end = requests[members.front()].end};
    for (const size_t i : members) {
      block.begin = std::min(block.begin, requests[i].begin);
      block.end = std::max(block.end, requests[i].end);
    }
    std::vector<TensorLife> own;
    for (const size_t i : members)
      own.push_back({requests[i].bytes, requests[i].begin - block.begin, requests[i].end - block.begin});
    const auto [kind, fresh] = kinds.try_emplace(own);
    if (fresh) {
      kind->second = plan_addresses(own, most_looks / kOfOneKind);
      step.plan.looks += kind->second.looks;
    }
    block.bytes = kind->second.peak;
    of_parts.push_back(&kind->second);
    whole.push_back(block);
  }
  step.kinds = std::ssize(kinds);
  for (const size_t i : parts.across) whole.push_back(requests[i]);
  const AddressPlan outer = plan_addresses(whole, most_looks);
  step.plan.looks += outer.looks;
  step.plan.peak = outer.peak;
  step.plan.addresses.resize(requests.size());
  size_t p = 0;
  for (const auto& [part, members] : parts.of_part) {
    for (size_t k = 0; k < members.size(); ++k)
      step.plan.addresses[members[k]] = outer.addresses[p] + of_parts[p]->addresses[k];
    ++p;
  }
  for (const size_t i : parts.across) step.plan.addresses[i] = outer.addresses[p++];
  return step;
}

}  // namespace

StepAddresses plan_step(std::span<const TensorLife> requests, std::span<const int64_t> cuts,
                        int64_t most_looks) {
  StepAddresses step = plan_of_parts(requests, parts_of(requests, cuts), most_looks);
  step.plan.live = most_live(requests);
  if (step.plan.peak > step.plan.live) {
    AddressPlan at_once = plan_addresses(requests, most_looks / kOfOneKind);
    at_once.looks += step.plan.looks;
    if (at_once.peak < step.plan.peak)
      step.plan = std::move(at_once);
    else
      step.plan.looks = at_once.looks;
  }
  step.plan.optimal = step.plan.peak == step.plan.live;
  return step;
}

}  // namespace longhaul::plan
