// What must hold of attention whatever implements it, and the vector code below it.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/attention/attention_cases.h"
#include "kernels/attention/cpu.h"
#include "kernels/attention/vectors.h"
#include "kernels/gemm/block.h"
#include "tensor/to_tensor.h"

namespace longhaul::kernels::attention_identities_test {
namespace {

using namespace longhaul::testing;
using at::ScalarType;

struct Precision {
  ScalarType type;
  double tolerance;
};
class AttentionIdentities : public ::testing::TestWithParam<Precision> {
 protected:
  ScalarType type() const { return GetParam().type; }
  double tolerance() const { return GetParam().tolerance; }
};

Tensor merged(const AttentionResult& a, const AttentionResult& b, Tensor& lse) {
  lse = at::logaddexp(a.logsumexp_th, b.logsumexp_th);
  const auto weighed = [&](const AttentionResult& part) {
    return part.o_thd.to(lse.scalar_type()) * (part.logsumexp_th - lse).exp().unsqueeze(2);
  };
  return weighed(a) + weighed(b);
}

// Context parallelism in small: the keys in two parts, each with its own log-sum-exp, whose gradients flow
// back through the merge. The first 100 keys lie before all queries; the other 60 are the queries' own.
TEST_P(AttentionIdentities, SplitKeysMergeToTheWhole) {
  const AttentionCase c{.name = "merge",
                        .offsets = {0, 60},
                        .key_offsets = {0, 160},
                        .heads = 4,
                        .key_heads = 2,
                        .key = 16,
                        .value = 8};
  const AttentionInputs in = inputs_of(c, type());
  const auto whole = evaluate(in, [&](const AttentionInputs& x) { return c.call(attention, x, 0.3); });
  const auto split = evaluate(in, [&](const AttentionInputs& x) {
    // 59 further keys make the last query see 100 + 59; a window that ends before them is not to be had, so
    // let each query see exactly the first 100 keys by giving every query a document of its own over the same
    // keys.
    std::vector<int64_t> one_each, keys_each;
    for (int64_t i = 0; i <= 60; ++i) {
      one_each.push_back(i);
      keys_each.push_back(100 * i);
    }
    const auto repeated = [&](const Tensor& keys) { return keys.narrow(0, 0, 100).repeat({60, 1, 1}); };
    const auto early = attention(x.q, repeated(x.k), repeated(x.v), to_tensor(one_each), to_tensor(keys_each),
                                 {.scale = 0.3});
    const auto own = attention(x.q, x.k.narrow(0, 100, 60), x.v.narrow(0, 100, 60), {}, {}, {.scale = 0.3});
    Tensor lse;
    const Tensor o = merged(early, own, lse);
    return AttentionResult{o, lse};
  });
  expect_same(split, whole, tolerance());
}

TEST_P(AttentionIdentities, PackedIsOneAtATime) {
  const std::vector<int64_t> lengths = {70, 1, 0, 200, 3, 64};
  AttentionCase packed{.name = "packed", .heads = 4, .key_heads = 2, .key = 16, .value = 16, .window = 90};
  for (const int64_t length : lengths) packed.offsets.push_back(packed.offsets.back() + length);
  packed.key_offsets = packed.offsets;
  const AttentionInputs in = inputs_of(packed, type());
  const auto of = [](const AttentionCase& c, const AttentionInputs& x) {
    AttentionInputs leaves{x.q.detach().clone().requires_grad_(), x.k.detach().clone().requires_grad_(),
                           x.v.detach().clone().requires_grad_()};
    const auto result = c.call(attention, leaves, 0.3);
    if (result.o_thd.numel() > 0) result.o_thd.backward(result.o_thd.detach());
    return std::vector<Tensor>{result.o_thd.detach(), leaves.q.grad(), leaves.k.grad(), leaves.v.grad()};
  };
  const auto together = of(packed, in);
  for (size_t n = 0; n < lengths.size(); ++n) {
    if (lengths[n] == 0) continue;
    AttentionCase one = packed;
    one.offsets = one.key_offsets = {0, lengths[n]};
    const auto part = [&](const Tensor& x) { return x.narrow(0, packed.offsets[n], lengths[n]); };
    const auto alone = of(one, {part(in.q), part(in.k), part(in.v)});
    for (size_t i = 0; i < alone.size(); ++i)
      EXPECT_TRUE(part(together[i]).equal(alone[i])) << "document " << n << " tensor " << i;
  }
}

TEST_P(AttentionIdentities, GroupedHeadsAreRepeatedHeads) {
  const AttentionCase grouped{.name = "grouped",
                              .offsets = {0, 100},
                              .key_offsets = {0, 100},
                              .heads = 6,
                              .key_heads = 2,
                              .key = 16,
                              .value = 16};
  const AttentionInputs in = inputs_of(grouped, type());
  const auto few = evaluate(in, [&](const AttentionInputs& x) { return grouped.call(attention, x, 0.3); });
  const auto many = evaluate(in, [&](const AttentionInputs& x) {
    return grouped.call(attention, {x.q, x.k.repeat_interleave(3, 1), x.v.repeat_interleave(3, 1)}, 0.3);
  });
  expect_same(few, many, tolerance());
}

TEST_P(AttentionIdentities, WindowAsLongAsTheDocumentIsNone) {
  const AttentionCase plain{.name = "plain",
                            .offsets = {0, 150},
                            .key_offsets = {0, 150},
                            .heads = 2,
                            .key_heads = 1,
                            .key = 16,
                            .value = 16};
  AttentionCase wide = plain;
  wide.window = 150;
  const AttentionInputs in = inputs_of(plain, type());
  expect_same(evaluate(in, [&](const AttentionInputs& x) { return wide.call(attention, x, 0.3); }),
              evaluate(in, [&](const AttentionInputs& x) { return plain.call(attention, x, 0.3); }), 1e-12);
}

// Prefill and decode of FlashAttention's contract: the last rows alone over all keys are the last rows of the
// whole.
TEST_P(AttentionIdentities, LastQueriesAloneSeeAllKeys) {
  const AttentionCase c{.name = "decode",
                        .offsets = {0, 300},
                        .key_offsets = {0, 300},
                        .heads = 4,
                        .key_heads = 2,
                        .key = 16,
                        .value = 8};
  const AttentionInputs in = inputs_of(c, type());
  for (const int64_t window : {0, 170}) {
    const auto whole = attention(in.q, in.k, in.v, {}, {}, {.scale = 0.3, .window = window});
    for (const int64_t count : {1, 2, 3, 20, 70}) {
      const auto last = attention(in.q.narrow(0, 300 - count, count), in.k, in.v,
                                  at::tensor({int64_t{0}, count}, at::kLong), at::tensor({0, 300}, at::kLong),
                                  {.scale = 0.3, .window = window});
      expect_near(last.o_thd, whole.o_thd.narrow(0, 300 - count, count), tolerance(), "o");
      expect_near(last.logsumexp_th, whole.logsumexp_th.narrow(0, 300 - count, count), tolerance(),
                  "logsumexp");
    }
  }
}

TEST_P(AttentionIdentities, RowsWithoutKeysGiveZeroAndMinusInfinity) {
  const Tensor q = random_tensor({3, 2, 4}, 1, type()).requires_grad_(),
               k = at::zeros({1, 2, 4}, type()).requires_grad_();
  const Tensor v = at::ones({1, 2, 4}, type()).requires_grad_();
  const auto result = attention(q, k, v, at::tensor({0, 3}, at::kLong), at::tensor({0, 1}, at::kLong), {});
  EXPECT_EQ(result.o_thd.narrow(0, 0, 2).abs().max().item<double>(), 0);
  EXPECT_TRUE(result.logsumexp_th.narrow(0, 0, 2).eq(-INFINITY).all().item<bool>());
  EXPECT_EQ(result.o_thd[2][0][0].item<double>(), 1);
  EXPECT_EQ(result.logsumexp_th[2][0].item<double>(), 0);
  result.o_thd.backward(at::ones_like(result.o_thd));
  EXPECT_EQ(q.grad().narrow(0, 0, 2).abs().max().item<double>(), 0);
  EXPECT_EQ(v.grad()[0][0][0].item<double>(), 1) << "only the last query's";
}

// Scores of ±200 and more: one key takes all, nothing overflows, and growth of the largest score is followed.
TEST_P(AttentionIdentities, LargeScoresStayFinite) {
  const AttentionCase c{.name = "large",
                        .offsets = {0, 300},
                        .key_offsets = {0, 300},
                        .heads = 2,
                        .key_heads = 2,
                        .key = 8,
                        .value = 8};
  AttentionInputs in = inputs_of(c, type());
  in.k = in.k * at::linspace(0, 10, 300, type()).view({300, 1, 1});  // later keys weigh ever more
  const auto fast = evaluate(in, [&](const AttentionInputs& x) { return c.call(attention, x, 10.0); });
  const auto exact = evaluate(in.to(at::kDouble),
                              [&](const AttentionInputs& x) { return c.call(attention_reference, x, 10.0); });
  // scores of 1e3 carry 1e3 times the rounding of scores of 1
  expect_near(fast.result.o_thd, exact.result.o_thd, 50 * tolerance(), "o");
  expect_near(fast.result.logsumexp_th, exact.result.logsumexp_th, tolerance(), "logsumexp");
  for (const Tensor& gradient : fast.gradients) EXPECT_TRUE(gradient.isfinite().all().item<bool>());
}

// A NaN is not lost, and reaches nobody who does not see it.
TEST_P(AttentionIdentities, NanReachesThoseWhoSeeItAndNoOtherDocument) {
  const AttentionCase c{.name = "nan",
                        .offsets = {0, 200, 300},
                        .key_offsets = {0, 200, 300},
                        .heads = 2,
                        .key_heads = 2,
                        .key = 16,
                        .value = 16};
  AttentionInputs in = inputs_of(c, type());
  in.k[130][1][3] = NAN;
  const auto result = c.call(attention, in, 0.3);
  const Tensor bad = result.o_thd.isnan().any(2);  // [T, H]
  EXPECT_FALSE(bad.select(1, 0).any().item<bool>()) << "the other head";
  EXPECT_FALSE(bad.narrow(0, 200, 100).any().item<bool>()) << "the other document";
  EXPECT_FALSE(bad.narrow(0, 0, 128).any().item<bool>()) << "queries of earlier tiles";
  EXPECT_TRUE(bad.select(1, 1).narrow(0, 130, 70).all().item<bool>()) << "queries that see it";
  EXPECT_TRUE(result.logsumexp_th.select(1, 1).narrow(0, 130, 70).isnan().all().item<bool>());
}

INSTANTIATE_TEST_SUITE_P(Types, AttentionIdentities,
                         ::testing::Values(Precision{at::kDouble, 1e-11}, Precision{at::kFloat, 2e-5},
                                           Precision{at::kBFloat16, 2e-2}),
                         [](const auto& p) { return std::string(c10::toString(p.param.type)); });

// Outputs with guard bands around every row.
TEST(AttentionCpu, WritesNothingButItsRows) {
  constexpr int64_t kTokens = 150, kHeads = 2, kChannels = 5, kBand = 3, kRow = kHeads * (kChannels + kBand);
  const Tensor q = random_tensor({kTokens, kHeads, kChannels}, 1, at::kFloat),
               k = random_tensor({kTokens, kHeads, kChannels}, 2, at::kFloat);
  const auto banded = [&] { return at::full({kTokens, kRow}, 7.0f); };
  const auto view = [&](const Tensor& x) {
    return ResultRows<float>{{x.mutable_data_ptr<float>(), kRow, kChannels + kBand}};
  };
  const auto in = [&](const Tensor& x) {
    return RowView<const float>{x.const_data_ptr<float>(), kHeads * kChannels, kChannels};
  };
  AttentionSizes sizes{{{{0, 80, 0, 80}, {80, 70, 80, 70}}}, kHeads, kHeads, kChannels, kChannels, 0.5};
  AttentionForward<float> forward{sizes, in(q), {in(k), in(k), {}, 0}, {}, {}};
  const Tensor o = banded(), lse = at::full({kTokens, kHeads}, 7.0f), d_q = banded(), d_k = banded(),
               d_v = banded();
  forward.o = view(o);
  forward.logsumexp = {lse.mutable_data_ptr<float>(), kHeads, 1};
  run_attention_forward(forward);
  const RowView<const float> const_lse{lse.const_data_ptr<float>(), kHeads, 1};  // and as delta
  AttentionBackward<float> backward{
      sizes, in(q), in(q), {in(k), in(k), {}, 0}, const_lse, const_lse, view(d_q), view(d_k), view(d_v)};
  run_attention_backward(backward);
  for (const Tensor& x : {o, d_q, d_k, d_v}) {
    const Tensor rows = x.view({kTokens, kHeads, kChannels + kBand});
    EXPECT_TRUE(rows.narrow(2, kChannels, kBand).eq(7).all().item<bool>());
    EXPECT_FALSE(rows.narrow(2, 0, kChannels).eq(7).any().item<bool>());
  }
}

TEST(AttentionVectors, ExponentialKeepsItsBound) {
  for (const BlockKernels* set : usable_block_kernels()) {
    force_block_kernels(set->name);
    const Tensor x =
        at::cat({at::linspace(-125.99, 127, 200003, at::kFloat), at::linspace(-1, 1, 200003, at::kFloat)});
    Tensor y = at::empty_like(x);
    attention_vectors().exp2(x.const_data_ptr<float>(), x.numel(), y.mutable_data_ptr<float>());
    const Tensor exact = x.to(at::kDouble).exp2();
    EXPECT_LT(((y.to(at::kDouble) - exact) / exact).abs().max().item<double>(), 2.5e-7) << set->name;
    const Tensor special = at::tensor({-INFINITY, -1e30f, -127.0f, 0.0f, 1.0f, NAN});
    Tensor of = at::empty_like(special);
    attention_vectors().exp2(special.const_data_ptr<float>(), special.numel(), of.mutable_data_ptr<float>());
    EXPECT_EQ(of[0].item<float>(), 0) << set->name;
    EXPECT_EQ(of[1].item<float>(), 0) << set->name;
    EXPECT_EQ(of[2].item<float>(), 0) << set->name;
    EXPECT_EQ(of[3].item<float>(), 1) << set->name;
    EXPECT_EQ(of[4].item<float>(), 2) << set->name;
    EXPECT_TRUE(std::isnan(of[5].item<float>())) << set->name;
  }
  force_block_kernels(std::nullopt);
}

// The set of vectors follows the products'.
TEST(AttentionVectors, GoWithTheBlockKernels) {
  force_block_kernels("portable");
  const std::string portable = attention_vectors().name;
  force_block_kernels(std::nullopt);
#ifdef __x86_64__
  EXPECT_EQ(portable, "SCALAR");
  if (std::string(block_kernels().name).starts_with("avx512")) {
    EXPECT_STREQ(attention_vectors().name, "AVX3");
  }
#endif
}

}  // namespace
}  // namespace longhaul::kernels::attention_identities_test
