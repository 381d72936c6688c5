// route: the choice of experts, its weights, statistics and gradients, against ATen operators.
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "kernels/experts/op.h"
#include "support/instruction_sets.h"
#include "support/threads.h"

namespace longhaul::kernels::routing_test {
namespace {

using namespace longhaul::testing;

at::ScalarType routing_wide(at::ScalarType type) { return type == at::kDouble ? at::kDouble : at::kFloat; }

struct RoutingCase {
  int64_t tokens, hidden, experts, k;
};
// Tails of tiles of four tokens, two and four experts, and of vectors; all experts chosen; one expert.
const RoutingCase kRoutingCases[] = {{1, 3, 2, 1},   {4, 16, 4, 2}, {7, 17, 5, 2},   {9, 33, 8, 8},
                                     {70, 40, 6, 3}, {5, 8, 1, 1},  {300, 24, 33, 2}};

struct Mix {
  Tensor weight_tk, probability_se;
  double z;
};

// One sequence, or four: some tokens, none, one, the rest.
std::vector<Tensor> sequences_of(int64_t tokens) {
  const int64_t first = tokens / 3;
  return {Tensor(), at::tensor(std::vector<int64_t>{0, first, first, std::min(first + 1, tokens), tokens})};
}
int64_t sequences(const Tensor& offsets) { return offsets.defined() ? offsets.numel() - 1 : 1; }

// Everything that carries a gradient, in one number.
Tensor mixed(const Routing& routing, const Mix& mix) {
  return routing.weight_tk.to(at::kDouble).mul(mix.weight_tk).sum() +
         routing.probability_sum_se.to(at::kDouble).mul(mix.probability_se).sum() +
         routing.log_sum_square.to(at::kDouble).mul(mix.z);
}

// The choice is the same as topk's unless probabilities are closer than rounding, which these are not. fp32:
// a few dozen roundings; bf16: hidden states are exact in fp32, so only dx is rounded (half a unit: 2^-8 of
// the largest).
TEST(Route, EqualsReference) {
  const PoisonFreshMemory poison;
  for_each_instruction_set([&] {
    const std::tuple<at::ScalarType, double, double> types[] = {
        {at::kDouble, 1e-12, 1e-11}, {at::kFloat, 2e-6, 2e-5}, {at::kBFloat16, 2e-6, 4e-3}};
    for (const auto& [type, tolerance, dx_tolerance] : types) {
      for (const RoutingCase& each : kRoutingCases)
        for (const Tensor& offsets : sequences_of(each.tokens)) {
          const Tensor hidden = random_tensor({each.tokens, each.hidden}, 1, type).requires_grad_(true);
          const Tensor router = random_tensor({each.experts, each.hidden}, 2, routing_wide(type)).mul(0.5);
          const Tensor sink = at::full_like(router, 3);
          const Mix mix{random_tensor({each.tokens, each.k}, 3),
                        random_tensor({sequences(offsets), each.experts}, 4), 0.3};
          const Routing found = route(hidden, router, each.k, sink, offsets);
          mixed(found, mix).backward();
          const Tensor again = hidden.detach().clone().requires_grad_(true),
                       leaf = router.clone().requires_grad_(true);
          const Routing expected = route_reference(again, leaf, each.k, offsets);
          mixed(expected, mix).backward();
          const std::string where = std::to_string(each.tokens) + " tokens, " + std::to_string(each.experts) +
                                    " experts, " + std::to_string(sequences(offsets)) + " sequences";
          EXPECT_TRUE(found.choice_tk.equal(expected.choice_tk)) << where;
          EXPECT_LT(relative_error(found.weight_tk, expected.weight_tk), tolerance) << where;
          EXPECT_LT(relative_error(found.probability_sum_se, expected.probability_sum_se), tolerance)
              << where;
          EXPECT_TRUE(found.count_se.equal(expected.count_se)) << where;
          EXPECT_LT(relative_error(found.log_sum_square, expected.log_sum_square), tolerance) << where;
          EXPECT_EQ(hidden.grad().scalar_type(), type);
          // only z has a gradient then; sums of zeros follow
          if (each.experts == 1 && type != at::kDouble) continue;
          EXPECT_LT(relative_error(hidden.grad(), again.grad()), dx_tolerance) << where << " " << type;
          EXPECT_LT(relative_error(sink.sub(3), leaf.grad()), type == at::kDouble ? 1e-12 : 2e-5)
              << where << " " << type;
        }
    }
  });
}

TEST(Route, Gradients) {
  const Tensor router = random_tensor({5, 9}, 2), sink = at::zeros({5, 9}, at::kDouble);
  for (const Tensor& offsets : sequences_of(6)) {
    const Mix mix{random_tensor({6, 2}, 3), random_tensor({sequences(offsets), 5}, 4), 0.7};
    check_gradients(
        [&](const std::vector<Tensor>& in) { return mixed(route(in[0], router, 2, sink, offsets), mix); },
        {random_tensor({6, 9}, 1)});
  }
}

// Three sequences, and their statistics by hand.
TEST(Route, StatisticsAreOfEachSequence) {
  const Tensor router = random_tensor({5, 9}, 2), x = random_tensor({6, 9}, 1),
               probability = at::mm(x, router.t()).softmax(1);
  const std::vector<int64_t> offsets = {0, 2, 2, 6};
  const Routing routing = route(x, router, 2, Tensor(), at::tensor(offsets));
  for (int64_t s = 0; s < 3; ++s) {
    std::vector<int64_t> counts(5, 0);
    Tensor sum = at::zeros({5}, at::kDouble);
    for (int64_t t = offsets[static_cast<size_t>(s)]; t < offsets[static_cast<size_t>(s) + 1]; ++t) {
      sum += probability[t];
      for (int64_t k = 0; k < 2; ++k) ++counts[static_cast<size_t>(routing.choice_tk[t][k].item<int64_t>())];
    }
    EXPECT_LT((routing.probability_sum_se[s] - sum).abs().max().item<double>(), 1e-14) << s;
    EXPECT_TRUE(routing.count_se[s].equal(at::tensor(counts))) << s;
  }
  EXPECT_THROW(route(x, router, 2, Tensor(), at::tensor(std::vector<int64_t>{0, 5})), Error)
      << "tokens in no sequence";
}

// Of a sequence alone and among others: the same bits.
TEST(Route, ASequencesStatisticsDoNotDependOnItsNeighbours) {
  const Tensor router = random_tensor({7, 40}, 2, at::kFloat), x = random_tensor({300, 40}, 1, at::kFloat);
  const Routing all = route(x, router, 2, Tensor(), at::tensor(std::vector<int64_t>{0, 37, 300}));
  const Routing last = route(x.narrow(0, 37, 263), router, 2, Tensor());
  EXPECT_TRUE(all.probability_sum_se[1].equal(last.probability_sum_se[0]));
  EXPECT_TRUE(all.count_se[1].equal(last.count_se[0]));
}

// Inference reads weights and choice alone, and they have the bits that they have beside statistics: in fp32
// of our loops, in fp64 and with sigmoid scores of LibTorch's operators.
TEST(Route, WithoutStatistics) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    const Tensor router = random_tensor({7, 40}, 2, type), x = random_tensor({30, 40}, 1, type);
    for (const auto score : {RouterOptions::Score::kSoftmax, RouterOptions::Score::kSigmoid}) {
      RouterOptions options{.score = score};
      const Routing all = route(x, router, 3, Tensor(), {}, options);
      options.statistics = false;
      const Routing bare = route(x, router, 3, Tensor(), {}, options);
      EXPECT_TRUE(bare.weight_tk.equal(all.weight_tk));
      EXPECT_TRUE(bare.choice_tk.equal(all.choice_tk));
      EXPECT_TRUE(all.count_se.defined());
      for (const Tensor& statistic : {bare.probability_sum_se, bare.count_se, bare.log_sum_square})
        EXPECT_FALSE(statistic.defined());
    }
  }
}

