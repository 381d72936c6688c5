// Planned addresses: no two tensors that live at one time share bytes, the smallest block is found where a
// search of all orders finds it, and the two levels of a step cost what they are meant to.
#include "plan/memory/addresses/address_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "plan/memory/addresses/step_addresses.h"

namespace longhaul::plan {
namespace {

using Requests = std::vector<TensorLife>;

// Pairs that share bytes, and whether the peak is what the addresses say.
void expect_right(const Requests& requests, const AddressPlan& plan) {
  ASSERT_EQ(plan.addresses.size(), requests.size());
  int64_t peak = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    const int64_t begin = plan.addresses[i], end = begin + requests[i].bytes;
    EXPECT_GE(begin, 0);
    peak = std::max(peak, end);
    for (size_t j = 0; j < i; ++j) {
      const bool live = requests[i].begin < requests[j].end && requests[j].begin < requests[i].end;
      const bool share = begin < plan.addresses[j] + requests[j].bytes && plan.addresses[j] < end;
      EXPECT_FALSE(live && share) << j << " and " << i;
    }
  }
  EXPECT_EQ(plan.peak, peak);
  EXPECT_GE(plan.peak, plan.live);
}

// The smallest peak of all orders in which each tensor gets the lowest address that is free for it.
int64_t least_peak(const Requests& requests) {
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), size_t{0});
  int64_t least = INT64_MAX;
  do {
    std::map<size_t, int64_t> at;
    int64_t peak = 0;
    for (const size_t i : order) {
      std::vector<int64_t> tries{0};
      for (const auto& [j, address] : at) tries.push_back(address + requests[j].bytes);
      std::ranges::sort(tries);
      for (const int64_t address : tries) {
        const bool free = std::ranges::none_of(at, [&](const auto& other) {
          const TensorLife& there = requests[other.first];
          return there.begin < requests[i].end && requests[i].begin < there.end &&
                 other.second < address + requests[i].bytes && address < other.second + there.bytes;
        });
        if (!free) continue;
        at[i] = address;
        peak = std::max(peak, address + requests[i].bytes);
        break;
      }
    }
    least = std::min(least, peak);
  } while (std::ranges::next_permutation(order).found);
  return least;
}

Requests random_requests(uint64_t seed, size_t count, int64_t sizes, int64_t times) {
  std::mt19937_64 random(seed);
  const auto below = [&](int64_t most) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(most));
  };
  Requests requests;
  for (size_t i = 0; i < count; ++i) {
    const int64_t begin = below(times);
    requests.push_back({1 + below(sizes), begin, begin + 1 + below(times - begin)});
  }
  return requests;
}

// Part B4 of docs/sources/long-context-parallelism.md. Orders by size, and by size times lifetime, give 14
// for the first; what an allocator does that does not know the future gives 15 and 23.
TEST(AddressPlan, VectorsOfTheSpecification) {
  const Requests first{{3, 4, 10}, {5, 1, 4}, {1, 3, 9}, {4, 0, 8}, {5, 8, 10}, {1, 6, 10}};
  const AddressPlan ten = plan_addresses(first);
  EXPECT_EQ(ten.live, 10);
  EXPECT_EQ(ten.peak, 10);
  EXPECT_TRUE(ten.optimal);
  expect_right(first, ten);

  const Requests second{{4, 4, 9}, {6, 8, 10}, {3, 3, 10}, {4, 1, 3}, {6, 7, 9}, {3, 2, 6}};
  const AddressPlan nineteen = plan_addresses(second);
  EXPECT_EQ(nineteen.live, 19);
  EXPECT_EQ(nineteen.peak, 19);
  EXPECT_TRUE(nineteen.optimal);
  expect_right(second, nineteen);
}

TEST(AddressPlan, NothingAndOne) {
  EXPECT_EQ(plan_addresses({}).peak, 0);
  const Requests one{{7, 3, 4}};
  EXPECT_EQ(plan_addresses(one).peak, 7);
  EXPECT_EQ(plan_addresses(one).addresses, std::vector<int64_t>{0});
}

// Against all orders, where these are few.
TEST(AddressPlan, IsTheSmallestOfAllOrders) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const Requests requests = random_requests(seed, 6, 7, 8);
    const AddressPlan plan = plan_addresses(requests);
    expect_right(requests, plan);
    EXPECT_EQ(plan.peak, least_peak(requests));
    EXPECT_TRUE(plan.optimal);
  }
}

// Six bytes live at most, and no order needs fewer than seven.
TEST(AddressPlan, TheBoundCannotAlwaysBeReached) {
  const Requests requests{{2, 5, 7}, {3, 0, 4}, {2, 3, 6}, {3, 6, 7}, {3, 2, 3}, {1, 3, 5}, {2, 4, 6}};
  ASSERT_EQ(least_peak(requests), 7);
  const AddressPlan plan = plan_addresses(requests);
  expect_right(requests, plan);
  EXPECT_EQ(plan.live, 6);
  EXPECT_EQ(plan.peak, 7);
  EXPECT_TRUE(plan.optimal) << "the search came to its end";
}

