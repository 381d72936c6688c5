// The balance loss of routers: of a whole batch, of the micro-batches so far, of all layers together, and its
// forms.
#include "model/experts/router_balance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "model/decoder.h"
#include "router_of_one_layer.h"

namespace longhaul::model {
namespace {

using namespace longhaul::testing;

// Σ_t c E Σ_e f_e p_te, with f as given; its gradient for the router by autograd.
std::pair<double, Tensor> balance_by_hand(RouterOfOneLayer& layer, const Tensor& x, const Tensor& share) {
  const Tensor router = layer.matrix("router").clone().requires_grad_(true);
  const Tensor loss = at::mm(x, router.t()).softmax(1).sum(0).mul(share).sum() * layer.config.auxiliary_loss *
                      static_cast<double>(layer.config.experts);
  loss.backward();
  return {loss.item<double>(), router.grad()};
}

Tensor counts_by_hand(RouterOfOneLayer& layer, const Tensor& x) {
  const Tensor choice =
      std::get<1>(at::mm(x, layer.matrix("router").t()).topk(layer.config.experts_per_token));
  return at::bincount(choice.reshape({-1}), {}, layer.config.experts).to(at::kDouble);
}

// Two sequences that want different experts are balanced as a batch; the loss is that of all tokens whatever
// rows they stand in.
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

// The m-th micro-batch is judged by the choices of the first m; run again, by the same. A new step begins
// anew.
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

// Two routers, each of which sends every token to the same two of four experts with p = ½, by hand: shares of
// choices ½ and ½, of tokens 1 and 1.
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
        out.push_back(
            context.join_auxiliary_loss(block, x, balance.loss(context, block, count, probability.back())));
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
  // c T · 4 (½ ½ + ½ ½)
  EXPECT_THAT(found.told, ::testing::ElementsAre(0.5 * kTokens * 2, 0.5 * kTokens * 2));
  EXPECT_TRUE(found.gradients[0].equal(row({1, 1, 0, 0})));  // c · 4 · ½
  EXPECT_TRUE(found.gradients[1].equal(row({0, 0, 1, 1})));
}

TEST_F(BalanceForms, GshardIsAsPrinted) {
  const Result found = run(recipe::BalanceForm::kGshard, {0, 2});
  // c T · ¼ (1 ½ + 1 ½)
  EXPECT_THAT(found.told, ::testing::ElementsAre(0.5 * kTokens / 4, 0.5 * kTokens / 4));
  EXPECT_TRUE(found.gradients[0].equal(row({0.125, 0.125, 0, 0})));  // c · ¼ · 1
}

// Two layers that are uneven in opposite ways are even together: c k, told once. Alike they are as uneven as
// each.
TEST_F(BalanceForms, HuggingFacesJoinsAllLayers) {
  Result found = run(recipe::BalanceForm::kHuggingFace, {0, 2});
  // c T · 4 · 4 · ½ · ¼
  EXPECT_THAT(found.told, ::testing::ElementsAre(0, 0.5 * kTokens * 2));
  // c · 4 · ½ / 2 layers
  for (const Tensor& gradient : found.gradients) EXPECT_TRUE(gradient.equal(row({0.5, 0.5, 0.5, 0.5})));
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
  const std::vector<Tensor> kept = trained(recipe::Recompute::kNone, 3),
                            again = trained(recipe::Recompute::kFull, 3),
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