// A frozen router: the same results and gradients of hidden, nothing where its gradient would go.
TEST(Route, WithoutASink) {
  const Tensor router = random_tensor({5, 9}, 2), sink = at::zeros({5, 9}, at::kDouble);
  const Mix mix{random_tensor({6, 2}, 3), random_tensor({1, 5}, 4), 0.7};
  const Tensor x = random_tensor({6, 9}, 1).requires_grad_(true),
               again = x.detach().clone().requires_grad_(true);
  mixed(route(x, router, 2, Tensor()), mix).backward();
  mixed(route(again, router, 2, sink), mix).backward();
  EXPECT_TRUE(x.grad().equal(again.grad()));
  EXPECT_GT(sink.abs().max().item<double>(), 0);
}

// What nobody uses brings no gradient: statistics alone, weights alone.
TEST(Route, EitherHalfMayBeUnused) {
  const Tensor router = random_tensor({5, 9}, 2), hidden = random_tensor({6, 9}, 1),
               mix = random_tensor({6, 2}, 3);
  for (const bool statistics : {true, false}) {
    const Tensor sink = at::zeros({5, 9}, at::kDouble), x = hidden.clone().requires_grad_(true);
    const Tensor again = hidden.clone().requires_grad_(true), leaf = router.clone().requires_grad_(true);
    const auto part = [&](const Routing& routing) {
      return statistics ? routing.log_sum_square * 2 : routing.weight_tk.mul(mix).sum();
    };
    part(route(x, router, 2, sink)).backward();
    part(route_reference(again, leaf, 2)).backward();
    EXPECT_LT(relative_error(x.grad(), again.grad()), 1e-12) << statistics;
    EXPECT_LT(relative_error(sink, leaf.grad()), 1e-12) << statistics;
  }
}

