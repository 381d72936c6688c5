// route with a choice that is given: replayed it changes nothing, and of other experts it makes the weights
// that plain operators make of them.
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "kernels/dispatch.h"
#include "kernels/experts/op.h"
#include "support/instruction_sets.h"
#include "support/tensors.h"

namespace longhaul::kernels::given_choice_test {
namespace {

using namespace longhaul::testing;
using Score = RouterOptions::Score;

constexpr int64_t kChoiceTokens = 23, kHidden = 17, kExperts = 8, kEach = 3;

struct ChoiceInputs {
  Tensor hidden, router, sink;
  Tensor weight = random_tensor({kChoiceTokens, kEach}, 3), probability = random_tensor({2, kExperts}, 4);
  Tensor offsets = at::tensor(std::vector<int64_t>{0, 9, kChoiceTokens});

  explicit ChoiceInputs(at::ScalarType type = at::kDouble)
      : hidden(random_tensor({kChoiceTokens, kHidden}, 1, type).requires_grad_(true)),
        router(random_tensor({kExperts, kHidden}, 2, type == at::kDouble ? at::kDouble : at::kFloat)),
        sink(at::zeros_like(router)) {}
  Routing route_by(const RouterOptions& options) const {
    return route(hidden, router, kEach, sink, offsets, options);
  }
  void backward(const Routing& routing) const {
    (routing.weight_tk.mul(weight).sum() + routing.probability_sum_se.mul(probability).sum() +
     routing.log_sum_square.mul(0.3))
        .backward();
  }
};

// Every form of a router; the first is our own loops'.
std::vector<RouterOptions> forms(at::ScalarType wide = at::kDouble) {
  const Tensor bias = random_tensor({kExperts}, 5, wide);
  return {{},
          {.normalised = false},
          {.scale = 2.5, .bias_e = bias},
          {.score = Score::kSigmoid, .scale = 2.5, .groups = 4, .groups_per_token = 3, .bias_e = bias},
          {.score = Score::kSqrtSoftplus, .normalised = false},
          {.judged = [](const Tensor& logits) { return logits.neg(); }}};
}

// Experts that are hardly those with the best scores, in no order of theirs.
Tensor other_choice() {
  const Tensor first = at::arange(kChoiceTokens).mul(5).remainder(kExperts);
  return at::stack({first, first.add(3).remainder(kExperts), first.add(1).remainder(kExperts)}, 1);
}

TEST(GivenChoice, ItsOwnIsTheSameToTheBit) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    for (const RouterOptions& form : forms(type == at::kDouble ? at::kDouble : at::kFloat)) {
      const ChoiceInputs own(type), again(type);
      const Routing expected = own.route_by(form);
      own.backward(expected);
      RouterOptions given = form;
      given.choice_tk = expected.choice_tk;
      // nobody asks
      given.judged = form.judged ? [](const Tensor& logits) -> Tensor { return logits.mul(std::nan("")); }
                                 : form.judged;
      const Routing found = again.route_by(given);
      EXPECT_EQ(Dispatcher::last("route").chosen, form.plain() ? "cpu" : "aten");
      again.backward(found);
      EXPECT_TRUE(found.choice_tk.equal(expected.choice_tk));
      EXPECT_TRUE(found.weight_tk.equal(expected.weight_tk));
      EXPECT_TRUE(found.probability_sum_se.equal(expected.probability_sum_se));
      EXPECT_TRUE(found.count_se.equal(expected.count_se));
      EXPECT_TRUE(found.log_sum_square.equal(expected.log_sum_square));
      EXPECT_TRUE(again.hidden.grad().equal(own.hidden.grad()));
      EXPECT_TRUE(again.sink.equal(own.sink));
      EXPECT_GT(own.sink.abs().max().item<double>(), 0);
    }
  }
}

// Weights, statistics and gradients of other experts, by LibTorch's operators written out here.
TEST(GivenChoice, OthersAreWeighedByTheirScores) {
  for_each_instruction_set([] {
    for (const RouterOptions& form : forms()) {
      RouterOptions given = form;
      given.choice_tk = other_choice();
      const ChoiceInputs in, plain;
      const Routing found = in.route_by(given);
      in.backward(found);

      const Tensor router = plain.router.clone().requires_grad_(true), z = at::mm(plain.hidden, router.t());
      const Tensor score = form.score == Score::kSoftmax   ? z.exp() / z.exp().sum(1, true)
                           : form.score == Score::kSigmoid ? 1 / (1 + z.neg().exp())
                                                           : (1 + z.exp()).log().sqrt();
      std::vector<Tensor> rows, counts = {at::zeros({kExperts}, at::kLong), at::zeros({kExperts}, at::kLong)};
      for (int64_t t = 0; t < kChoiceTokens; ++t) {
        std::vector<Tensor> of_token;
        for (int64_t i = 0; i < kEach; ++i) {
          const auto e = given.choice_tk[t][i].item<int64_t>();
          of_token.push_back(score[t][e]);
          counts[t < 9 ? 0 : 1][e] += 1;
        }
        const Tensor row = at::stack(of_token);
        rows.push_back(form.scale * (form.normalised ? row / row.sum() : row));
      }
      const Tensor p = score / score.sum(1, true);
      const Routing expected{at::stack(rows), given.choice_tk,
                             at::stack({p.narrow(0, 0, 9).sum(0), p.narrow(0, 9, kChoiceTokens - 9).sum(0)}),
                             at::stack(counts), z.exp().sum(1).log().square().sum()};
      plain.backward(expected);
      EXPECT_TRUE(found.choice_tk.equal(given.choice_tk));
      EXPECT_TRUE(found.count_se.equal(expected.count_se));
      EXPECT_LT(relative_error(found.weight_tk, expected.weight_tk), 1e-12);
      EXPECT_LT(relative_error(found.probability_sum_se, expected.probability_sum_se), 1e-12);
      EXPECT_LT(relative_error(found.log_sum_square, expected.log_sum_square), 1e-12);
      EXPECT_LT(relative_error(in.hidden.grad(), plain.hidden.grad()), 1e-11);
      EXPECT_LT(relative_error(in.sink, router.grad()), 1e-11);
    }
  });
}

