// What a router does in training beside scoring: jitter of its input, the choice balanced by Sinkhorn's iteration, the balance loss of a whole batch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/experts/sinkhorn.h"
#include "model/decoder.h"
#include "model/experts.h"
#include "model/router_balance.h"
#include "model/router_even.h"
#include "model/router_jitter.h"
#include "model/router_quantile.h"
#include "model/router_sinkhorn.h"
#include "support/models.h"

namespace longhaul::model {
namespace {

using namespace longhaul::testing;

constexpr double kJitter = 0.25;

Tensor factors(const layout::SequenceView& view, int64_t hidden, int64_t first_sequence, const std::string& name = "a router") {
  return jittered(at::ones({view.own.length, hidden}, at::kDouble), kJitter, RandomStream(5, name), view, first_sequence);
}

// By the definition: 1 + ε (2 w / 2³² − 1), four numbers a block, blocks of a sequence 2⁴⁰ apart.
TEST(RouterJitter, NumbersFollowFromSequenceTokenAndChannel) {
  constexpr int64_t kHidden = 6, kSequence = 5;
  const Tensor found = factors(layout::make_batch(3, kSequence), kHidden, 7);
  const RandomStream stream(5, "a router");
  for (int64_t row = 0; row < 3 * kSequence; ++row) {
    for (int64_t c = 0; c < kHidden; ++c) {
      const auto block = (static_cast<uint64_t>(7 + row / kSequence) << 40) + static_cast<uint64_t>(row % kSequence * 2 + c / 4);
      const double u = std::ldexp(static_cast<double>(stream.block(block)[static_cast<size_t>(c % 4)]), -32);
      EXPECT_DOUBLE_EQ(found[row][c].item<double>(), 1 + kJitter * (2 * u - 1));
    }
  }
}

TEST(RouterJitter, IsUniformAroundOne) {
  const Tensor x = factors(layout::make_single(400), 50, 0);
  EXPECT_GE(x.min().item<double>(), 1 - kJitter);
  EXPECT_LT(x.max().item<double>(), 1 + kJitter);
  EXPECT_NEAR(x.mean().item<double>(), 1, 5 * kJitter / std::sqrt(3.0 * 20000));
  EXPECT_NEAR(x.var().item<double>(), kJitter * kJitter / 3, 0.03 * kJitter * kJitter);
  EXPECT_GT(relative_error(factors(layout::make_single(400), 50, 0, "another"), x), 0.1);
  EXPECT_GT(relative_error(factors(layout::make_single(400), 50, 1), x), 0.1);
}

// However sequences are cut into micro-batches, and over ranks.
TEST(RouterJitter, IsThatOfTheWholeInEveryLayout) {
  constexpr int64_t kHidden = 7, kSequence = 10;
  const Tensor all = factors(layout::make_batch(4, kSequence), kHidden, 0);
  for (int64_t s = 0; s < 4; ++s) {
    const Tensor own = all.narrow(0, s * kSequence, kSequence);
    EXPECT_TRUE(factors(layout::make_single(kSequence), kHidden, s).equal(own));
    for (const auto split : {layout::ContextSplit::kContiguous, layout::ContextSplit::kZigzag}) {
      for (int64_t rank = 0; rank < 4; ++rank) {
        const layout::SequenceView view(
            layout::make_single(kSequence),
            {.context_ranks = 2, .context_rank = rank / 2, .tensor_ranks = 2, .tensor_rank = rank % 2, .split = split});
        const Tensor found = factors(view, kHidden, s);
        for (int64_t i = 0; i < view.own.length; ++i)
          EXPECT_TRUE(found[i].equal(own[view.token_index[static_cast<size_t>(view.own.begin + i)]]));
      }
    }
  }
}

TEST(RouterJitter, GradientHasTheSameNumbers) {
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const Tensor x = random_tensor({6, 5}, 2, type).requires_grad_(true);
    const Tensor y = jittered(x, kJitter, RandomStream(5, "a router"), layout::make_single(6), 0);
    EXPECT_EQ(y.scalar_type(), type == at::kDouble ? at::kDouble : at::kFloat);
    const Tensor factor = factors(layout::make_single(6), 5, 0).to(y.scalar_type());
    EXPECT_TRUE(y.detach().equal(x.detach().to(y.scalar_type()).mul(factor)));
    const Tensor dy = random_tensor({6, 5}, 3, y.scalar_type());
    y.backward(dy);
    EXPECT_TRUE(x.grad().equal(dy.mul(factor).to(type)));
  }
}

struct RouterOfOneLayer {
  recipe::ModelConfig config;
  ParameterSet parameters;
  Experts experts;
  LocalOps ops;
  Context context{ops, Precision::named("fp64")};