TEST(Route, EqualProbabilitiesChooseTheLowerExpert) {
  const Routing routing =
      route(random_tensor({3, 4}, 1), at::zeros({6, 4}, at::kDouble), 3, at::zeros({6, 4}, at::kDouble));
  EXPECT_TRUE(routing.choice_tk.equal(at::tensor({0, 1, 2}, at::kLong).expand({3, 3})));
  EXPECT_LT(relative_error(routing.weight_tk, at::full({3, 3}, 1.0 / 3, at::kDouble)), 1e-15);
  EXPECT_NEAR(routing.log_sum_square.item<double>(), 3 * std::pow(std::log(6.0), 2), 1e-14);
}

// By hand: logits are the hidden states. Groups {0,1}, {2,3}, {4,5}; of each the best counts.
TEST(Route, AChoiceIsAmongTheBestGroups) {
  const Tensor x =
      at::tensor({3.0, 2.5, 2.0, -9.0, 1.0, 0.9, /**/ 1.0, 0.9, 3.0, 2.9, 2.0, -1.0}, at::kDouble)
          .view({2, 6});
  const Tensor identity = at::eye(6, at::kDouble);
  const auto route_by = [&](int64_t per_token, const Tensor& bias = {}) {
    return route(x, identity, 2, at::zeros({6, 6}, at::kDouble), {},
                 {.score = RouterOptions::Score::kSigmoid,
                  .scale = 2.5,
                  .groups = 3,
                  .groups_per_token = per_token,
                  .bias_e = bias});
  };
  // Two groups, one expert to judge each: of the first token {0,1} and {2,3}, in which the best two are 0 and
  // 1.
  EXPECT_TRUE(route_by(2).choice_tk.equal(at::tensor({0, 1, 2, 3}, at::kLong).view({2, 2})));
  // One group, judged by both of its experts: σ(3) + σ(2.5) and σ(3) + σ(2.9) are the largest sums.
  EXPECT_TRUE(route_by(1).choice_tk.equal(at::tensor({0, 1, 2, 3}, at::kLong).view({2, 2})));
  // A bias lifts the last group above the others, and counts in no weight.
  const Routing lifted = route_by(1, at::tensor({0.0, 0.0, 0.0, 0.0, 1.0, 1.0}, at::kDouble));
  EXPECT_TRUE(lifted.choice_tk.equal(at::tensor({4, 5, 4, 5}, at::kLong).view({2, 2})));
  const Tensor score = x.sigmoid().gather(1, lifted.choice_tk);
  EXPECT_LT(relative_error(lifted.weight_tk, 2.5 * score / score.sum(1, true)), 1e-14);
  EXPECT_THROW(route(x, identity, 2, Tensor(), {}, {.groups = 4}), Error) << "six experts in four groups";
  EXPECT_THROW(route(x, identity, 3, Tensor(), {}, {.groups = 3, .groups_per_token = 1}), Error)
      << "three of a group of two";
}