TEST(GivenChoice, Gradients) {
  for (const RouterOptions& form : forms()) {
    const ChoiceInputs in;
    RouterOptions given = form;
    given.choice_tk = other_choice();
    check_gradients(
        [&](const std::vector<Tensor>& of) {
          const Routing routing = route(of[0], in.router, kEach, in.sink, in.offsets, given);
          return routing.weight_tk.mul(in.weight).sum() +
                 routing.probability_sum_se.mul(in.probability).sum();
        },
        {in.hidden});
  }
}

// Of logits 1000, 0, −1, −2 the last three have no probability, in fp64 either; their weights are those of a
// softmax over them: 1, e⁻¹, e⁻² in shares.
TEST(GivenChoice, VanishingProbabilitiesKeepTheirRatio) {
  const double sum = 1 + std::exp(-1.0) + std::exp(-2.0);
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    for (const bool plain : {true, false}) {
      const Tensor router = at::tensor({1000.0, 0.0, -1.0, -2.0}, type).view({4, 1}),
                   sink = at::zeros_like(router);
      const Tensor x = at::ones({1, 1}, type).requires_grad_(true);
      RouterOptions options{.choice_tk = at::tensor({2, 3, 1}, at::kLong).view({1, 3})};
      if (!plain) options.bias_e = at::zeros({4}, type);
      const Routing routing = route(x, router, 3, sink, {}, options);
      EXPECT_EQ(Dispatcher::last("route").chosen, plain ? "cpu" : "aten");
      const Tensor expected = at::tensor({std::exp(-1.0), std::exp(-2.0), 1.0}, at::kDouble).div(sum);
      EXPECT_LT(relative_error(routing.weight_tk[0], expected), type == at::kDouble ? 1e-14 : 1e-6);
      routing.weight_tk[0][0].backward();
      // dw₀/dz = w₀ (1 − w₀) for its own logit, −w₀ w for the others', and none for the first.
      const double w = expected[0].item<double>();
      EXPECT_NEAR(sink[2][0].item<double>(), w * (1 - w), 1e-6);
      EXPECT_NEAR(sink[1][0].item<double>(), -w * expected[2].item<double>(), 1e-6);
      EXPECT_EQ(sink[0][0].item<double>(), 0);
    }
  }
}

TEST(GivenChoice, Refusals) {
  const ChoiceInputs in;
  const auto refused = [&](const Tensor& choice, const RouterOptions& form) {
    RouterOptions given = form;
    given.choice_tk = choice;
    try {
      in.route_by(given);
    } catch (const Error& error) {
      return error.fields().expected + " | " + error.fields().found;
    }
    return std::string("nothing");
  };
  for (const RouterOptions& form : {RouterOptions{}, RouterOptions{.score = Score::kSigmoid}}) {
    const auto with = [&](int64_t value) {
      Tensor choice = other_choice();
      choice[7][1] = value;
      return refused(choice, form);
    };
    EXPECT_EQ(with(kExperts), "experts 0 to 7 | 8");
    EXPECT_EQ(with(-1), "experts 0 to 7 | -1");
    EXPECT_EQ(with(other_choice()[7][0].item<int64_t>()), "3 different experts a token | one of them twice");
    EXPECT_EQ(refused(other_choice().narrow(0, 1, kChoiceTokens - 1), form),
              "[23, 3] int64 on the device of hidden | [22, 3] int64");
    EXPECT_EQ(refused(other_choice().to(at::kInt), form),
              "[23, 3] int64 on the device of hidden | [23, 3] int32");
  }
}

TEST(GivenChoice, OfMetaTensors) {
  const at::TensorOptions meta(at::kMeta);
  const RouterOptions options{
      .judged = [](const Tensor&) -> Tensor { throw std::logic_error("nobody asks"); },
      .choice_tk = at::empty({5, 2}, meta.dtype(at::kLong))};
  const Routing routing = route(at::empty({5, 3}, meta), at::empty({4, 3}, meta), 2, Tensor(), {}, options);
  EXPECT_EQ(routing.weight_tk.sizes(), at::IntArrayRef({5, 2}));
  EXPECT_EQ(routing.choice_tk.sizes(), at::IntArrayRef({5, 2}));
}

}  // namespace
}  // namespace longhaul::kernels::given_choice_test