  static std::vector<layout::ParameterSpec> specs(const recipe::ModelConfig& config) {
    std::vector<layout::ParameterSpec> specs = layout::parameters(config);
    std::erase_if(specs, [](const auto& spec) {
      return !spec.tensor.name.starts_with("layers.0.experts.") && !spec.tensor.name.starts_with("layers.0.router.");
    });
    return specs;
  }
  explicit RouterOfOneLayer(const recipe::ModelConfig& of)
      : config(of), parameters(specs(of), Precision::named("fp64"), at::kCPU), experts(of, {.layer = 0, .name = "layers.0"}, parameters) {
    parameters.allocate();
    parameters.initialise(3);
    context.seed = 11;
    context.step = 4;
  }
  Tensor matrix(const std::string& name) {
    size_t part = 0;
    Parameter* holder = parameters.holder_of("layers.0." + name + ".weight", &part);
    return holder->part_of(holder->value.detach(), part);
  }
  Tensor expert(const Tensor& x, int64_t e) {
    const std::string name = fmt::format("experts.{}.", e);
    return at::mv(matrix(name + "down"), at::silu(at::mv(matrix(name + "gate"), x)) * at::mv(matrix(name + "up"), x));
  }
  Tensor router_gradient() { return parameters.holder_of("layers.0.router.weight")->grad; }
};

recipe::ModelConfig router_config() {
  recipe::ModelConfig config = hybrid_experts_post_norm();
  config.layers = 1;
  config.z_loss = 0;
  config.auxiliary_loss = 0;
  return config;
}

// The router reads what is jittered, the experts what is not; nothing of it in evaluation.
TEST(RouterOfExperts, ReadsAJitteredInputInTraining) {
  recipe::ModelConfig config = router_config();
  config.router.jitter = 0.5;
  RouterOfOneLayer layer(config);
  const Tensor x = random_tensor({12, config.hidden}, 4);
  const at::NoGradGuard guard;
  layer.context.micro_batch = 3;
  const layout::SequenceLayout layout = layout::make_batch(2, 6);
  const Tensor noisy = jittered(x, 0.5, RandomStream(11, "router_jitter/layers.0.experts/4"), layout, 6);
  const auto expected = [&](const Tensor& seen) {
    std::vector<Tensor> rows;
    for (int64_t t = 0; t < x.size(0); ++t) {
      const Tensor logits = at::mv(layer.matrix("router"), seen[t]);
      const auto [best, which] = logits.topk(2);
      const Tensor weight = best.softmax(0);
      rows.push_back(weight[0] * layer.expert(x[t], which[0].item<int64_t>()) + weight[1] * layer.expert(x[t], which[1].item<int64_t>()));
    }
    return at::stack(rows);
  };
  EXPECT_LT(relative_error(layer.experts.forward(layer.context, x, layout), expected(noisy)), 1e-12);
  EXPECT_GT(relative_error(expected(noisy), expected(x)), 1e-3);
  layer.context.training = false;
  EXPECT_LT(relative_error(layer.experts.forward(layer.context, x, layout), expected(x)), 1e-12);
}

// Sequences that all like one expert: by Sinkhorn's scores of each sequence, weights from the plain ones. In evaluation everybody gets it.
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
  EXPECT_LT(layer.context.statistics.at(kBusiestOverMean).at("layers.0.experts").item<double>(), 2.5) << "4 where all go to one";
  layer.context.training = false;
  EXPECT_LT(relative_error(layer.experts.forward(layer.context, x, layout), expected(logits)), 1e-12);
}

