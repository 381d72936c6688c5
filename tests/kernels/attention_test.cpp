#include "kernels/attention/op.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "kernels/documents.h"
#include "support/tensors.h"

namespace longhaul::kernels {
namespace {

using longhaul::testing::PoisonFreshMemory;
using longhaul::testing::random_tensor;
using longhaul::testing::relative_error;

struct Case {
  const char* name;
  std::vector<int64_t> offsets;
  int64_t heads, key_heads, channels, window;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const Case kCases[] = {
    {"tiny", {0, 5}, 2, 2, 4, 0},
    {"odd and empty documents", {0, 1, 1, 64, 129, 136}, 3, 3, 8, 0},
    {"grouped queries", {0, 70, 90}, 6, 2, 16, 0},
    {"a batch of equal sequences", {0, 48, 96, 144}, 4, 2, 32, 0},
    {"sliding window", {0, 30, 33}, 2, 1, 8, 5},
    {"window of one", {0, 12}, 1, 1, 4, 1},
};

struct Inputs {
  Tensor q, k, v;
};

Inputs inputs_of(const Case& c, at::ScalarType type = at::kDouble) {
  const int64_t tokens = c.offsets.back();
  return {random_tensor({tokens, c.heads, c.channels}, 1, type), random_tensor({tokens, c.key_heads, c.channels}, 2, type),
          random_tensor({tokens, c.key_heads, c.channels}, 3, type)};
}

// Softmax with an explicit mask, differentiated by LibTorch: independent of both implementations.
AttentionResult masked_softmax(const Case& c, const Inputs& in, double scale) {
  const int64_t group = c.heads / c.key_heads, tokens = c.offsets.back();
  const Tensor k = in.k.repeat_interleave(group, 1), v = in.v.repeat_interleave(group, 1);
  Tensor visible = at::zeros({tokens, tokens}, at::kBool);
  for (size_t n = 0; n + 1 < c.offsets.size(); ++n) {
    for (int64_t t = c.offsets[n]; t < c.offsets[n + 1]; ++t) {
      const int64_t first = c.window > 0 ? std::max(c.offsets[n], t - c.window + 1) : c.offsets[n];
      visible[t].narrow(0, first, t + 1 - first).fill_(true);
    }
  }
  const Tensor scores = at::einsum("thd,shd->hts", {in.q, k}).mul(scale).masked_fill(visible.logical_not(), -INFINITY);
  return {at::einsum("hts,shd->thd", {scores.softmax(2), v}), scores.logsumexp(2).transpose(0, 1)};
}

struct Evaluation {
  AttentionResult result;
  std::vector<Tensor> gradients;
};

template <class F>
Evaluation evaluate(const Inputs& values, const F& f, bool weigh_logsumexp) {
  Inputs in = values;
  for (Tensor* t : {&in.q, &in.k, &in.v}) *t = t->detach().clone().requires_grad_(true);
  Evaluation evaluation{f(in), {}};
  Tensor loss = evaluation.result.o_thd.to(at::kDouble).mul(random_tensor(evaluation.result.o_thd.sizes(), 21)).sum();
  if (weigh_logsumexp) loss = loss + evaluation.result.logsumexp_th.mul(random_tensor(evaluation.result.logsumexp_th.sizes(), 22)).sum();
  loss.backward();
  evaluation.gradients = {in.q.grad(), in.k.grad(), in.v.grad()};
  return evaluation;
}

void expect_same(const Evaluation& a, const Evaluation& b, double tolerance) {
  EXPECT_LT(relative_error(a.result.o_thd, b.result.o_thd), tolerance);
  EXPECT_LT(relative_error(a.result.logsumexp_th, b.result.logsumexp_th), tolerance);
  const char* names[] = {"dq", "dk", "dv"};
  for (size_t i = 0; i < 3; ++i) EXPECT_LT(relative_error(a.gradients[i], b.gradients[i]), tolerance) << names[i];
}

class AttentionCases : public ::testing::TestWithParam<Case> {};

TEST_P(AttentionCases, ReferenceEqualsMaskedSoftmax) {
  const Case& c = GetParam();
  const Inputs in = inputs_of(c);
  const auto offsets = offsets_tensor(c.offsets);
  const auto reference = evaluate(
      in, [&](const Inputs& x) { return attention_reference(x.q, x.k, x.v, offsets, {}, {.scale = 0.3, .window = c.window}); }, true);
  expect_same(reference, evaluate(in, [&](const Inputs& x) { return masked_softmax(c, x, 0.3); }, true), 1e-9);
}

TEST_P(AttentionCases, FastEqualsReference) {
  const PoisonFreshMemory poison;
  const Case& c = GetParam();
  const auto offsets = offsets_tensor(c.offsets);
  // bf16: both round inputs and outputs to 8 bits, and the fused kernel its probabilities as well.
  const std::pair<at::ScalarType, double> types[] = {{at::kDouble, 1e-9}, {at::kFloat, 2e-5}, {at::kBFloat16, 3e-2}};
  for (const auto& [type, tolerance] : types) {
    const Inputs in = inputs_of(c, type);
    const AttentionOptions options{.scale = 0.3, .window = c.window};
    const auto fast = evaluate(in, [&](const Inputs& x) { return attention(x.q, x.k, x.v, offsets, {}, options); }, false);
    EXPECT_EQ(Dispatcher::last("attention").chosen, c.window > 0 ? "reference" : "sdpa");
    const auto reference = evaluate(in, [&](const Inputs& x) { return attention_reference(x.q, x.k, x.v, offsets, {}, options); }, false);
    expect_same(fast, reference, tolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, AttentionCases, ::testing::ValuesIn(kCases));

TEST(Attention, DecodingSeesAllEarlierKeys) {
  const Case c{"decode", {0, 20}, 4, 2, 8, 0};
  const Inputs in = inputs_of(c);
  const auto whole = attention(in.q, in.k, in.v, {}, {}, {.scale = 0.3});
  const auto last = attention(in.q.narrow(0, 17, 3), in.k, in.v, at::tensor({0, 3}, at::kLong), at::tensor({0, 20}, at::kLong), {.scale = 0.3});
  EXPECT_LT(relative_error(last.o_thd, whole.o_thd.narrow(0, 17, 3)), 1e-12);
}

TEST(Attention, RowsWithoutKeysGiveZeroAndMinusInfinity) {
  const Tensor q = random_tensor({3, 2, 4}, 1), k = at::zeros({1, 2, 4}, at::kDouble);
  const auto result = attention(q, k, k + 1, at::tensor({0, 3}, at::kLong), at::tensor({0, 1}, at::kLong), {});
  EXPECT_EQ(result.o_thd.narrow(0, 0, 2).abs().max().item<double>(), 0);
  EXPECT_EQ(result.logsumexp_th[0][0].item<double>(), -INFINITY);
  EXPECT_EQ(result.o_thd[2][0][0].item<double>(), 1);
}

TEST(Attention, SplitKeysMergeByLogSumExp) {
  const Case c{"merge", {0, 24}, 2, 2, 8, 0};
  const Inputs in = inputs_of(c);
  const auto query = in.q.narrow(0, 23, 1);
  const auto one = at::tensor({0, 1}, at::kLong);
  const auto part = [&](int64_t begin, int64_t length) {
    return attention(query, in.k.narrow(0, begin, length), in.v.narrow(0, begin, length), one, at::tensor({int64_t{0}, length}, at::kLong), {});
  };
  const auto whole = part(0, 24), left = part(0, 9), right = part(9, 15);
  const Tensor lse = at::logaddexp(left.logsumexp_th, right.logsumexp_th);
  const Tensor merged = left.o_thd * (left.logsumexp_th - lse).exp().unsqueeze(2) + right.o_thd * (right.logsumexp_th - lse).exp().unsqueeze(2);
  EXPECT_LT(relative_error(lse, whole.logsumexp_th), 1e-12);
  EXPECT_LT(relative_error(merged, whole.o_thd), 1e-12);
}

TEST(Attention, GradientsMatchFiniteDifferences) {
  const Case c{"gradients", {0, 6, 9}, 2, 1, 4, 0};
  const Inputs in = inputs_of(c);
  longhaul::testing::check_gradients(
      [&](const std::vector<Tensor>& x) {
        const auto result = attention(x[0], x[1], x[2], offsets_tensor(c.offsets), {}, {.scale = 0.4});
        return result.o_thd.mul(random_tensor(result.o_thd.sizes(), 9)).sum() + result.logsumexp_th.pow(2).sum();
      },
      {in.q, in.k, in.v});
}

TEST(Attention, RefusesBadArgumentsByName) {
  const Tensor q = at::zeros({4, 4, 8});
  EXPECT_THROW(attention(q, at::zeros({4, 3, 8}), at::zeros({4, 3, 8}), {}, {}, {}), Error);
  EXPECT_THROW(attention(q, at::zeros({4, 2, 7}), at::zeros({4, 2, 7}), {}, {}, {}), Error);
  EXPECT_THROW(attention(q, at::zeros({4, 2, 8}), at::zeros({5, 2, 8}), {}, {}, {}), Error);
  EXPECT_THROW(attention(q, at::zeros({5, 2, 8}), at::zeros({5, 2, 8}), {}, {}, {}), Error);
}

}  // namespace
}  // namespace longhaul::kernels