TEST(AddressPlan, EndsAtItsLimit) {
  const Requests requests = random_requests(1, 60, 1000, 40);
  const AddressPlan brief = plan_addresses(requests, 10'000);
  expect_right(requests, brief);
  EXPECT_FALSE(brief.optimal);
  EXPECT_LT(brief.looks, 10'000 + 60 * 120) << "one more round of candidates at most";
  const AddressPlan longer = plan_addresses(requests, 3'000'000);
  EXPECT_LE(longer.peak, brief.peak);
  EXPECT_LE(plan_addresses(requests, 3'000'000).peak, longer.peak) << "the same again";
}

// A step of many layers as it comes from a log.
class Step {
 public:
  int64_t now = 0;
  Requests requests;
  std::vector<int64_t> cuts;

  size_t make(int64_t bytes) {
    requests.push_back({bytes, ++now, 0});
    return requests.size() - 1;
  }
  void free(size_t request) { requests[request].end = ++now; }
  void cut() { cuts.push_back(++now); }
};

// On paper: what a layer of minimax-text-01 makes of 8,192 tokens in bf16, 6,144 wide, 64 heads of 128, two
// of 32 experts of 9,216 a token. `kept` is for the backward pass; the rest is gone at the layer's end.
struct PaperLayer {
  std::vector<int64_t> kept, passing, backward;
};

PaperLayer paper_layer(bool softmax) {
  constexpr int64_t kRow = 8192 * 2, kHidden = 6144 * kRow, kHeads = 8192 * kRow, kInner = 9216 * kRow;
  PaperLayer layer{
      .kept = {kHidden, kHidden, 3 * kHeads, kHeads, kHidden, 2 * kHidden, 4 * kInner, 2 * kInner},
      .passing = {32 * kRow, 2 * kHidden, kHidden, 8192 * 8, kHidden},
      .backward = {2 * kHidden, 2 * kInner, 4 * kInner, 2 * kHidden, kHidden, kHeads, 3 * kHeads, kHidden,
                   kHidden}};
  if (softmax) {
    layer.kept.push_back(8192 * 64 * 4);
    layer.backward.push_back(8 * kHeads);
  } else {
    layer.kept.insert(layer.kept.end(), {3 * kHeads, kHeads, 64 * 128 * 128 * 4 * 8});
    layer.passing.push_back(3 * kHeads);
    layer.backward.insert(layer.backward.end(), {3 * kHeads, kHeads});
  }
  return layer;
}

Step paper_step(int64_t layers) {
  Step step;
  std::vector<std::vector<size_t>> kept;
  const auto run = [&](const std::vector<int64_t>& sizes, size_t together) {
    std::vector<size_t> live;
    for (const int64_t bytes : sizes) {
      live.push_back(step.make(bytes));
      if (live.size() <= together) continue;
      step.free(live.front());
      live.erase(live.begin());
    }
    for (const size_t request : live) step.free(request);
  };
  for (int64_t l = 0; l < layers; ++l) {
    step.cut();
    const PaperLayer layer = paper_layer(l % 8 == 7);
    kept.emplace_back();
    for (const int64_t bytes : layer.kept) kept.back().push_back(step.make(bytes));
    run(layer.passing, 2);
  }
  step.cut();
  for (int64_t l = layers - 1; l >= 0; --l) {
    run(paper_layer(l % 8 == 7).backward, 3);
    for (const size_t request : kept.back()) step.free(request);
    kept.pop_back();
    step.cut();
  }
  return step;
}

// Alike layers are searched once, so eighty cost hardly more than eight.
TEST(StepAddresses, AlikeLayersAreSolvedOnce) {
  const Step step = paper_step(80);
  const StepAddresses addresses = plan_step(step.requests, step.cuts);
  expect_right(step.requests, addresses.plan);
  EXPECT_EQ(addresses.parts, 160);
  EXPECT_EQ(addresses.kinds, 4) << "forward and backward, softmax and linear";
  EXPECT_LT(addresses.plan.looks, 1'000'000'000) << "about a second";
  EXPECT_LE(static_cast<double>(addresses.plan.peak), 1.01 * static_cast<double>(addresses.plan.live));
}

TEST(StepAddresses, RequestsOfPartsAndAcrossThem) {
  Step step;
  const size_t across = step.make(4);
  step.cut();
  const size_t a = step.make(3), b = step.make(2);
  step.free(a);
  const size_t c = step.make(3);
  step.free(b), step.free(c);
  step.cut();
  const size_t d = step.make(5);
  step.free(d), step.free(across);
  const StepAddresses addresses = plan_step(step.requests, step.cuts);
  expect_right(step.requests, addresses.plan);
  EXPECT_EQ(addresses.parts, 2);
  EXPECT_EQ(addresses.kinds, 2);
  EXPECT_EQ(addresses.plan.peak, 9);
  EXPECT_EQ(addresses.plan.addresses[a], addresses.plan.addresses[c]);
}

// Whatever is asked for, and wherever the cuts are.
TEST(StepAddresses, RandomSteps) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const Requests requests = random_requests(seed, 80, 50, 60);
    const std::vector<int64_t> cuts{7, 19, 20, 45};
    const StepAddresses addresses = plan_step(requests, cuts, 200'000);
    expect_right(requests, addresses.plan);
    EXPECT_EQ(addresses.plan.live, most_live(requests));
  }
}

}  // namespace
}  // namespace longhaul::plan