// Of a sequence of four tokens α = 1, 1, 2, 0.5 and ⌊4/3⌋ + 1 = 2; of one of one token α = 2 and 1. With thresholds α = 1, 1.5.
TEST(RouterQuantiles, KnownValues) {
  LocalOps ops;
  const Tensor logits = at::tensor({3.0, 1.0, 0.0, 2.0, 1.0, 0.0, 4.0, 2.0, 1.0, 1.0, 0.0, 0.5, 1.0, 2.0, 4.0}, at::kDouble).view({5, 3});
  layout::SequenceLayout layout = layout::make_single(5);
  layout.row_offsets = {0, 4, 5};
  const auto theta = [](const Tensor& sums) { return sums.to(at::kDouble) / std::ldexp(1, 32); };
  const Tensor found = quantiles_of(logits, at::zeros({3}), 1, layout, ops);
  EXPECT_TRUE(theta(found.narrow(0, 0, 3)).equal(at::tensor({2.0 - 1, 0.0, -1.0 + 2}, at::kDouble)));
  EXPECT_EQ(found[3].item<int64_t>(), 2);
  const Tensor biased =
      quantiles_of(at::tensor({5.0, 1.0, 4.0, 3.0}, at::kDouble).view({2, 2}), at::tensor({-2.5, 0.0}), 1, layout::make_single(2), ops);
  EXPECT_TRUE(theta(biased.narrow(0, 0, 2)).equal(at::tensor({2.5, 0.0}, at::kDouble)));
  const Tensor wild = quantiles_of(at::tensor({1e9, 0.0, -1e9}).view({1, 3}), at::zeros({3}), 2, layout::make_single(1), ops);
  EXPECT_TRUE(theta(wild.narrow(0, 0, 3)).equal(at::tensor({1024.0, 1024.0, 0.0}, at::kDouble)));
  EXPECT_EQ(quantiles_of(at::empty({0, 3}), at::zeros({3}), 1, layout::make_single(0), ops).sum().item<int64_t>(), 0);
  const at::TensorOptions meta(at::kMeta);
  EXPECT_EQ(quantiles_of(at::empty({5, 3}, meta), at::empty({3}, meta), 1, layout, ops).sizes(), at::IntArrayRef({4}));
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
  const Tensor sums = at::tensor({1.0, 0.0, 1.0, 2.0, std::ldexp(2, -32)}, at::kDouble).mul(std::ldexp(1, 32)).to(at::kLong);
  move_router_thresholds(layer.parameters, {{"layers.0.router.bias", sums}}, 0.75);
  EXPECT_LT(relative_error(bias.value.detach(), at::tensor({0.225, -0.15 + 0.125, -0.15, 0.075 - 0.125}, at::kDouble)), 1e-15);
  EXPECT_GT(bias.version, version);
  EXPECT_FALSE(bias.trainable());
}

// By logits and thresholds, in training and behind it; weights from the scores alone. Thresholds that follow the tokens give all experts the same.
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
      EXPECT_LT(relative_error(layer.experts.forward(layer.context, x, layout), at::stack(rows)), 1e-12) << training << " step " << step;
    }
    const auto busiest = layer.context.statistics.at(kBusiestOverMean).at("layers.0.experts").item<double>();
    EXPECT_GE(busiest, step == 0 ? 4 : 1);
    EXPECT_LE(busiest, step == 5 ? 1.2 : 4);
    move_router_thresholds(layer.parameters, layer.context.choices_of_routers, 0);
  }
}

// Σ_t c E Σ_e f_e p_te, with f as given; its gradient for the router by autograd.
std::pair<double, Tensor> balance_by_hand(RouterOfOneLayer& layer, const Tensor& x, const Tensor& share) {
  const Tensor router = layer.matrix("router").clone().requires_grad_(true);
  const Tensor loss =
      at::mm(x, router.t()).softmax(1).sum(0).mul(share).sum() * layer.config.auxiliary_loss * static_cast<double>(layer.config.experts);
  loss.backward();
  return {loss.item<double>(), router.grad()};
}

Tensor counts_by_hand(RouterOfOneLayer& layer, const Tensor& x) {
  const Tensor choice = std::get<1>(at::mm(x, layer.matrix("router").t()).topk(layer.config.experts_per_token));
  return at::bincount(choice.reshape({-1}), {}, layer.config.experts).to(at::kDouble);
}

// Two sequences that want different experts are balanced as a batch; the loss is that of all tokens whatever rows they stand in.
TEST(BalanceOfBatch, IsThatOfAllTokensTogether) {
  recipe::ModelConfig config = router_config();
  config.auxiliary_loss = 0.5;
  config.router.balance_of = recipe::BalanceOf::kBatch;
  RouterOfOneLayer layer(config);
  const Tensor x = random_tensor({24, config.hidden}, 4);
  const Tensor zero = at::zeros_like(x);
  layer.experts.forward(layer.context, x, layout::make_batch(2, 12)).backward(zero);
  const Tensor count = counts_by_hand(layer, x);
  const auto [loss, gradient] = balance_by_hand(layer, x, count / count.sum());
  EXPECT_NEAR(layer.context.auxiliary_losses.at("layers.0.experts").item<double>(), loss, 1e-12);
  EXPECT_LT(relative_error(layer.router_gradient(), gradient), 1e-12);
}