// e^{300} is beyond fp32, the ratio of the two is not.
TEST(Route, LargeLogitsKeepTheirRatio) {
  const Routing routing =
      route(at::ones({1, 1}), at::tensor({300.0f, 299.0f, 0.0f}).view({3, 1}), 2, at::zeros({3, 1}));
  EXPECT_NEAR(routing.weight_tk[0][0].item<double>(), 1 / (1 + std::exp(-1.0)), 1e-6);
  // fp32 near 9e4
  EXPECT_NEAR(routing.log_sum_square.item<double>(), std::pow(300 + std::log1p(std::exp(-1.0)), 2), 0.02);
}

// Logits of hundreds do not overflow; a NaN is not hidden.
TEST(Route, ExtremeLogits) {
  const Tensor router = at::tensor({300.0f, -300.0f, 0.0f}).view({3, 1}),
               x = at::tensor({1.0f, std::nanf("")}).view({2, 1});
  const Routing routing = route(x, router, 2, at::zeros({3, 1}));
  EXPECT_EQ(routing.choice_tk[0][0].item<int64_t>(), 0);
  EXPECT_EQ(routing.weight_tk[0][0].item<float>(), 1);
  EXPECT_TRUE(routing.weight_tk[1].isnan().all().item<bool>());
  EXPECT_TRUE(routing.log_sum_square.isnan().item<bool>());
}

TEST(Route, EdgeCases) {
  const Tensor router = random_tensor({4, 3}, 1), sink = at::zeros({4, 3}, at::kDouble),
               none = at::zeros({0, 3}, at::kDouble).requires_grad_(true);
  const Routing routing = route(none, router, 2, sink);
  EXPECT_EQ(routing.weight_tk.sizes(), at::IntArrayRef({0, 2}));
  EXPECT_TRUE(routing.probability_sum_se.eq(0).all().item<bool>());
  (routing.weight_tk.sum() + routing.log_sum_square).backward();
  EXPECT_TRUE(sink.eq(0).all().item<bool>());
  const Tensor x = at::zeros({2, 3}, at::kDouble);
  EXPECT_THROW(route(x, router, 0, sink), Error);
  EXPECT_THROW(route(x, router, 5, sink), Error);
  EXPECT_THROW(route(x, router.to(at::kFloat), 2, sink), Error);
  EXPECT_THROW(route(x, router, 2, at::zeros({4, 4}, at::kDouble)), Error);
  EXPECT_THROW(route(at::zeros({2, 4}, at::kDouble), router, 2, sink), Error);
}

TEST(Route, SameForEveryNumberOfThreads) {
  const Tensor router = random_tensor({7, 200}, 2, at::kFloat);
  const Mix mix{random_tensor({701, 2}, 3), random_tensor({2, 7}, 4), 0.3};
  const Tensor offsets = at::tensor(std::vector<int64_t>{0, 333, 701});
  expect_same_for_all_threads([&] {
    const Tensor x = random_tensor({701, 200}, 1, at::kFloat).requires_grad_(true),
                 sink = at::zeros({7, 200});
    const Routing routing = route(x, router, 2, sink, offsets);
    mixed(routing, mix).backward();
    return std::vector<Tensor>{routing.weight_tk.detach(),
                               routing.choice_tk,
                               routing.probability_sum_se.detach(),
                               routing.count_se,
                               routing.log_sum_square.detach(),
                               x.grad(),
                               sink};
  });
}

}  // namespace
}  // namespace longhaul::kernels::routing_test
