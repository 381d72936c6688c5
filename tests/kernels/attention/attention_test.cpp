// The operator against its reference over cases.toml, forward and backward, for every instruction set this
// machine has. ctest: timeout=120
#include "kernels/attention/op.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "kernels/attention/attention_cases.h"
#include "kernels/documents.h"
#include "kernels/gemm/block.h"
#include "kernels/saved/recomputed.h"
#include "support/refused.h"
#include "support/threads.h"

namespace longhaul::kernels::attention_test {
namespace {

using namespace longhaul::testing;
using longhaul::testing::AttentionCase;

// Softmax with an explicit mask, differentiated by LibTorch: independent of all implementations.
AttentionResult masked_softmax(const AttentionCase& c, const AttentionInputs& in, double scale) {
  const int64_t group = c.heads / c.key_heads;
  const Tensor k = in.k.repeat_interleave(group, 1), v = in.v.repeat_interleave(group, 1);
  Tensor visible = at::zeros({c.offsets.back(), c.key_offsets.back()}, at::kBool);
  for (size_t n = 0; n + 1 < c.offsets.size(); ++n) {
    const int64_t queries = c.offsets[n + 1] - c.offsets[n], keys = c.key_offsets[n + 1] - c.key_offsets[n];
    for (int64_t i = 0; i < queries; ++i) {
      const int64_t own = i + keys - queries,
                    first = c.window > 0 ? std::max<int64_t>(0, own - c.window + 1) : 0;
      const int64_t last = c.causal ? own : c.window > 0 ? std::min(keys - 1, own + c.window - 1) : keys - 1;
      if (last >= first)
        visible[c.offsets[n] + i].narrow(0, c.key_offsets[n] + first, last + 1 - first).fill_(true);
    }
  }
  // A finite stand-in for −∞ keeps LibTorch's gradients of rows that see nothing finite; the mask makes them
  // 0.
  const Tensor scores =
      at::einsum("thd,shd->hts", {in.q, k}).mul(scale).masked_fill(visible.logical_not(), -1e200);
  const Tensor sees = visible.any(1), none = at::full({}, -INFINITY, scores.options());
  return {at::einsum("hts,shd->thd", {scores.softmax(2) * visible, v}),
          at::where(sees, scores.logsumexp(2), none).transpose(0, 1)};
}

class AttentionCases : public ::testing::TestWithParam<AttentionCase> {};

TEST_P(AttentionCases, ReferenceEqualsMaskedSoftmax) {
  const AttentionCase& c = GetParam();
  if (c.offsets.back() > 1000)
    GTEST_SKIP() << "the mask would be large; the fast one is compared with the reference";
  const AttentionInputs in = inputs_of(c);
  const auto reference =
      evaluate(in, [&](const AttentionInputs& x) { return c.call(attention_reference, x, 0.3); });
  expect_same(reference, evaluate(in, [&](const AttentionInputs& x) { return masked_softmax(c, x, 0.3); }),
              1e-9);
}

TEST_P(AttentionCases, CpuEqualsReference) {
  const PoisonFreshMemory poison;
  const AttentionCase& c = GetParam();
  for (const auto& [type, tolerance] : kFastTolerances) {
    const AttentionInputs in = inputs_of(c, type);
    const auto reference = evaluate(
        in.to(at::kDouble), [&](const AttentionInputs& x) { return c.call(attention_reference, x, 0.3); });
    for (const BlockKernels* set : usable_block_kernels()) {
      SCOPED_TRACE(std::string(set->name) + " " + std::string(name_of(type)));
      force_block_kernels(set->name);
      expect_same(evaluate(in, [&](const AttentionInputs& x) { return c.call(attention, x, 0.3); }),
                  reference, tolerance);
      EXPECT_EQ(Dispatcher::last("attention").chosen, "cpu");
    }
    force_block_kernels(std::nullopt);
  }
}

TEST_P(AttentionCases, DoesNotDependOnThreads) {
  const AttentionCase& c = GetParam();
  for (const ScalarType type : {at::kFloat, at::kBFloat16}) {
    const AttentionInputs in = inputs_of(c, type);
    expect_same_for_all_threads([&] {
      const auto all = evaluate(in, [&](const AttentionInputs& x) { return c.call(attention, x, 0.3); });
      return std::vector<Tensor>{all.result.o_thd, all.result.logsumexp_th, all.gradients[0],
                                 all.gradients[1], all.gradients[2]};
    });
  }
}

// q, k and v as a model has them: narrow()s of one product.
TEST_P(AttentionCases, ViewsOfOneTensorGiveTheSameBits) {
  const AttentionCase& c = GetParam();
  if (c.offsets != c.key_offsets || c.key != c.value) GTEST_SKIP() << "they do not fit one tensor";
  const AttentionInputs in = inputs_of(c, at::kBFloat16);
  const AttentionInputs views = in.in_one_tensor();
  const auto of = [&](const AttentionInputs& x) {
    return evaluate(
        x, [&](const AttentionInputs& y) { return c.call(attention, y, 0.3); }, false);
  };
  const auto plain = of(in), strided = of(views);
  EXPECT_EQ(Dispatcher::last("attention").chosen, "cpu");
  EXPECT_TRUE(strided.result.o_thd.equal(plain.result.o_thd));
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(strided.gradients[i].equal(plain.gradients[i])) << i;
}

INSTANTIATE_TEST_SUITE_P(Cases, AttentionCases, ::testing::ValuesIn(attention_cases()));

TEST(Attention, GradientsMatchFiniteDifferences) {
  for (const auto& [implementation, fewer_keys] :
       {std::pair{"aten", false}, {"aten", true}, {"reference", false}, {"reference", true}}) {
    const AttentionCase c{.name = "gradients",
                          .offsets = {0, 6, 9},
                          .key_offsets = {0, 6, fewer_keys ? 8 : 9},
                          .heads = 2,
                          .key_heads = 1,
                          .key = 4,
                          .value = 3,
                          .window = 4};
    const AttentionInputs in = inputs_of(c);
    Dispatcher::force("attention", implementation);
    check_gradients(
        [&](const std::vector<Tensor>& x) {
          const auto result = c.call(attention, {x[0], x[1], x[2]}, 0.4);
          const Tensor finite = at::where(result.logsumexp_th.isinf(), at::zeros_like(result.logsumexp_th),
                                          result.logsumexp_th);
          return result.o_thd.mul(random_tensor(result.o_thd.sizes(), 9)).sum() + finite.pow(2).sum();
        },
        {in.q, in.k, in.v});
    Dispatcher::force("attention", std::nullopt);
  }
}

TEST(Attention, SaysWhoAnswersAndWhyOthersDoNot) {
  const auto chosen = [](const Tensor& q, const Tensor& k, const Tensor& v,
                         const AttentionOptions& options = {}) {
    attention(q, k, v, {}, {}, options);
    std::string text = Dispatcher::last("attention").chosen;
    for (const auto& [name, reason] : Dispatcher::last("attention").refusals) {
      if (name == "flash" || name == "cuda")
        EXPECT_EQ(reason, "the tensors are not on a GPU");
      else if (name == "meta")
        EXPECT_EQ(reason, "the tensors hold data");
      else
        text += "; " + name + ": " + reason;
    }
    return text;
  };
  const Tensor x = random_tensor({4, 2, 8}, 1), f = x.to(at::kFloat);
  EXPECT_EQ(chosen(f, f, f), "cpu");
  EXPECT_EQ(chosen(f.to(at::kBFloat16), f.to(at::kBFloat16), f.to(at::kBFloat16)), "cpu");
  EXPECT_EQ(chosen(x, x, x), "aten; cpu: it takes bf16 and fp32");
  EXPECT_EQ(chosen(f.transpose(1, 2).contiguous().transpose(1, 2), f, f),
            "aten; cpu: channels are not contiguous");
  EXPECT_EQ(chosen(f, f, f, {.scale = -1}), "aten; cpu: the scale is not positive");
}

// A part that is made again has other queries, and gets what the first ones gave: nothing is multiplied a
// second time.
TEST(Attention, APartThatIsMadeAgainFindsItsResult) {
  const Tensor q = random_tensor({9, 4, 8}, 1).to(at::kFloat).requires_grad_(),
               k = random_tensor({9, 2, 8}, 2).to(at::kFloat), v = random_tensor({9, 2, 8}, 3).to(at::kFloat);
  const AttentionResult expected = attention(q.detach(), k, v, {}, {}, {.scale = 0.3});
  std::vector<Tensor> again;
  const auto results =
      recomputed("part", {.inputs = {q},
                          .kept = {q},
                          .run = [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
                            return {attention(in[0], k, v, {}, {}, {.scale = 0.3}).o_thd};
                          },
                          .inputs_again = [](const std::vector<Tensor>& kept) { return kept; },
                          .run_again = [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
                            const AttentionResult second = attention(in[0] + 1, k, v, {}, {}, {.scale = 0.3});
                            again = {second.o_thd.detach(), second.logsumexp_th.detach()};
                            return {second.o_thd};
                          }});
  EXPECT_TRUE(results[0].equal(expected.o_thd));
  results[0].sum().backward();
  ASSERT_EQ(again.size(), 2u);
  EXPECT_TRUE(again[0].equal(expected.o_thd));
  EXPECT_TRUE(again[1].equal(expected.logsumexp_th));
}

TEST(Attention, RefusesBadArgumentsByName) {
  const auto refused = [](const Tensor& q, const Tensor& k, const Tensor& v,
                          const AttentionOptions& options = {}, const Tensor& offsets = {},
                          const Tensor& key_offsets = {}) {
    return longhaul::testing::refused([&] { attention(q, k, v, offsets, key_offsets, options); });
  };
  using ::testing::HasSubstr;
  const Tensor q = at::zeros({4, 4, 8}), k = at::zeros({4, 2, 8});
  EXPECT_THAT(refused(at::zeros({4, 8}), k, k), HasSubstr("bad argument q"));
  EXPECT_THAT(refused(q, at::zeros({4, 3, 8}), at::zeros({4, 3, 8})), HasSubstr("bad argument k"));
  EXPECT_THAT(refused(q, at::zeros({4, 2, 7}), at::zeros({4, 2, 7})), HasSubstr("bad argument k"));
  EXPECT_THAT(refused(q, k.to(at::kDouble), k), HasSubstr("bad argument k"));
  EXPECT_THAT(refused(q, k, at::zeros({5, 2, 8})), HasSubstr("bad argument v"));
  EXPECT_THAT(refused(at::zeros({5, 2, 8}), k, k), HasSubstr("bad argument k"));
  EXPECT_THAT(refused(q, k, k, {.window = -1}), HasSubstr("bad argument window"));
  EXPECT_THAT(refused(q, k, k, {}, at::tensor({0, 3}, at::kLong)),
              HasSubstr("bad argument offsets (cu_seqlens)"));
  EXPECT_THAT(refused(q, k, k, {}, {}, at::tensor({0, 1, 4}, at::kLong)),
              HasSubstr("bad argument key_offsets"));
}

}  // namespace
}  // namespace longhaul::kernels::attention_test