// The m-th micro-batch is judged by the choices of the first m; run again, by the same. A new step begins anew.
TEST(BalanceOfBatch, SoFarGrowsWithTheMicroBatches) {
  recipe::ModelConfig config = router_config();
  config.auxiliary_loss = 0.5;
  config.router.balance_of = recipe::BalanceOf::kBatchSoFar;
  RouterOfOneLayer layer(config);
  const auto so_far = layer.context.choices_so_far;
  Tensor count = at::zeros({config.experts}, at::kDouble), gradient = at::zeros_like(layer.matrix("router"));
  std::vector<Tensor> x;
  for (int64_t m = 0; m < 3; ++m) {
    x.push_back(random_tensor({8 + 2 * m, config.hidden}, static_cast<uint64_t>(4 + m)));
    Context context = layer.context.again();
    context.micro_batch = m;
    const layout::SequenceLayout layout = layout::make_batch(2, 4 + m);
    layer.experts.forward(context, x.back(), layout).backward(at::zeros_like(x.back()));
    count += counts_by_hand(layer, x.back());
    const auto [loss, of_this] = balance_by_hand(layer, x.back(), count / count.sum());
    gradient += of_this;
    EXPECT_NEAR(context.auxiliary_losses.at("layers.0.experts").item<double>(), loss, 1e-12) << m;
    EXPECT_LT(relative_error(layer.router_gradient(), gradient), 1e-12) << m;
  }
  const auto first_again = [&](bool new_step) {
    Context context = layer.context.again();
    if (new_step) context.choices_so_far = std::make_shared<Context::ChoicesSoFar>();
    context.micro_batch = new_step ? 1 : 0;
    layer.experts.forward(context, x[0], layout::make_batch(2, 4));
    return context.auxiliary_losses.at("layers.0.experts").item<double>();
  };
  const Tensor first = counts_by_hand(layer, x[0]);
  EXPECT_NEAR(first_again(false), balance_by_hand(layer, x[0], first / first.sum()).first, 1e-12);
  EXPECT_TRUE(so_far->count_e.at("layers.0.experts").view({-1}).equal(count)) << "counted once";
  EXPECT_NEAR(first_again(true), balance_by_hand(layer, x[0], first / first.sum()).first, 1e-12);
}

// Two routers, each of which sends every token to the same two of four experts with p = ½, by hand: shares of choices ½ and ½, of tokens 1 and 1.
class BalanceForms : public ::testing::Test {
 protected:
  static constexpr int64_t kTokens = 6;
  static recipe::ModelConfig config(recipe::BalanceForm form) {
    recipe::ModelConfig config = router_config();
    config.layers = 2;
    config.experts = 4;
    config.experts_per_token = 2;
    config.auxiliary_loss = 0.5;
    config.router.balance_form = form;
    return config;
  }
  // The experts from first[l] on are the two of layer l. → by layer what is told; gradients of p
  struct Result {
    std::vector<double> told;
    std::vector<Tensor> gradients;
  };
  static Result run(recipe::BalanceForm form, std::vector<int64_t> first) {
    const recipe::ModelConfig config = BalanceForms::config(form);
    const RouterBalance balance(config, config.auxiliary_loss, recipe::BalanceOf::kSequence);
    LocalOps ops;
    Context context(ops, Precision::named("fp64"));
    std::vector<Tensor> probability, out;
    for (const int64_t from : first) {
      Tensor count = at::zeros({1, 4}, at::kDouble), p = at::zeros({1, 4}, at::kDouble);
      count.narrow(1, from, 2).fill_(kTokens), p.narrow(1, from, 2).fill_(0.5 * kTokens);
      probability.push_back(p.requires_grad_(true));
      const std::string block = "layers." + std::to_string(out.size());
      const Tensor x = at::ones({kTokens, 3}, at::kDouble).requires_grad_(true);
      if (balance.joint()) {
        out.push_back(balance.join(context, block, x, count, probability.back()));
      } else {
        out.push_back(context.join_auxiliary_loss(block, x, balance.loss(context, block, count, probability.back())));
      }
    }
    Result result;
    for (size_t l = 0; l < out.size(); ++l) {
      out[l].backward(at::zeros_like(out[l]));
      const auto told = context.auxiliary_losses.find("layers." + std::to_string(l));
      result.told.push_back(told == context.auxiliary_losses.end() ? 0 : told->second.item<double>());
      result.gradients.push_back(probability[l].grad()[0]);
    }
    return result;
  }
  static Tensor row(std::vector<double> numbers) { return at::tensor(numbers, at::kDouble); }
};

