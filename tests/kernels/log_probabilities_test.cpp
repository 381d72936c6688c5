// Log-probability, entropy and log-sum-exp of every token, with any gradient for each, against LibTorch's
// autograd in fp64 on whole logits; tokens without a label; losses that are made of them; sinks that wait or
// are absent; meta tensors.
#include "kernels/linear_cross_entropy/log_probabilities.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "support/refused.h"
#include "support/tensors.h"

namespace longhaul::kernels::log_probabilities_test {
namespace {

using namespace longhaul::testing;

struct HeadSizes {
  // every how many tokens one has no label; 0: all have one
  int64_t tokens, hidden, vocabulary, unlabelled, chunk;
};
const HeadSizes kHeadSizes[] = {{23, 8, 31, 7, 512},
                                {1, 16, 300, 0, 512},
                                {0, 16, 300, 0, 512},
                                {40, 16, 300, 1, 512},
                                {300, 24, 517, 2, 96}};

struct Policy {
  Tensor hidden, weight, labels, d_log_p, d_entropy, d_logsumexp;
};

Policy policy_of(const HeadSizes& c, at::ScalarType type) {
  Policy of{random_tensor({c.tokens, c.hidden}, 1).mul(2 / std::sqrt(static_cast<double>(c.hidden))).to(type),
            random_tensor({c.vocabulary, c.hidden}, 2).to(type),
            at::arange(c.tokens).mul(7919).remainder(c.vocabulary),
            random_tensor({c.tokens}, 3),
            random_tensor({c.tokens}, 4),
            random_tensor({c.tokens}, 5)};
  // any number below 0
  for (int64_t t = 0; c.unlabelled > 0 && t < c.tokens; t += c.unlabelled) of.labels[t] = -1 - t % 3;
  return of;
}

struct HeadOutcome {
  TokenLogProbabilities each;
  Tensor d_hidden, d_weight;
};

// Σ over tokens of a different gradient each, of whichever results are there.
Tensor weighed(const Policy& of, const TokenLogProbabilities& each) {
  const auto sum = [](const Tensor& x, const Tensor& d) { return x.mul(d.to(x.scalar_type())).sum(); };
  Tensor total = sum(each.log_probability_t, of.d_log_p);
  if (each.entropy_t.defined()) total = total + sum(each.entropy_t, of.d_entropy);
  if (each.logsumexp_t.defined()) total = total + sum(each.logsumexp_t, of.d_logsumexp);
  return total;
}

TokenLogProbabilities on_whole_logits(const Policy& of, const Tensor& hidden, const Tensor& weight,
                                      const LogProbabilityOptions& options) {
  const Tensor z = at::mm(hidden, weight.t()).div(options.temperature), log_p = z.log_softmax(1),
               labelled = of.labels.ge(0);
  const Tensor picked = log_p.gather(1, of.labels.clamp_min(0).unsqueeze(1)).squeeze(1);
  return {picked.mul(labelled),
          options.entropy ? log_p.exp().mul(log_p).sum(1).neg().mul(labelled) : Tensor(),
          options.logsumexp ? z.logsumexp(1).mul(labelled) : Tensor()};
}

HeadOutcome by_autograd(const Policy& of, const LogProbabilityOptions& options) {
  const Tensor hidden = of.hidden.to(at::kDouble, false, true).requires_grad_(),
               weight = of.weight.to(at::kDouble, false, true).requires_grad_();
  const TokenLogProbabilities each = on_whole_logits(of, hidden, weight, options);
  weighed(of, each).backward();
  return {each, hidden.grad(), weight.grad()};
}

Tensor wide_sink(const Tensor& weight) {
  return at::zeros(weight.sizes(),
                   at::TensorOptions().dtype(weight.scalar_type() == at::kDouble ? at::kDouble : at::kFloat));
}

HeadOutcome by_operator(const Policy& of, const LogProbabilityOptions& options) {
  const Tensor hidden = of.hidden.clone().requires_grad_(), sink = wide_sink(of.weight);
  const TokenLogProbabilities each = token_log_probabilities(hidden, {of.weight, sink}, of.labels, options);
  weighed(of, each).backward();
  return {each, hidden.grad(), sink};
}

void expect_near(const char* what, const Tensor& found, const Tensor& expected, double tolerance) {
  ASSERT_EQ(found.defined(), expected.defined()) << what;
  if (!found.defined()) return;
  EXPECT_LE(relative_error(found, expected), tolerance) << what;
}

TEST(LogProbabilities, EqualAutogradOnWholeLogits) {
  const PoisonFreshMemory poison;
  struct Precision {
    at::ScalarType type;
    double value, gradient;
  };
  for (const HeadSizes& sizes : kHeadSizes) {
    for (const Precision& p :
         {Precision{at::kDouble, 1e-12, 1e-12}, {at::kFloat, 2e-6, 2e-5}, {at::kBFloat16, 2e-6, 1.5e-2}}) {
      const Policy of = policy_of(sizes, p.type);
      for (const bool entropy : {false, true}) {
        for (const bool logsumexp : {false, true}) {
          const LogProbabilityOptions options{entropy ? 0.8 : 1.0, entropy, logsumexp, sizes.chunk};
          SCOPED_TRACE(std::to_string(sizes.tokens) + " tokens, " + at::toString(p.type) +
                       (entropy ? ", entropy" : "") + (logsumexp ? ", logsumexp" : ""));
          const HeadOutcome found = by_operator(of, options), expected = by_autograd(of, options);
          expect_near("log p", found.each.log_probability_t, expected.each.log_probability_t, p.value);
          expect_near("entropy", found.each.entropy_t, expected.each.entropy_t, p.value);
          expect_near("logsumexp", found.each.logsumexp_t, expected.each.logsumexp_t, p.value);
          expect_near("d hidden", found.d_hidden, expected.d_hidden, p.gradient);
          expect_near("d weight", found.d_weight, expected.d_weight, p.gradient);
        }
      }
    }
  }
}

TEST(LogProbabilities, GradientsAreDifferenceQuotients) {
  const Policy of = policy_of({9, 5, 13, 4, 4}, at::kDouble);
  check_gradients(
      [&](const std::vector<Tensor>& x) {
        const auto each = token_log_probabilities(x[0], {of.weight, at::zeros_like(of.weight)}, of.labels,
                                                  {0.6, true, true, 4});
        return each.log_probability_t.exp().mul(of.d_log_p).sum() + each.entropy_t.square().sum() +
               each.logsumexp_t.square().sum();
      },
      {of.hidden});
}

// What has no label leaves no trace, whatever its hidden state is.
TEST(LogProbabilities, TokensWithoutLabelAreNotRead) {
  const Policy of = policy_of(kHeadSizes[0], at::kFloat);
  const HeadOutcome expected = by_operator(of, {.entropy = true, .logsumexp = true});
  Policy broken = of;
  broken.hidden = of.hidden.clone().masked_fill_(of.labels.lt(0).unsqueeze(1), NAN);
  const HeadOutcome found = by_operator(broken, {.entropy = true, .logsumexp = true});
  EXPECT_TRUE(found.d_hidden.equal(expected.d_hidden));
  EXPECT_TRUE(found.d_weight.equal(expected.d_weight));
  for (const Tensor& each : {found.each.log_probability_t, found.each.entropy_t, found.each.logsumexp_t,
                             found.d_hidden.abs().sum(1)}) {
    EXPECT_EQ(each.index_select(0, of.labels.lt(0).nonzero().squeeze(1)).abs().sum().item<double>(), 0);
  }
  EXPECT_TRUE(found.each.log_probability_t.equal(expected.each.log_probability_t));
}

// The loss of a step as users know it: minus the sum, with a z-loss.
TEST(LogProbabilities, MakeTheLossOfTheSum) {
  const Policy of = policy_of(kHeadSizes[4], at::kDouble);
  const Tensor hidden = of.hidden.clone().requires_grad_(), same = of.hidden.clone().requires_grad_();
  const Tensor sink = at::zeros_like(of.weight), same_sink = at::zeros_like(of.weight);
  const Tensor expected = linear_cross_entropy_sum(hidden, of.weight, of.labels, sink, {.z_loss = 0.01});
  expected.backward();
  const auto each = token_log_probabilities(same, {of.weight, same_sink}, of.labels, {.logsumexp = true});
  const Tensor found = each.log_probability_t.neg().add(each.logsumexp_t.square(), 0.01).sum();
  found.backward();
  expect_near("loss", found.detach(), expected.detach(), 1e-13);
  expect_near("d hidden", same.grad(), hidden.grad(), 1e-12);
  expect_near("d weight", same_sink, sink, 1e-12);
}

// A clipped policy gradient has dL/dl = −A r where its branch counts, and 0 where it is clipped.
TEST(LogProbabilities, MakeAClippedPolicyGradient) {
  const Policy of = policy_of(kHeadSizes[0], at::kDouble);
  const Tensor advantage = of.d_log_p, labelled = of.labels.ge(0).to(at::kDouble);
  const HeadOutcome now = by_autograd(of, {});
  const Tensor old = now.each.log_probability_t.detach().add(of.d_entropy, 0.3);
  const Tensor hidden = of.hidden.clone().requires_grad_(), sink = at::zeros_like(of.weight);
  const Tensor ratio =
      token_log_probabilities(hidden, {of.weight, sink}, of.labels).log_probability_t.sub(old).exp();
  at::maximum(advantage.neg().mul(ratio), advantage.neg().mul(ratio.clamp(0.8, 1.28)))
      .mul(labelled)
      .sum()
      .backward();

  const Tensor r = of.d_entropy.mul(-0.3).exp();
  const Tensor clipped =
      advantage.gt(0).logical_and(r.gt(1.28)).logical_or(advantage.lt(0).logical_and(r.lt(0.8)));
  ASSERT_GT(clipped.sum().item<int64_t>(), 0);
  Policy by_hand = of;
  by_hand.d_log_p = advantage.neg().mul(r).masked_fill(clipped, 0);
  const HeadOutcome expected = by_autograd(by_hand, {});
  expect_near("d hidden", hidden.grad(), expected.d_hidden, 1e-12);
  expect_near("d weight", sink, expected.d_weight, 1e-12);
}

TEST(LogProbabilities, SinksMayWaitOrBeAbsent) {
  const Policy of = policy_of(kHeadSizes[0], at::kDouble);
  const LogProbabilityOptions options{.temperature = 1.5, .entropy = true};
  const HeadOutcome expected = by_autograd(of, options);
  const Tensor hidden = of.hidden.clone().requires_grad_(), buffer = at::zeros_like(of.weight);
  const auto queue = std::make_shared<Postponed>();
  weighed(of,
          token_log_probabilities(hidden, {of.weight, GradientSink(buffer).into(queue)}, of.labels, options))
      .backward();
  expect_near("d hidden", hidden.grad(), expected.d_hidden, 1e-12);
  EXPECT_EQ(buffer.abs().max().item<double>(), 0);
  for (const auto& product : *queue) product();
  expect_near("d weight", buffer, expected.d_weight, 1e-12);

  const Tensor frozen = of.hidden.clone().requires_grad_();
  weighed(of, token_log_probabilities(frozen, {of.weight, {}}, of.labels, options)).backward();
  expect_near("d hidden", frozen.grad(), expected.d_hidden, 1e-12);

  const Tensor head_alone = at::zeros_like(of.weight);
  weighed(of, token_log_probabilities(of.hidden, {of.weight.clone().requires_grad_(), head_alone}, of.labels,
                                      options))
      .backward();
  expect_near("d weight", head_alone, expected.d_weight, 1e-12);
}

TEST(LogProbabilities, OfOneResultAlone) {
  Policy of = policy_of(kHeadSizes[0], at::kDouble);
  const LogProbabilityOptions options{.entropy = true, .logsumexp = true};
  for (const int which : {0, 1, 2}) {
    const auto chosen = [&](const TokenLogProbabilities& each) {
      return which == 0 ? each.log_probability_t : which == 1 ? each.entropy_t : each.logsumexp_t;
    };
    const Tensor hidden = of.hidden.clone().requires_grad_(), sink = at::zeros_like(of.weight);
    chosen(token_log_probabilities(hidden, {of.weight, sink}, of.labels, options))
        .mul(of.d_log_p)
        .sum()
        .backward();
    const Tensor leaf = of.hidden.clone().requires_grad_(), weight = of.weight.clone().requires_grad_();
    chosen(on_whole_logits(of, leaf, weight, options)).mul(of.d_log_p).sum().backward();
    expect_near("d hidden", hidden.grad(), leaf.grad(), 1e-12);
    expect_near("d weight", sink, weight.grad(), 1e-12);
  }
}

TEST(LogProbabilities, OfMetaTensorsHaveShapes) {
  const auto meta = at::TensorOptions().device(at::kMeta);
  const Tensor hidden = at::empty({70, 8}, meta.dtype(at::kBFloat16)).requires_grad_(),
               weight = at::empty({31, 8}, meta.dtype(at::kBFloat16));
  const auto each =
      token_log_probabilities(hidden, {weight, at::empty({31, 8}, meta.dtype(at::kFloat))},
                              at::empty({70}, meta.dtype(at::kLong)), {.entropy = true, .logsumexp = true});
  for (const Tensor& x : {each.log_probability_t, each.entropy_t, each.logsumexp_t}) {
    EXPECT_TRUE(x.is_meta() && x.sizes() == at::IntArrayRef({70}) && x.scalar_type() == at::kFloat);
  }
  (each.log_probability_t.sum() + each.entropy_t.sum()).backward();
  EXPECT_EQ(hidden.grad().sizes(), hidden.sizes());
}

TEST(LogProbabilities, RefuseByName) {
  using ::testing::HasSubstr;
  const Tensor hidden = at::zeros({4, 8}), weight = at::zeros({5, 8}), labels = at::zeros({4}, at::kLong);
  EXPECT_THAT(refused([&] {
                token_log_probabilities(hidden, {weight, {}}, labels.add(5));
              }),
              HasSubstr("bad argument labels"));
  EXPECT_THAT(refused([&] {
                token_log_probabilities(hidden, {weight, {}}, labels.narrow(0, 0, 3));
              }),
              HasSubstr("bad argument labels"));
  EXPECT_THAT(refused([&] {
                token_log_probabilities(hidden, {weight, {}}, labels, {.temperature = 0});
              }),
              HasSubstr("bad argument temperature"));
}

}  // namespace
}  // namespace longhaul::kernels::log_probabilities_test
