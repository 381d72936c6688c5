// Choices of a router by other than scores: balanced by Sinkhorn's iteration, by thresholds that follow
// quantiles, and even ones for benchmarks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/experts/sinkhorn.h"
#include "model/experts/router_forced.h"
#include "model/experts/router_quantile.h"
#include "model/experts/router_sinkhorn.h"
#include "router_of_one_layer.h"

namespace longhaul::model {
namespace {

using namespace longhaul::testing;

// Sequences that all like one expert: by Sinkhorn's scores of each sequence, weights from the plain ones. In
// evaluation everybody gets it.
TEST(RouterOfExperts, ChoosesBySinkhornInTraining) {
  recipe::ModelConfig config = router_config();
  config.experts_per_token = 1;
  config.router.score = recipe::RouterScore::kSigmoid;
  config.router.normalised = false;
  config.router.choice = recipe::RouterChoice::kSinkhorn;
  RouterOfOneLayer layer(config);
  constexpr int64_t kSequences = 3, kTokens = 16;
  Tensor x = random_tensor({kSequences * kTokens, config.hidden}, 4);
  x.add_(layer.matrix("router")[1].mul(20));
  const at::NoGradGuard guard;
  const Tensor logits = at::mm(x, layer.matrix("router").t());
  ASSERT_TRUE(logits.argmax(1).eq(1).all().item<bool>());
  const auto expected = [&](const Tensor& judged) {
    std::vector<Tensor> rows;
    for (int64_t t = 0; t < x.size(0); ++t) {
      const auto e = judged[t].argmax().item<int64_t>();
      rows.push_back(logits[t][e].sigmoid() * layer.expert(x[t], e));
    }
    return at::stack(rows);
  };
  std::vector<Tensor> judged;
  for (const Tensor& sequence : logits.chunk(kSequences)) judged.push_back(kernels::sinkhorn(sequence));
  const Tensor balanced = at::cat(judged);
  const layout::SequenceLayout layout = layout::make_batch(kSequences, kTokens);
  EXPECT_LT(relative_error(layer.experts.forward(layer.context, x, layout), expected(balanced)), 1e-12);
  EXPECT_LT(layer.context.statistics.at(kBusiestOverMean).at("layers.0.experts").item<double>(), 2.5)
      << "4 where all go to one";
  layer.context.training = false;
  EXPECT_LT(relative_error(layer.experts.forward(layer.context, x, layout), expected(logits)), 1e-12);
}

// Of a sequence of four tokens α = 1, 1, 2, 0.5 and ⌊4/3⌋ + 1 = 2; of one of one token α = 2 and 1. With
// thresholds α = 1, 1.5.
TEST(RouterQuantiles, KnownValues) {
  LocalOps ops;
  const Tensor logits =
      at::tensor({3.0, 1.0, 0.0, 2.0, 1.0, 0.0, 4.0, 2.0, 1.0, 1.0, 0.0, 0.5, 1.0, 2.0, 4.0}, at::kDouble)
          .view({5, 3});
  layout::SequenceLayout layout = layout::make_single(5);
  layout.row_offsets = {0, 4, 5};
  const auto theta = [](const Tensor& sums) { return sums.to(at::kDouble) / std::ldexp(1, 32); };
  const Tensor found = quantiles_of(logits, at::zeros({3}), 1, layout, ops);
  EXPECT_TRUE(theta(found.narrow(0, 0, 3)).equal(at::tensor({2.0 - 1, 0.0, -1.0 + 2}, at::kDouble)));
  EXPECT_EQ(found[3].item<int64_t>(), 2);
  const Tensor biased = quantiles_of(at::tensor({5.0, 1.0, 4.0, 3.0}, at::kDouble).view({2, 2}),
                                     at::tensor({-2.5, 0.0}), 1, layout::make_single(2), ops);
  EXPECT_TRUE(theta(biased.narrow(0, 0, 2)).equal(at::tensor({2.5, 0.0}, at::kDouble)));
  const Tensor wild =
      quantiles_of(at::tensor({1e9, 0.0, -1e9}).view({1, 3}), at::zeros({3}), 2, layout::make_single(1), ops);
  EXPECT_TRUE(theta(wild.narrow(0, 0, 3)).equal(at::tensor({1024.0, 1024.0, 0.0}, at::kDouble)));
  EXPECT_EQ(
      quantiles_of(at::empty({0, 3}), at::zeros({3}), 1, layout::make_single(0), ops).sum().item<int64_t>(),
      0);
  const at::TensorOptions meta(at::kMeta);
  EXPECT_EQ(quantiles_of(at::empty({5, 3}, meta), at::empty({3}, meta), 1, layout, ops).sizes(),
            at::IntArrayRef({4}));
}

TEST(RouterQuantiles, MoveThresholdsAndSumToZero) {
  recipe::ModelConfig config = router_config();
  config.router.choice = recipe::RouterChoice::kQuantile;
  RouterOfOneLayer layer(config);
  Parameter& bias = *layer.parameters.holder_of("layers.0.router.bias");
  ASSERT_EQ(config.experts, 4);
  bias.own_value.copy_(at::tensor({0.3, -0.2, -0.2, 0.1}, at::kDouble));
  const uint64_t version = bias.version;
  // θ = 0.5, 0, 0.5, 1 of two sequences, whose mean is 0.5.
  const Tensor sums =
      at::tensor({1.0, 0.0, 1.0, 2.0, std::ldexp(2, -32)}, at::kDouble).mul(std::ldexp(1, 32)).to(at::kLong);
  move_router_thresholds(layer.parameters, {{"layers.0.router.bias", sums}}, 0.75);
  EXPECT_LT(relative_error(bias.value.detach(),
                           at::tensor({0.225, -0.15 + 0.125, -0.15, 0.075 - 0.125}, at::kDouble)),
            1e-15);
  EXPECT_GT(bias.version, version);
  EXPECT_FALSE(bias.trainable());
}

// By logits and thresholds, in training and behind it; weights from the scores alone. Thresholds that follow
// the tokens give all experts the same.
TEST(RouterOfExperts, ChoosesByThresholds) {
  recipe::ModelConfig config = router_config();
  config.experts_per_token = 1;
  config.router.score = recipe::RouterScore::kSigmoid;
  config.router.normalised = false;
  config.router.choice = recipe::RouterChoice::kQuantile;
  RouterOfOneLayer layer(config);
  constexpr int64_t kSequences = 2, kTokens = 64;
  Tensor x = random_tensor({kSequences * kTokens, config.hidden}, 4);
  x.add_(layer.matrix("router")[1].mul(20));
  const at::NoGradGuard guard;
  const Tensor logits = at::mm(x, layer.matrix("router").t());
  ASSERT_TRUE(logits.argmax(1).eq(1).all().item<bool>());
  Parameter& bias = *layer.parameters.holder_of("layers.0.router.bias");
  const layout::SequenceLayout layout = layout::make_batch(kSequences, kTokens);
  for (int step = 0; step < 6; ++step) {
    const Tensor choice = logits.add(bias.value.detach()).argmax(1);
    std::vector<Tensor> rows;
    for (int64_t t = 0; t < x.size(0); ++t) {
      const auto e = choice[t].item<int64_t>();
      rows.push_back(logits[t][e].sigmoid() * layer.expert(x[t], e));
    }
    for (const bool training : {false, true}) {
      layer.context.training = training;
      EXPECT_LT(relative_error(layer.experts.forward(layer.context, x, layout), at::stack(rows)), 1e-12)
          << training << " step " << step;
    }
    const auto busiest = layer.context.statistics.at(kBusiestOverMean).at("layers.0.experts").item<double>();
    EXPECT_GE(busiest, step == 0 ? 4 : 1);
    EXPECT_LE(busiest, step == 5 ? 1.2 : 4);
    move_router_thresholds(layer.parameters, layer.context.choices_of_routers, 0);
  }
}

// Experts in turn: every one as often as every other, to one; random ones nearly, and others in another step.
// Weights are the scores'.
TEST(EvenChoices, WhateverTheScores) {
  constexpr int64_t kSequence = 10, kExperts = 4, kEach = 3;
  const Tensor logits = random_tensor({2 * kSequence, kExperts}, 3);
  const auto chosen = [&](const Tensor& judged) {
    return std::get<1>(judged.sort(/*stable=*/true, 1, /*descending=*/true)).narrow(1, 0, kEach);
  };
  const Tensor in_turn = chosen(judged_in_turn(logits, kEach, layout::make_batch(2, kSequence)));
  for (int64_t row = 0; row < 2 * kSequence; ++row) {
    for (int64_t i = 0; i < kEach; ++i)
      EXPECT_EQ(in_turn[row][i].item<int64_t>(), (row % kSequence * kEach + i) % kExperts);
  }
  const Tensor many = at::zeros({4000, kExperts}, at::kDouble);
  const RandomStream stream(5, "router_choice/x/1"), next(5, "router_choice/x/2");
  const Tensor random = judged_at_random(many, stream, layout::make_batch(4, 1000), 0);
  const Tensor share = at::bincount(random.argmax(1), {}, kExperts).to(at::kDouble) / 4000;
  EXPECT_LT((share - 0.25).abs().max().item<double>(), 5 * std::sqrt(0.25 * 0.75 / 4000));
  EXPECT_TRUE(judged_at_random(many.narrow(0, 0, 1000), stream, layout::make_single(1000), 2)
                  .equal(random.narrow(0, 2000, 1000)))
      << "of the sequence, wherever it stands";
  EXPECT_FALSE(judged_at_random(many, next, layout::make_batch(4, 1000), 0).equal(random));
}

// How often each expert is the best of normal numbers with these biases: ∫ φ(x − b_e) Π_{j≠e} Φ(x − b_j) dx.
std::vector<double> shares_by_integral(const std::vector<double>& bias) {
  std::vector<double> shares(bias.size(), 0);
  constexpr double kStep = 1e-3;
  for (double x = -12; x < 12; x += kStep) {
    for (size_t e = 0; e < bias.size(); ++e) {
      double density = std::exp(-0.5 * (x - bias[e]) * (x - bias[e])) / std::sqrt(2 * M_PI);
      for (size_t j = 0; j < bias.size(); ++j)
        density *= j == e ? 1 : 0.5 * std::erfc((bias[j] - x) / std::sqrt(2.0));
      shares[e] += density * kStep;
    }
  }
  return shares;
}

// Loads are as uneven as the biases say, in every step and sequence; each sequence has its numbers, wherever
// it stands.
TEST(BiasedChoices, LoadsFollowTheBiases) {
  constexpr int64_t kExperts = 4, kSequence = 2000;
  constexpr double kStd = 0.8;
  const Tensor logits = random_tensor({4 * kSequence, kExperts}, 3).mul(100);  // whatever they are
  const RandomStream biases(5, "router_choice_biases/x");
  std::vector<double> bias;
  for (uint64_t e = 0; e < kExperts; ++e) bias.push_back(kStd * biases.normal(e));
  const std::vector<double> expected = shares_by_integral(bias);
  EXPECT_GT(*std::ranges::max_element(expected) / *std::ranges::min_element(expected), 2)
      << expected[0] << " … uneven";
  for (const int64_t step : {1, 2}) {
    const RandomStream stream(5, "router_choice/x/" + std::to_string(step));
    const Tensor judged =
        judged_with_biases(logits, stream, biases, kStd, layout::make_batch(4, kSequence), 0);
    const Tensor share = at::bincount(judged.argmax(1), {}, kExperts).to(at::kDouble) / (4 * kSequence);
    for (int64_t e = 0; e < kExperts; ++e) {
      const double p = expected[static_cast<size_t>(e)];
      EXPECT_NEAR(share[e].item<double>(), p, 5 * std::sqrt(p * (1 - p) / (4 * kSequence)))
          << e << " step " << step;
    }
    EXPECT_TRUE(judged_with_biases(logits.narrow(0, 0, kSequence), stream, biases, kStd,
                                   layout::make_single(kSequence), 2)
                    .equal(judged.narrow(0, 2 * kSequence, kSequence)));
    const Tensor noise = judged.sub(at::tensor(bias, at::kDouble)),
                 even = judged_with_biases(logits, stream, biases, 0, layout::make_batch(4, kSequence), 0);
    EXPECT_LT(noise.sub(even).abs().max().item<double>(), 1e-14)
        << "without a spread they are the numbers alone";
    EXPECT_NEAR(even.std().item<double>(), 1, 0.02);
  }
  const at::TensorOptions meta(at::kMeta);
  EXPECT_EQ(judged_with_biases(at::empty({5, 3}, meta), biases, biases, 1, layout::make_single(5), 0).sizes(),
            at::IntArrayRef({5, 3}));
}

// In training alone, the same expert ahead in every step; another layer has other biases. Weights are the
// scores'.
TEST(RouterOfExperts, ChoosesWithBiasesInTraining) {
  recipe::ModelConfig config = router_config();
  config.router.choice = recipe::RouterChoice::kBiased;
  config.router.choice_std = 1.5;
  RouterOfOneLayer layer(config);
  constexpr int64_t kTokens = 400;
  const Tensor x = random_tensor({kTokens, config.hidden}, 4);
  const layout::SequenceLayout layout = layout::make_single(kTokens);
  const at::NoGradGuard guard;
  const auto recorded = [&](int64_t step) {
    layer.context.step = step;
    layer.context.recorded_routes = std::make_shared<Routes>();
    layer.experts.forward(layer.context, x, layout);
    return layer.context.recorded_routes->at("layers.0.experts");
  };
  const Tensor one = recorded(4), two = recorded(5);
  EXPECT_FALSE(one.equal(two));
  EXPECT_TRUE(one.equal(recorded(4)));
  const auto loads = [&](const Tensor& choice) {
    return at::bincount(choice.reshape({-1}), {}, config.experts);
  };
  std::vector<double> bias;
  for (uint64_t e = 0; e < 4; ++e)
    bias.push_back(RandomStream(layer.context.seed, "router_choice_biases/layers.0.experts").normal(e));
  const int64_t ahead = std::ranges::max_element(bias) - bias.begin(),
                behind = std::ranges::min_element(bias) - bias.begin();
  for (const Tensor& choice : {one, two}) {
    EXPECT_EQ(loads(choice).argmax().item<int64_t>(), ahead);
    EXPECT_EQ(loads(choice).argmin().item<int64_t>(), behind);
  }
  // The output is that of the same experts replayed: weights do not know of the biases.
  layer.context.step = 4;
  const Tensor output = layer.experts.forward(layer.context, x, layout);
  layer.context.training = false;
  const Tensor p = at::mm(x, layer.matrix("router").t()).softmax(1);
  EXPECT_TRUE(recorded(4).equal(std::get<1>(p.topk(2)))) << "in evaluation by the scores";
  for (int64_t t = 0; t < kTokens; t += 37) {
    const auto a = one[t][0].item<int64_t>(), b = one[t][1].item<int64_t>();
    const Tensor expected =
        (p[t][a] * layer.expert(x[t], a) + p[t][b] * layer.expert(x[t], b)) / (p[t][a] + p[t][b]);
    EXPECT_LT(relative_error(output[t], expected), 1e-12);
  }
}

TEST(RouterOfExperts, ChoosesInTurnInTraining) {
  recipe::ModelConfig config = router_config();
  config.router.choice = recipe::RouterChoice::kRoundRobin;
  RouterOfOneLayer layer(config);
  const Tensor x = random_tensor({4 * config.experts, config.hidden}, 4);
  const at::NoGradGuard guard;
  const auto expected = [&](bool forced) {
    const Tensor p = at::mm(x, layer.matrix("router").t()).softmax(1);
    std::vector<Tensor> rows;
    for (int64_t t = 0; t < x.size(0); ++t) {
      const Tensor best = std::get<1>(p[t].topk(2));
      const int64_t a = forced ? 2 * t % config.experts : best[0].item<int64_t>(),
                    b = forced ? (2 * t + 1) % config.experts : best[1].item<int64_t>();
      rows.push_back((p[t][a] * layer.expert(x[t], a) + p[t][b] * layer.expert(x[t], b)) /
                     (p[t][a] + p[t][b]));
    }
    return at::stack(rows);
  };
  const layout::SequenceLayout layout = layout::make_single(x.size(0));
  EXPECT_LT(relative_error(layer.experts.forward(layer.context, x, layout), expected(true)), 1e-12);
  EXPECT_NEAR(layer.context.statistics.at(kBusiestOverMean).at("layers.0.experts").item<double>(), 1, 1e-12);
  layer.context.training = false;
  EXPECT_LT(relative_error(layer.experts.forward(layer.context, x, layout), expected(false)), 1e-12);
}

}  // namespace
}  // namespace longhaul::model