TEST_F(BalanceForms, SwitchIsOneWhereAllIsEven) {
  const Result found = run(recipe::BalanceForm::kSwitch, {0, 2});
  EXPECT_THAT(found.told, ::testing::ElementsAre(0.5 * kTokens * 2, 0.5 * kTokens * 2));  // c T · 4 (½ ½ + ½ ½)
  EXPECT_TRUE(found.gradients[0].equal(row({1, 1, 0, 0})));                               // c · 4 · ½
  EXPECT_TRUE(found.gradients[1].equal(row({0, 0, 1, 1})));
}

TEST_F(BalanceForms, GshardIsAsPrinted) {
  const Result found = run(recipe::BalanceForm::kGshard, {0, 2});
  EXPECT_THAT(found.told, ::testing::ElementsAre(0.5 * kTokens / 4, 0.5 * kTokens / 4));  // c T · ¼ (1 ½ + 1 ½)
  EXPECT_TRUE(found.gradients[0].equal(row({0.125, 0.125, 0, 0})));                       // c · ¼ · 1
}

// Two layers that are uneven in opposite ways are even together: c k, told once. Alike they are as uneven as each.
TEST_F(BalanceForms, HuggingFacesJoinsAllLayers) {
  Result found = run(recipe::BalanceForm::kHuggingFace, {0, 2});
  EXPECT_THAT(found.told, ::testing::ElementsAre(0, 0.5 * kTokens * 2));                                  // c T · 4 · 4 · ½ · ¼
  for (const Tensor& gradient : found.gradients) EXPECT_TRUE(gradient.equal(row({0.5, 0.5, 0.5, 0.5})));  // c · 4 · ½ / 2 layers
  found = run(recipe::BalanceForm::kHuggingFace, {1, 1});
  EXPECT_THAT(found.told, ::testing::ElementsAre(0, 0.5 * kTokens * 4));  // c T · 4 (1 ½ + 1 ½)
  for (const Tensor& gradient : found.gradients) EXPECT_TRUE(gradient.equal(row({0, 1, 1, 0})));
}

// With layers alike, the coefficient that a form is given for another gives its gradients.
TEST_F(BalanceForms, CoefficientsOfOneFormInAnother) {
  using enum recipe::BalanceForm;
  recipe::ModelConfig from = config(kSwitch);  // 2 layers, 4 experts, 2 a token
  EXPECT_EQ(from.auxiliary_loss_as(kSwitch), 0.5);
  EXPECT_EQ(from.auxiliary_loss_as(kGshard), 0.5 * 16 / 2);      // c E²/k
  EXPECT_EQ(from.auxiliary_loss_as(kHuggingFace), 0.5 * 2 / 2);  // c L/k
  from.router.balance_form = kHuggingFace, from.layers = 48, from.dense_layers = {0, 3};
  EXPECT_DOUBLE_EQ(from.auxiliary_loss_as(kSwitch), 0.5 * 2 / 46);  // c k/L
  EXPECT_TRUE(run(kHuggingFace, {1, 1}).gradients[0].equal(run(kSwitch, {1, 1}).gradients[0]));
}

// A second loss of each sequence beside that of the batch: the sum of both, values and gradients.
TEST(BalanceOfBatch, AndOfEachSequenceAtOnce) {
  recipe::ModelConfig config = router_config();
  config.auxiliary_loss = 0.5;
  config.router.balance_of = recipe::BalanceOf::kBatch;
  config.router.sequence_loss = 0.25;
  RouterOfOneLayer layer(config);
  const Tensor x = random_tensor({24, config.hidden}, 4);
  layer.experts.forward(layer.context, x, layout::make_batch(2, 12)).backward(at::zeros_like(x));
  const Tensor count = counts_by_hand(layer, x);
  auto [loss, gradient] = balance_by_hand(layer, x, count / count.sum());
  for (const Tensor& sequence : x.chunk(2)) {
    const Tensor own = counts_by_hand(layer, sequence);
    const auto [of_sequence, d_sequence] = balance_by_hand(layer, sequence, own / own.sum());
    loss += of_sequence / 2, gradient = gradient + d_sequence / 2;  // a quarter beside a half
  }
  EXPECT_NEAR(layer.context.auxiliary_losses.at("layers.0.experts").item<double>(), loss, 1e-12);
  EXPECT_LT(relative_error(layer.router_gradient(), gradient), 1e-12);
}

