#include "kernels/linear_recurrence/op.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "base/error.h"
#include "kernels/linear_recurrence/linear_recurrence_cases.h"
#include "support/refused.h"
#include "tensor/to_tensor.h"

namespace longhaul::kernels::linear_recurrence_test {
namespace {

using longhaul::testing::PoisonFreshMemory;
using longhaul::testing::refused;
using longhaul::testing::relative_error;

// o_t = scale Σ_{j ≤ t} (q_t ⊙ e^{b_t − b_j})·k_j v_j, plus the initial state's part: the quadratic form,
// differentiated by LibTorch.
LinearRecurrenceResult quadratic(const Case& c, const Inputs& in, double scale) {
  const auto group = c.heads / c.key_heads;
  const Tensor k = in.k.repeat_interleave(group, 1), v = in.v.repeat_interleave(group, 1);
  std::vector<Tensor> outputs, states;
  for (size_t n = 0; n + 1 < c.offsets.size(); ++n) {
    const auto begin = c.offsets[n], length = c.offsets[n + 1] - begin;
    // [H, L, D]
    const auto part = [&](const Tensor& x) { return x.narrow(0, begin, length).transpose(0, 1); };
    Tensor g = at::zeros({c.heads, length, c.key}, in.q.options());
    if (c.decay == "head") g = in.log_decay.view({c.heads, 1, 1}).expand({c.heads, length, c.key});
    if (c.decay == "head_token") g = part(in.log_decay).unsqueeze(2).expand({c.heads, length, c.key});
    if (c.decay == "key_token") g = part(in.log_decay);
    const Tensor b = g.cumsum(1);
    const Tensor causal = at::ones({length, length}, in.q.options()).tril().unsqueeze(0).unsqueeze(3);
    const Tensor decay = at::where(causal.to(at::kBool), b.unsqueeze(2) - b.unsqueeze(1), -INFINITY).exp();
    const Tensor scores = (part(in.q).unsqueeze(2) * part(k).unsqueeze(1) * decay).sum(3);
    const Tensor initial = in.initial[static_cast<int64_t>(n)];
    outputs.push_back(
        (scale * (at::matmul(scores, part(v)) + at::matmul(part(in.q) * b.exp(), initial))).transpose(0, 1));
    if (length == 0) {
      states.push_back(initial);
      continue;
    }
    const Tensor end = b.narrow(1, length - 1, 1);
    states.push_back(end.exp().transpose(1, 2) * initial +
                     at::matmul((part(k) * (end - b).exp()).transpose(1, 2), part(v)));
  }
  return {at::cat(outputs, 0), at::stack(states)};
}

void expect_same(const Evaluation& a, const Evaluation& b, double tolerance) {
  EXPECT_LT(relative_error(a.result.o_thd, b.result.o_thd), tolerance) << "o";
  EXPECT_LT(relative_error(a.result.final_state_nhkv, b.result.final_state_nhkv), tolerance) << "final state";
  ASSERT_EQ(a.gradients.size(), b.gradients.size());
  const char* names[] = {"dq", "dk", "dv", "d initial state", "d log_decay"};
  for (size_t i = 0; i < a.gradients.size(); ++i)
    EXPECT_LT(relative_error(a.gradients[i], b.gradients[i]), tolerance) << names[i];
}

class LinearRecurrenceCases : public ::testing::TestWithParam<Case> {};

TEST_P(LinearRecurrenceCases, ReferenceEqualsTheQuadraticForm) {
  const Case& c = GetParam();
  if (c.tokens() * c.tokens() * c.heads * c.key > 20'000'000)
    GTEST_SKIP() << "the quadratic form takes too much memory";
  const Inputs in = inputs_of(c);
  const auto offsets = to_tensor(c.offsets);
  // The steep case overflows the quadratic form's decay gradient (∞ − ∞); its values still must agree.
  const bool decay_gradient = c.steep < 100;
  const auto reference = evaluate(in, decay_gradient, [&](const Inputs& x) {
    return linear_recurrence_reference(x.q, x.k, x.v, x.log_decay, x.initial, offsets, {.scale = 0.7});
  });
  const auto expected = evaluate(in, decay_gradient, [&](const Inputs& x) { return quadratic(c, x, 0.7); });
  expect_same(reference, expected, 1e-9);
}

// fp64, and the gradient of the decay: AtenRecurrence (any_device_test.cpp).
TEST_P(LinearRecurrenceCases, AtenEqualsReferenceInLowerPrecision) {
  const Case& c = GetParam();
  if (c.tokens() * c.heads * c.key * c.value > 20'000'000) GTEST_SKIP() << "the reference keeps every state";
  const PoisonFreshMemory poison;
  for (const auto& [type, tolerance] : {std::pair{at::kFloat, 1e-5}, {at::kBFloat16, 5e-3}}) {
    const Inputs in = inputs_of(c, type);
    const auto run = [&](const Inputs& values, const char* implementation) {
      const Forced forced(implementation);
      return evaluate(values, false, [&](const Inputs& x) {
        return linear_recurrence(x.q, x.k, x.v, x.log_decay, x.initial, to_tensor(c.offsets), {.scale = 0.7});
      });
    };
    expect_close(run(in, "aten"), run(widened(in), "reference"), tolerance);
  }
}

TEST_P(LinearRecurrenceCases, PackedDocumentsEqualOneAtATime) {
  const Case& c = GetParam();
  const Inputs in = inputs_of(c);
  const auto packed = linear_recurrence(in.q, in.k, in.v, in.log_decay, in.initial, to_tensor(c.offsets));
  for (size_t n = 0; n + 1 < c.offsets.size(); ++n) {
    const auto begin = c.offsets[n], length = c.offsets[n + 1] - begin;
    const auto part = [&](const Tensor& x) {
      return x.defined() && x.dim() > 1 ? x.narrow(0, begin, length) : x;
    };
    const auto alone = linear_recurrence(part(in.q), part(in.k), part(in.v), part(in.log_decay),
                                         in.initial.narrow(0, static_cast<int64_t>(n), 1), Tensor());
    EXPECT_LT(relative_error(packed.o_thd.narrow(0, begin, length), alone.o_thd), 1e-12);
    EXPECT_LT(relative_error(packed.final_state_nhkv[static_cast<int64_t>(n)], alone.final_state_nhkv[0]),
              1e-12);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, LinearRecurrenceCases, ::testing::ValuesIn(load_cases()));

TEST(LinearRecurrence, SplittingASequenceCarriesTheState) {
  const Case c{.name = "split",
               .decay = "head",
               .offsets = {0, 100},
               .heads = 2,
               .key_heads = 2,
               .key = 8,
               .value = 8,
               .steep = 0.5};
  const Inputs in = inputs_of(c);
  const auto whole = linear_recurrence(in.q, in.k, in.v, in.log_decay, in.initial, Tensor());
  Tensor state = in.initial;
  std::vector<Tensor> outputs;
  for (const auto& [begin, length] : std::vector<std::pair<int64_t, int64_t>>{{0, 37}, {37, 1}, {38, 62}}) {
    const auto part = linear_recurrence(in.q.narrow(0, begin, length), in.k.narrow(0, begin, length),
                                        in.v.narrow(0, begin, length), in.log_decay, state, Tensor());
    outputs.push_back(part.o_thd);
    state = part.final_state_nhkv;
  }
  EXPECT_LT(relative_error(at::cat(outputs), whole.o_thd), 1e-12);
  EXPECT_LT(relative_error(state, whole.final_state_nhkv), 1e-12);
}

TEST(LinearRecurrence, StateIsTheDecayedSumOfOuterProducts) {
  const Tensor k = random_tensor({9, 1, 3}, 1), v = random_tensor({9, 1, 2}, 2),
               gamma = at::full({1}, -0.25, at::kDouble);
  const auto result = linear_recurrence(k, k, v, gamma, Tensor(), Tensor());
  Tensor expected = at::zeros({3, 2}, at::kDouble);
  for (int64_t j = 0; j < 9; ++j)
    expected += std::exp(-0.25 * static_cast<double>(8 - j)) * at::outer(k[j][0], v[j][0]);
  EXPECT_LT(relative_error(result.final_state_nhkv[0][0], expected), 1e-12);
}

TEST(LinearRecurrence, KeepsItsStateOverAMillionTokensWithoutDecay) {
  const int64_t tokens = 1000000;
  const Tensor ones = at::ones({tokens, 1, 1});
  for (const Tensor& decay : {Tensor(), at::zeros({1})}) {
    const auto result = linear_recurrence(ones, ones, ones, decay, Tensor(), Tensor());
    EXPECT_EQ(Dispatcher::last("linear_recurrence").chosen, "cpu");
    EXPECT_EQ(result.final_state_nhkv.item<float>(), 1e6f);  // whole numbers below 2^24 are exact in fp32
    EXPECT_EQ(result.o_thd[tokens - 1].item<float>(), 1e6f);
  }
}

TEST(LinearRecurrence, GradientsMatchFiniteDifferences) {
  for (const std::string decay : {"head", "head_token", "key_token"}) {
    const Case c{.name = decay,
                 .decay = decay,
                 .offsets = {0, 7, 8, 12},
                 .heads = 2,
                 .key_heads = 1,
                 .key = 3,
                 .value = 2,
                 .steep = 1};
    const Inputs in = inputs_of(c);
    for (const char* implementation : {"aten", "reference"}) {
      const Forced forced(implementation);
      longhaul::testing::check_gradients(
          [&](const std::vector<Tensor>& x) {
            return weigh(
                linear_recurrence(x[0], x[1], x[2], x[4], x[3], to_tensor(c.offsets), {.scale = 0.5}));
          },
          in.all());
    }
  }
}

// A log_decay of −∞ is a decay of 0: no implementation may make 0 · ∞ of it.
TEST(LinearRecurrence, ADecayWithoutEndForgetsAtOnce) {
  for (const std::string kind : {"head", "head_token", "key_token"}) {
    for (const char* implementation : {"cpu", "aten", "reference"}) {
      Case c;
      c.offsets = {0, 70, 71, 71, 150};
      c.heads = c.key_heads = 2;
      c.key = 6;
      c.value = 5;
      c.steep = 1;
      c.decay = kind;
      Inputs in = inputs_of(c, at::kFloat);
      in.log_decay = at::full_like(in.log_decay, -INFINITY);
      const Forced forced(implementation);
      const auto found =
          linear_recurrence(in.q, in.k, in.v, in.log_decay, in.initial, to_tensor(c.offsets), {});
      const Tensor own = (in.q * in.k).sum(2, true) * in.v;  // what a token sees: itself
      EXPECT_LT(relative_error(found.o_thd, own), 1e-6) << kind << " " << implementation;
      EXPECT_TRUE(found.final_state_nhkv.isfinite().all().item<bool>()) << kind << " " << implementation;
    }
  }
}

// No document has a token: the state passes through, and whoever wants a gradient gets one.
TEST(LinearRecurrence, WithoutTokensEveryGradientIsThere) {
  for (const char* implementation : {"cpu", "aten", "reference"}) {
    const at::ScalarType type = implementation == std::string("cpu") ? at::kFloat : at::kDouble;
    for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{2}, {0, 2}, {0, 2, 3}}) {
      const Tensor q = random_tensor({0, 2, 3}, 1, type),
                   before = random_tensor({2, 2, 3, 3}, 2, type).requires_grad_(true);
      const Tensor decay = at::full(sizes, -INFINITY, q.options()).requires_grad_(true);
      const Forced forced(implementation);
      const Tensor after = linear_recurrence(q, q, q, decay, before, to_tensor(std::vector<int64_t>{0, 0, 0}))
                               .final_state_nhkv;
      EXPECT_TRUE(after.equal(before)) << implementation;
      after.sum().backward();
      EXPECT_TRUE(before.grad().eq(1).all().item<bool>()) << implementation;
      ASSERT_TRUE(decay.grad().defined()) << implementation;
      EXPECT_TRUE(decay.grad().eq(0).all().item<bool>()) << implementation;
    }
  }
}

// What is asked of a gradient as a function of q, k, v, … is refused instead of answered with zeros.
TEST(LinearRecurrence, RefusesASecondDerivative) {
  const auto values = [](uint64_t seed) { return random_tensor({9, 2, 4}, seed, at::kFloat); };
  const Tensor q = values(1).requires_grad_(true), k = values(2), v = values(3);
  const Tensor loss = linear_recurrence(q, k, v, {}, {}, {}).o_thd.square().sum();
  const Tensor slope =
      torch::autograd::grad({loss}, {q}, {}, /*retain_graph=*/true, /*create_graph=*/true).front();
  // Beside another term, whose gradient there is: without the refusal this would pass, and leave the slope
  // out.
  EXPECT_THROW((slope.sum() + q.sum()).backward(), std::exception);
}

TEST(LinearRecurrence, RefusesBadArgumentsByName) {
  const Tensor q = at::zeros({4, 2, 3}), k = at::zeros({4, 2, 3}), v = at::zeros({4, 2, 5});
  using ::testing::HasSubstr;
  EXPECT_THAT(refused([&] {
                linear_recurrence(at::zeros({4, 2}), k, v, {}, {}, {});
              }),
              HasSubstr("bad argument q"));
  EXPECT_THAT(refused([&] { linear_recurrence(q, k, v, {}, {}, {}, {.block = 48}); }),
              HasSubstr("bad argument block"));
  EXPECT_THAT(refused([&] { linear_recurrence(q, {}, v, {}, {}, {}, {.tied_keys = true}); }),
              HasSubstr("bad argument log_decay"));
  EXPECT_THAT(refused([&] {
                linear_recurrence(q, at::zeros({4, 3, 3}), v, {}, {}, {});
              }),
              HasSubstr("bad argument k"));
  EXPECT_THAT(refused([&] { linear_recurrence(q, k.to(at::kDouble), v, {}, {}, {}); }),
              HasSubstr("bad argument k"));
  EXPECT_THAT(refused([&] {
                linear_recurrence(q, k, at::zeros({3, 2, 5}), {}, {}, {});
              }),
              HasSubstr("bad argument v"));
  EXPECT_THAT(refused([&] { linear_recurrence(q, k, v, at::zeros({7}), {}, {}); }),
              HasSubstr("bad argument log_decay"));
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{2}, {4, 2}, {4, 2, 3}}) {
    Tensor rising = at::full(sizes, -0.5);
    rising.view({-1})[1] = 2e-3;
    EXPECT_THAT(refused([&] { linear_recurrence(q, k, v, rising, {}, {}); }),
                HasSubstr("bad argument log_decay"));
    EXPECT_THAT(refused([&] { linear_recurrence_reference(q, k, v, rising, {}, {}); }),
                HasSubstr("bad argument log_decay"));
  }
  EXPECT_THAT(refused([&] { linear_recurrence(q, k, v, at::zeros({2}, at::kLong), {}, {}); }),
              HasSubstr("bad argument log_decay"));
  // Another device: nothing may be read from it, nor left unwritten.
  const auto elsewhere = [](const Tensor& x) { return x.to(at::kMeta); };
  EXPECT_THAT(refused([&] { linear_recurrence(q, elsewhere(k), v, {}, {}, {}); }),
              HasSubstr("[4, 2, 3] fp32 on meta"));
  EXPECT_THAT(refused([&] { linear_recurrence(q, k, v, elsewhere(at::zeros({2})), {}, {}); }),
              HasSubstr("bad argument log_decay"));
  EXPECT_THAT(refused([&] {
                linear_recurrence(q, k, v, {}, elsewhere(at::zeros({1, 2, 3, 5})), {});
              }),
              HasSubstr("bad argument initial_state"));
  EXPECT_THAT(refused([&] {
                linear_recurrence(q, k, v, {}, at::zeros({2, 2, 3, 5}), {});
              }),
              HasSubstr("bad argument initial_state"));
  EXPECT_THAT(refused([&] {
                linear_recurrence(q, k, v, {}, {}, at::tensor({0, 3}, at::kLong));
              }),
              HasSubstr("bad argument offsets (cu_seqlens)"));
  EXPECT_THAT(refused([&] {
                linear_recurrence(q, k, v, {}, {}, at::tensor({0, 3, 2, 4}, at::kLong));
              }),
              HasSubstr("bad argument offsets (cu_seqlens)"));
}

}  // namespace
}  // namespace longhaul::kernels::linear_recurrence_test
