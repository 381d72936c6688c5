// What experts on several ranks send, counted against the formulas of docs/sources/moe-parallel-folding.md
// §3.5, and what of it is hidden: with links and products that take known times, a forward and a backward
// pass take as long as by hand, and so does a pair of both whose passes take turns.
#include <gtest/gtest.h>

#include <cmath>
#include <ostream>
#include <set>

#include "kernels/differentiable.h"
#include "parallel/expert_cases.h"
#include "parallel/watched_communicator.h"

namespace longhaul::parallel {
namespace {

using namespace testing;  // NOLINT: the cases

constexpr int64_t kExpertTokens = 8;

// Every expert is chosen equally often by every rank.
Tensor even_choices() {
  return at::arange(kExpertTokens * kChoices, at::kLong).remainder(kExperts).view({kExpertTokens, kChoices});
}

struct TimedPass {
  std::map<std::string, int64_t> forward_bytes, backward_bytes;
  double forward = 0, backward = 0;
};

// Half a unit of time for a row: forward, the gradient of rows, the gradient of weights. The answer is the
// rows themselves.
Tensor product_in_time(Watch& watch, const Tensor& rows, const std::shared_ptr<kernels::Postponed>& later) {
  const double cost = 0.5 * static_cast<double>(rows.size(0));
  return kernels::differentiable("product in time", {rows}, [&]() -> kernels::Recorded {
    watch.now += cost;
    return {.results = {rows.clone()}, .backward = [&watch, cost, later](const kernels::BackwardCall& call) {
              watch.now += cost;
              kernels::GradientSink(at::zeros({1})).into(later).add([&watch, cost](const Tensor&) {
                watch.now += cost;
              });
              return std::vector<Tensor>{call.gradients[0]};
            }};
  })[0];
}

TimedPass pass(int64_t world, const layout::MeshShape& shape, const recipe::ExpertOptions& options) {
  std::vector<TimedPass> of_ranks(static_cast<size_t>(world));
  const layout::Mesh mesh(world, shape);
  comm::run_ranks(world, [&](comm::Communicator& thread) {
    Watch watch;
    WatchedCommunicator watched(thread, watch);
    const MeshGroups groups(watched, mesh);
    TimedPass& passed = of_ranks[static_cast<size_t>(thread.rank())];
    const Tensor hidden = at::ones({kExpertTokens, kHidden}, at::kFloat).requires_grad_(true),
                 weight = at::ones({kExpertTokens, kChoices}, at::kFloat);
    const auto product = [&](const Tensor& rows, const std::vector<int64_t>&, const auto& later) {
      return product_in_time(watch, rows, later);
    };
    const Tensor output =
        dispatch_to_experts(groups, options, hidden, {even_choices(), weight, kExperts}, product);
    passed.forward_bytes = std::exchange(watch.bytes, {});
    passed.forward = std::exchange(watch.now, 0);
    // Links are idle again, whatever the clock says.
    watch.now = 1000;
    output.sum().backward();
    passed.backward_bytes = watch.bytes;
    passed.backward = watch.now - 1000;
  });
  for (const TimedPass& each : of_ranks) {
    EXPECT_EQ(each.forward, of_ranks[0].forward);
    EXPECT_EQ(each.forward_bytes, of_ranks[0].forward_bytes);
  }
  return of_ranks[0];
}

TEST(ExpertBytes, AreThoseOfTheFormulas) {
  constexpr int64_t kRow = kHidden * 4;
  for (const auto& [ep, etp] : {std::pair<int64_t, int64_t>{2, 1}, {4, 1}, {1, 2}, {2, 2}, {1, 4}}) {
    SCOPED_TRACE(::testing::Message() << "ep " << ep << " etp " << etp);
    const TimedPass exchanged = pass(ep * etp, {.ep = ep, .etp = etp}, {});
    const int64_t rows = kExpertTokens * kChoices, dispatch = rows * kRow * (ep - 1) / ep,
                  gather = rows * kRow * (etp - 1);
    std::map<std::string, int64_t> expected = {{"rows of experts", kExperts * 8 * (ep * etp - 1)}};
    std::map<std::string, int64_t> back;
    if (ep > 1) expected["rows to experts"] = expected["rows from experts"] = dispatch;
    if (etp > 1)
      expected["rows of the ranks that share experts"] =
          expected["products of the ranks that share experts"] = gather;
    for (const auto& [name, bytes] : expected) {
      if (name != "rows of experts") back[name + " (gradient)"] = bytes;
    }
    EXPECT_EQ(exchanged.forward_bytes, expected);
    EXPECT_EQ(exchanged.backward_bytes, back);

    const TimedPass gathered =
        pass(ep * etp, {.ep = ep, .etp = etp}, {.dispatcher = recipe::Dispatcher::kAllGather});
    const int64_t others = ep * etp - 1;
    EXPECT_EQ(gathered.forward_bytes,
              (std::map<std::string, int64_t>{{"tokens of the ranks with experts", 8 * others},
                                              {"choices of all tokens", rows * 8 * others},
                                              {"weights of all choices", rows * 4 * others},
                                              {"tokens to experts", kExpertTokens * kRow * others},
                                              {"sums of experts", kExpertTokens * kRow * others}}));
    EXPECT_EQ(gathered.backward_bytes.at("tokens to experts (gradient)"), kExpertTokens * kRow * others);
    EXPECT_EQ(gathered.backward_bytes.at("sums of experts (gradient)"), kExpertTokens * kRow * others);
  }
}

// A token goes once to each rank that has any of its experts: counted from the choices, whatever the
// dispatcher makes of them.
TEST(ExpertBytes, FlexSendsATokenOnceToARank) {
  constexpr int64_t kRow = kHidden * 4;
  const Tensor choices = even_choices();
  for (const auto& [ep, etp] : {std::pair<int64_t, int64_t>{2, 1}, {4, 1}, {1, 2}, {2, 2}, {1, 4}}) {
    SCOPED_TRACE(::testing::Message() << "ep " << ep << " etp " << etp);
    int64_t rows = 0;
    for (int64_t t = 0; t < kExpertTokens; ++t) {
      std::set<int64_t> ranks;
      for (int64_t k = 0; k < kChoices; ++k) {
        const int64_t of_expert = choices[t][k].item<int64_t>() / (kExperts / ep);
        for (int64_t e = 0; e < etp; ++e) ranks.insert(of_expert * etp + e);
      }
      ranks.erase(0);  // the bytes are rank 0's, and every rank's
      rows += std::ssize(ranks);
    }
    const TimedPass flex = pass(ep * etp, {.ep = ep, .etp = etp}, {.dispatcher = recipe::Dispatcher::kFlex});
    EXPECT_EQ(flex.forward_bytes, (std::map<std::string, int64_t>{{"tokens for experts", 8 * (ep * etp - 1)},
                                                                  {"choices to experts", rows * kChoices * 4},
                                                                  {"weights to experts", rows * kChoices * 4},
                                                                  {"tokens to experts", rows * kRow},
                                                                  {"sums of experts", rows * kRow}}));
    EXPECT_EQ(flex.backward_bytes,
              (std::map<std::string, int64_t>{{"tokens to experts (gradient)", rows * kRow},
                                              {"sums of experts (gradient)", rows * kRow}}));
  }
}

// 8 of a rank's 16 rows go to the other: an exchange takes 8, a product 8.
TEST(ExpertOverlap, GroupsHideExchangesBehindProducts) {
  const TimedPass plain = pass(2, {.ep = 2}, {});
  EXPECT_EQ(plain.forward, 8 + 8 + 8);
  EXPECT_EQ(plain.backward, 8 + (8 + 8) + 8);
  // Two groups: the second comes while the first is computed, and the first goes home while the second is: 4
  // + 4 + 4 + 4. Back: the rows' gradients of one come while those of the other are computed, but weights are
  // computed before anything goes home.
  const TimedPass groups = pass(2, {.ep = 2}, {.token_groups = 2});
  EXPECT_EQ(groups.forward, 16);
  EXPECT_EQ(groups.backward, 4 + (4 + 4) + (4 + 4) + 4);
}

TEST(ExpertOverlap, DelayedGradientsOfWeightsHideTheWayHome) {
  const TimedPass delayed = pass(2, {.ep = 2}, {.delay_gradients = true});
  EXPECT_EQ(delayed.forward, 24) << "nothing of it goes forward";
  EXPECT_EQ(delayed.backward, 8 + 8 + 8);
  EXPECT_EQ(pass(2, {.ep = 2}, {.token_groups = 2, .delay_gradients = true}).backward, 4 + 4 + 4 + 4 + 4);
}

// Both experts of a token lie on one rank: 4 of 8 tokens go to the other, with a row of weights each, and 4
// rows come back.
TEST(ExpertOverlap, FlexHidesItsExchangesToo) {
  const recipe::ExpertOptions flex{.dispatcher = recipe::Dispatcher::kFlex};
  recipe::ExpertOptions groups = flex, delayed = flex;
  groups.token_groups = 2;
  delayed.delay_gradients = true;
  EXPECT_EQ(pass(2, {.ep = 2}, flex).forward, (4 + 4) + 8 + 4);
  EXPECT_EQ(pass(2, {.ep = 2}, flex).backward, 4 + (8 + 8) + 4);
  // The second group's rows come while the first is computed, the first one's sums go back while the second
  // is.
  EXPECT_EQ(pass(2, {.ep = 2}, groups).forward, 4 + 4 + 4 + 2);
  EXPECT_EQ(pass(2, {.ep = 2}, delayed).backward, 4 + 8 + 8)
      << "the rows' way home beside the weights' products";
}

// The links of ep and etp are two: the exchange of one group goes on beside the gathering of another. Each of
// a rank's exchanges takes 8, each gathering 16, a product 16, adding up 16; in four groups a quarter of it.
TEST(ExpertOverlap, TheTwoKindsOfGroupsOverlapEachOther) {
  EXPECT_EQ(pass(4, {.ep = 2, .etp = 2}, {}).forward, 8 + 16 + 16 + 16 + 8);
  // The links of etp are never idle between their first call and their last: 2 until then, 32 of their own, 2
  // behind them.
  EXPECT_EQ(pass(4, {.ep = 2, .etp = 2}, {.token_groups = 4}).forward, 2 + 32 + 2);
}

// ---- pairs: the forward pass of one micro-batch and the backward pass of another

// What stands in front of a layer's experts: so long forward, twice as long backward.
Tensor mixer_in_time(Watch& watch, const Tensor& x, double cost) {
  return kernels::differentiable("mixer in time", {x}, [&]() -> kernels::Recorded {
    watch.now += cost;
    return {.results = {x.clone()}, .backward = [&watch, cost](const kernels::BackwardCall& call) {
              watch.now += 2 * cost;
              return std::vector<Tensor>{call.gradients[0]};
            }};
  })[0];
}

struct TimedPair {
  double in_turns = 0, one_behind_the_other = 0;
  bool operator==(const TimedPair&) const = default;
};
void PrintTo(const TimedPair& pair, std::ostream* out) {
  *out << pair.in_turns << " in turns, " << pair.one_behind_the_other;
}

TimedPair pair_of(int64_t world, const layout::MeshShape& shape, recipe::ExpertOptions options,
                  int64_t layers, double mixer) {
  options.delay_gradients = true;
  std::vector<TimedPair> of_ranks(static_cast<size_t>(world));
  const layout::Mesh mesh(world, shape);
  comm::run_ranks(world, [&](comm::Communicator& thread) {
    Watch watch;
    WatchedCommunicator watched(thread, watch);
    const MeshGroups groups(watched, mesh);
    Turns turns;
    const Tensor weight = at::ones({kExpertTokens, kChoices}, at::kFloat);
    const auto product = [&](const Tensor& rows, const std::vector<int64_t>&, const auto& later) {
      return product_in_time(watch, rows, later);
    };
    const auto forward = [&] {
      Tensor x = at::ones({kExpertTokens, kHidden}, at::kFloat).requires_grad_(true);
      for (int64_t layer = 0; layer < layers; ++layer)
        x = dispatch_to_experts(groups, options, mixer_in_time(watch, x, mixer),
                                {even_choices(), weight, kExperts}, product, &turns);
      return x.sum();
    };
    const auto timed = [&](const auto& pair) {
      const Tensor before = forward();
      const double begin = watch.now = std::ceil(watch.now) + 1000;  // links are idle
      pair(before);
      return watch.now - begin;
    };
    of_ranks[static_cast<size_t>(thread.rank())] = {
        timed([&](const Tensor& before) {
          turns.run({.first = [&] { before.backward(); }, .second = [&] { forward(); }});
        }),
        timed([&](const Tensor& before) {
          forward();
          before.backward();
        })};
  });
  for (const TimedPair& each : of_ranks) EXPECT_EQ(each, of_ranks[0]);
  return of_ranks[0];
}

// Forward a mixer takes 8 and a product 8, backward 16 and 8 and the product's weights 8: 48. An exchange
// takes 8, and there are four, one of which stands beside the weights anyway: 72 one behind the other. In
// turns all four are hidden, in every layer.
TEST(ExpertPairs, HideEveryExchangeBehindTheOtherPass) {
  EXPECT_EQ(pair_of(2, {.ep = 2}, {}, 1, 8), (TimedPair{48, 72}));
  EXPECT_EQ(pair_of(2, {.ep = 2}, {}, 3, 8), (TimedPair{144, 216}));
  // Mixers of 4 and 8 do not fill the 8 in which the gradients of sums come.
  EXPECT_EQ(pair_of(2, {.ep = 2}, {}, 1, 4), (TimedPair{4 + 8 + 8 + 8 + 8 + 4, 60}));
}

TEST(ExpertPairs, HideWhatTheOtherDispatchersSend) {
  // Weights of choices go first, for 8, and are waited for at once.
  EXPECT_EQ(pair_of(2, {.ep = 2}, {.dispatcher = recipe::Dispatcher::kAllGather}, 1, 8),
            (TimedPair{48 + 8, 80}));
  // 4 of 8 tokens go, with 4 rows of weights.
  EXPECT_EQ(pair_of(2, {.ep = 2}, {.dispatcher = recipe::Dispatcher::kFlex}, 1, 8),
            (TimedPair{48, (8 + 8 + 8 + 4) + (4 + 8 + 8 + 16)}));
}

TEST(ExpertPairs, HideTheExchangesOfRanksThatShareExpertsWhereThereAreNoOthers) {
  // An exchange takes 16, a product 16. The mixer of 8 leaves half of the first one open.
  EXPECT_EQ(pair_of(2, {.etp = 2}, {}, 1, 8), (TimedPair{8 + 16 + 16 + 16 + 16 + 8, 120}));
  // The exchanges over ep are hidden, those over etp are not, but for the one beside the weights.
  EXPECT_EQ(pair_of(4, {.ep = 2, .etp = 2}, {}, 1, 8), (TimedPair{8 + 16 + 16 + 16 + 16 + 3 * 16, 152}));
}

}  // namespace
}  // namespace longhaul::parallel