// Experts in turn: every one as often as every other, to one; random ones nearly, and others in another step. Weights are the scores'.
TEST(EvenChoices, WhateverTheScores) {
  constexpr int64_t kSequence = 10, kExperts = 4, kEach = 3;
  const Tensor logits = random_tensor({2 * kSequence, kExperts}, 3);
  const auto chosen = [&](const Tensor& judged) {
    return std::get<1>(judged.sort(/*stable=*/true, 1, /*descending=*/true)).narrow(1, 0, kEach);
  };
  const Tensor in_turn = chosen(judged_in_turn(logits, kEach, layout::make_batch(2, kSequence)));
  for (int64_t row = 0; row < 2 * kSequence; ++row) {
    for (int64_t i = 0; i < kEach; ++i) EXPECT_EQ(in_turn[row][i].item<int64_t>(), (row % kSequence * kEach + i) % kExperts);
  }
  const Tensor many = at::zeros({4000, kExperts}, at::kDouble);
  const RandomStream stream(5, "router_choice/x/1"), next(5, "router_choice/x/2");
  const Tensor random = judged_at_random(many, stream, layout::make_batch(4, 1000), 0);
  const Tensor share = at::bincount(random.argmax(1), {}, kExperts).to(at::kDouble) / 4000;
  EXPECT_LT((share - 0.25).abs().max().item<double>(), 5 * std::sqrt(0.25 * 0.75 / 4000));
  EXPECT_TRUE(judged_at_random(many.narrow(0, 0, 1000), stream, layout::make_single(1000), 2).equal(random.narrow(0, 2000, 1000)))
      << "of the sequence, wherever it stands";
  EXPECT_FALSE(judged_at_random(many, next, layout::make_batch(4, 1000), 0).equal(random));
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
      rows.push_back((p[t][a] * layer.expert(x[t], a) + p[t][b] * layer.expert(x[t], b)) / (p[t][a] + p[t][b]));
    }
    return at::stack(rows);
  };
  const layout::SequenceLayout layout = layout::make_single(x.size(0));
  EXPECT_LT(relative_error(layer.experts.forward(layer.context, x, layout), expected(true)), 1e-12);
  EXPECT_NEAR(layer.context.statistics.at(kBusiestOverMean).at("layers.0.experts").item<double>(), 1, 1e-12);
  layer.context.training = false;
  EXPECT_LT(relative_error(layer.experts.forward(layer.context, x, layout), expected(false)), 1e-12);
}

// A layer that is run again in the backward pass finds the other layers' choices, and its own counted once.
TEST(JointBalance, IsTheSameWhenLayersAreRunAgain) {
  recipe::ModelConfig config = hybrid_experts_post_norm();
  config.auxiliary_loss = 3;
  config.router.balance_form = recipe::BalanceForm::kHuggingFace;
  const auto trained = [&](recipe::Recompute recompute, double coefficient) {
    config.auxiliary_loss = coefficient;
    Decoder decoder = filled_decoder(config);
    decoder.set_recompute(recompute);
    LocalOps ops;
    Context context(ops, decoder.precision());
    const layout::SequenceLayout layout = layout::make_batch(2, 9);
    const Tensor ids = id_tensor(random_ids(18, config.vocabulary, 5));
    decoder.parameters().zero_gradients();
    decoder.loss(context, decoder.hidden(context, ids, layout), ids).backward();
    std::vector<Tensor> all;
    for (const auto& parameter : decoder.parameters().all()) all.push_back(parameter->grad.clone());
    return all;
  };
  const std::vector<Tensor> kept = trained(recipe::Recompute::kNone, 3), again = trained(recipe::Recompute::kFull, 3),
                            without = trained(recipe::Recompute::kNone, 0);
  double moved = 0;
  for (size_t i = 0; i < kept.size(); ++i) {
    EXPECT_TRUE(kept[i].equal(again[i])) << i;
    moved = std::max(moved, relative_error(without[i], kept[i]));
  }
  EXPECT_GT(moved, 1e-2) << "the loss is trained";
}

}  // namespace
}  // namespace longhaul::model
