// The loss of a model that learns beside a frozen one, and its gradients, beside LibTorch's autograd of the
// formula in fp64.
#include "kernels/distillation/op.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/tensors.h"

namespace longhaul::kernels::distillation_test {
namespace {

using namespace longhaul::testing;

struct Case {
  Tensor hidden = random_tensor({11, 6}, 1), weight = random_tensor({13, 6}, 2),
         frozen = random_tensor({11, 13}, 3);
  Tensor labels = at::tensor({3, 0, -1, 12, 5, 5, -1, 1, 2, 9, 4});
  Tensor counts = random_tensor({11}, 4).abs();

  Distillation from(double weight_of_it, double temperature, int64_t chunk) const {
    return {.weight = weight_of_it,
            .temperature = temperature,
            .logits = [all = frozen](int64_t first, int64_t rows) { return all.narrow(0, first, rows); },
            .chunk = chunk};
  }
};

// Σ_t c_t [(1 − w) CE + w T² KL(p ‖ q)], by LibTorch's own loss functions.
Tensor plain(const Case& of, const Tensor& hidden, const Tensor& weight, double w, double t, bool counted) {
  Tensor sum = at::zeros({}, at::kDouble);
  for (int64_t i = 0; i < of.labels.size(0); ++i) {
    const auto label = of.labels[i].item<int64_t>();
    if (label < 0) continue;
    const Tensor z = weight.mv(hidden[i]);
    const Tensor cross = z.log_softmax(0)[label].neg();
    const Tensor divergence =
        at::kl_div(z.div(t).log_softmax(0), of.frozen[i].div(t).softmax(0), at::Reduction::Sum);
    const Tensor each = cross * (1 - w) + divergence * (w * t * t);
    sum = sum + (counted ? each * of.counts[i] : each);
  }
  return sum;
}

TEST(Distillation, LossAndGradientsAreThoseOfTheFormula) {
  const Case of;
  for (const double w : {0.25, 1.0}) {
    for (const double t : {1.0, 2.5}) {
      for (const bool counted : {false, true}) {
        for (const int64_t chunk : {3, 100}) {
          const Tensor hidden = of.hidden.clone().requires_grad_(true),
                       weight = of.weight.clone().requires_grad_(true);
          const Tensor expected = plain(of, hidden, weight, w, t, counted);
          expected.mul(1.7).backward();
          const Tensor own = of.hidden.clone().requires_grad_(true), sink = at::zeros_like(of.weight);
          const Distilled sums = distillation_sum(own, {of.weight, {sink}}, of.labels,
                                                  counted ? of.counts : Tensor(), of.from(w, t, chunk));
          const Tensor& found = sums.loss;
          found.mul(1.7).backward();
          EXPECT_NEAR(sums.cross_entropy.item<double>(),
                      plain(of, of.hidden, of.weight, 0, t, counted).item<double>(), 1e-11);
          EXPECT_NEAR(sums.divergence.item<double>() * t * t,
                      plain(of, of.hidden, of.weight, 1, t, counted).item<double>(), 1e-11);
          EXPECT_FALSE(sums.divergence.requires_grad());
          EXPECT_NEAR(found.item<double>(), expected.item<double>(), 1e-11);
          EXPECT_LT(relative_error(own.grad(), hidden.grad()), 1e-11);
          EXPECT_LT(relative_error(sink, weight.grad()), 1e-11);
          EXPECT_EQ(own.grad()[2].abs().sum().item<double>(), 0) << "a token without a label";
        }
      }
    }
  }
}

TEST(Distillation, AModelThatEqualsTheOtherHasNothingToLearnFromIt) {
  const Case of;
  Distillation from = of.from(1, 2, 4);
  from.logits = [&](int64_t first, int64_t rows) {
    return of.hidden.narrow(0, first, rows).matmul(of.weight.t());
  };
  const Tensor hidden = of.hidden.clone().requires_grad_(true), sink = at::zeros_like(of.weight);
  const Tensor loss = distillation_sum(hidden, {of.weight, {sink}}, of.labels, Tensor(), from).loss;
  loss.backward();
  EXPECT_NEAR(loss.item<double>(), 0, 1e-12);
  EXPECT_LT(hidden.grad().abs().max().item<double>(), 1e-12);
}

// The product of the head's gradient waits in a queue, as zero-bubble pipelines have it.
TEST(Distillation, AGradientThatWaitsIsTheSame) {
  const Case of;
  const auto run = [&](GradientSink sink) {
    const Tensor hidden = of.hidden.clone().requires_grad_(true);
    distillation_sum(hidden, {of.weight, std::move(sink)}, of.labels, Tensor(), of.from(0.5, 2, 4))
        .loss.backward();
    return hidden.grad();
  };
  const Tensor now = at::zeros_like(of.weight), later = at::zeros_like(of.weight);
  const auto queue = std::make_shared<Postponed>();
  const Tensor first = run({now}), second = run(GradientSink(later).into(queue));
  EXPECT_TRUE(first.equal(second));
  EXPECT_EQ(later.abs().sum().item<double>(), 0);
  ASSERT_EQ(queue->size(), 1);
  (*queue)[0]();
  EXPECT_TRUE(now.equal(later));
}

TEST(Distillation, InNarrowNumbers) {
  const Case of;
  for (const ScalarType type : {at::kFloat, at::kBFloat16}) {
    const Tensor hidden = of.hidden.to(type).requires_grad_(true), weight = of.weight.to(type);
    const Tensor sink = at::zeros({13, 6}, at::kFloat);
    const Tensor found =
        distillation_sum(hidden, {weight, {sink}}, of.labels, Tensor(), of.from(0.5, 2, 4)).loss;
    EXPECT_EQ(found.scalar_type(), at::kFloat);
    found.backward();
    const Tensor wide = hidden.detach().to(at::kDouble).requires_grad_(true);
    plain(of, wide, weight.to(at::kDouble), 0.5, 2, false).backward();
    EXPECT_LT(relative_error(hidden.grad(), wide.grad()), type == at::kFloat ? 1e-5 : 2e-2);
  }
}

// More rows than are compared at once. Σ_t c_t mean_d (x − y)², by LibTorch's own loss and its autograd.
TEST(Distillation, DistancesOfLayersAreMeanSquares) {
  constexpr int64_t kRows = 300, kChannels = 5;
  const Tensor x = random_tensor({kRows, kChannels}, 1), y = random_tensor({kRows, kChannels}, 2);
  const Tensor labels = random_tensor({kRows}, 3).gt(-0.5).to(at::kLong).sub(1);  // −1 or 0
  const Tensor weights = random_tensor({kRows}, 4).abs();
  for (const bool weighted : {false, true}) {
    const Tensor counts = counts_of(labels, weighted ? weights : Tensor(), at::kDouble);
    Tensor by_hand = at::zeros({}, at::kDouble);
    const Tensor plain = x.clone().requires_grad_(true);
    for (int64_t t = 0; t < kRows; ++t) {
      if (labels[t].item<int64_t>() < 0) continue;
      const Tensor each = at::mse_loss(plain[t], y[t]);
      by_hand = by_hand + (weighted ? each * weights[t] : each);
    }
    by_hand.mul(0.3).backward();
    const Tensor own = x.clone().requires_grad_(true), frozen = y.clone().requires_grad_(true);
    const Tensor found = layer_distance_sum(own, frozen.detach(), counts);
    found.mul(0.3).backward();
    EXPECT_NEAR(found.item<double>(), by_hand.item<double>(), 1e-11);
    EXPECT_LT(relative_error(own.grad(), plain.grad()), 1e-12);
    EXPECT_FALSE(frozen.grad().defined());

    const Tensor narrow = x.to(at::kBFloat16).requires_grad_(true);
    const Tensor of_narrow =
        layer_distance_sum(narrow, y.to(at::kBFloat16), counts_of(labels, Tensor(), at::kFloat));
    EXPECT_EQ(of_narrow.scalar_type(), at::kFloat);
    of_narrow.backward();
    EXPECT_EQ(narrow.grad().scalar_type(), at::kBFloat16);
  }
}

TEST(Distillation, StatesOfAnotherWidthAreRefused) {
  const Tensor x = random_tensor({4, 5}, 1);
  EXPECT_THROW(layer_distance_sum(x, random_tensor({4, 6}, 2), at::ones({4}, at::kDouble)), Error);
}

}  // namespace
}  // namespace longhaul::kernels::distillation_test
