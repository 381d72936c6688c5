// Attention by LibTorch's flash attention (kernels/attention/flash.h), whose calls support/cuda_emulation
// computes in fp64 and refuses as LibTorch does: every kind of visibility against an explicit mask, forward
// and backward, and what it leaves to other implementations. ctest: label=fast timeout=120
#include "kernels/attention/flash.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <set>

#include "kernels/attention/visible_cases.h"
#include "on_emulated_gpu.h"

namespace longhaul::kernels::flash_attention_test {
namespace {

using namespace longhaul::testing;

constexpr double kScale = 0.3;
constexpr auto kHalfPrecision = at::kBFloat16;
// See cases.toml. Of sums in fp32 as well: each part is rounded to bf16 first.
constexpr double kTolerance = 1.5e-2;

std::string chosen(const char* op) { return Dispatcher::last(op).chosen; }

class FlashAttention : public ::testing::TestWithParam<AttentionCase> {};

TEST_P(FlashAttention, EqualsReference) {
  const AttentionCase& c = GetParam();
  const AttentionInputs in = longhaul::testing::inputs_of(c, kHalfPrecision);
  for (const bool weigh_logsumexp : {false, true}) {
    const AttentionEvaluation expected = longhaul::testing::evaluate(
        in.to(at::kDouble), [&](const AttentionInputs& x) { return c.call(attention_reference, x, kScale); },
        weigh_logsumexp);
    const OnEmulatedGpu gpu;
    const bool in_one = c.offsets == c.key_offsets && c.key == c.value;
    const AttentionEvaluation found = longhaul::testing::evaluate(
        in_one ? in.in_one_tensor() : in,
        [&](const AttentionInputs& x) { return c.call(attention, x, kScale); }, weigh_logsumexp);
    longhaul::testing::expect_same(found, expected, kTolerance);
    EXPECT_EQ(chosen("attention"), "flash");
    // Flash makes δ from o alone, so the gradient of a log-sum-exp is other implementations'.
    if (weigh_logsumexp)
      EXPECT_NE(chosen("attention_backward"), "flash");
    else
      EXPECT_EQ(chosen("attention_backward"), "flash");
    EXPECT_FALSE(at::globalContext().deterministicAlgorithms());
  }
}

// Heads in eights, as many channels of values as of keys; few enough keys for the emulated kernels, which get
// the gradients of log-sum-exps.
std::vector<AttentionCase> flash_cases() {
  std::vector<AttentionCase> cases = attention_cases();
  std::erase_if(cases, [](const AttentionCase& c) {
    return c.key % 8 != 0 || c.key != c.value || c.key_offsets.back() > 600;
  });
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Cases, FlashAttention, ::testing::ValuesIn(flash_cases()));

std::vector<VisibleCase> cases_of_limits() {
  std::vector<VisibleCase> cases = visible_cases();
  const VisibleCase more[] = {
      {"queries that see some later keys", {{{0, 100, 0, 140, 60}}}, 100, 140},
      {"a window, ahead", {{{0, 100, 0, 140, 60}, {100, 60, 140, 90, 50}}, true, 45}, 160, 230},
      {"rows that see nothing", {{{0, 70, 0, 40, -30}, {70, 9, 40, 9, 0}}}, 79, 49},
      {"documents of different places", {{{0, 80, 0, 90, 20}, {80, 30, 90, 30, 0}}}, 110, 120},
      {"one document before, one at its place", {{{0, 20, 0, 30, 30}, {20, 40, 30, 40, 0}}}, 60, 70},
      // What limits the second would hide keys from the first.
      {"a limit that another needs wider", {{{0, 50, 0, 60, 60}, {50, 40, 60, 42, 9}}}, 90, 102}};
  cases.insert(cases.end(), std::begin(more), std::end(more));
  return cases;
}

// The last two have limits: 7 ahead of the last key's place would hide keys from the first of them.
const std::set<std::string> kLeftToOthers = {"window on both sides, shifted",
                                             "keys behind some queries",
                                             "keys behind all queries",
                                             "window that has passed the keys",
                                             "prefix",
                                             "prefix that later chunks of queries see",
                                             "prefix and window",
                                             "prefix, window on both sides",
                                             "one query",
                                             "rows of no document",
                                             "several pieces of keys",
                                             "documents of different places",
                                             "one document before, one at its place",
                                             "a limit that another needs wider"};

class FlashVisibility : public ::testing::TestWithParam<VisibleCase> {};

TEST_P(FlashVisibility, EqualsTheMask) {
  const VisibleCase& c = GetParam();
  AttentionCase sizes{.heads = 4, .key_heads = 2, .key = 24, .value = 24};
  sizes.offsets = {0, c.queries};
  sizes.key_offsets = {0, c.keys};
  const AttentionInputs in = longhaul::testing::inputs_of(sizes, kHalfPrecision);
  const Tensor d_o = random_tensor({c.queries, 4, 24}, 7, kHalfPrecision);
  const Evaluated expected =
      by_mask(in, mask_of(c.visible, c.queries, c.keys), kScale, d_o, at::zeros({c.queries, 4}));
  const OnEmulatedGpu gpu;
  const AttentionProblem problem{in.q, in.k, in.v, c.visible, kScale};
  for (const bool wide : {false, true}) {
    const AttentionResult result = attention_forward(problem, wide);
    EXPECT_EQ(chosen("attention") == "flash", !kLeftToOthers.contains(c.name)) << chosen("attention");
    EXPECT_EQ(result.o_thd.scalar_type(), wide ? at::kFloat : kHalfPrecision);
    expect_near(result.o_thd, expected.result.o_thd, kTolerance, "o");
    expect_near(result.logsumexp_th, expected.result.logsumexp_th, kTolerance, "logsumexp");
  }
  const AttentionResult result = attention_forward(problem);
  const auto sums = [](const Tensor& x) { return at::full(x.sizes(), 3.0, at::kFloat); };
  const AttentionGradients into{sums(in.q), sums(in.k), sums(in.v)};
  attention_backward(
      problem, {d_o, result.logsumexp_th, attention_delta(result.o_thd, d_o, Tensor()), result.o_thd}, into);
  if (!kLeftToOthers.contains(c.name)) {
    EXPECT_EQ(chosen("attention_backward"), "flash");
  }
  expect_near(into.q_thd, expected.gradients.q_thd.add(3), kTolerance, "dq");
  expect_near(into.k_shd, expected.gradients.k_shd.add(3), kTolerance, "dk");
  expect_near(into.v_shd, expected.gradients.v_shd.add(3), kTolerance, "dv");
}
INSTANTIATE_TEST_SUITE_P(Cases, FlashVisibility, ::testing::ValuesIn(cases_of_limits()),
                         [](const auto& tested) {
                           std::string name = tested.param.name;
                           std::ranges::replace_if(
                               name, [](char c) { return !std::isalnum(c); }, '_');
                           return name;
                         });

// The keys of one document in two parts, as ranks of a ring hold them: o of both parts goes with each.
TEST(FlashRing, PartsOfKeysAddUp) {
  const int64_t tokens = 96, half = 48;
  AttentionCase sizes{.heads = 4, .key_heads = 2, .key = 16, .value = 16};
  sizes.offsets = sizes.key_offsets = {0, tokens};
  const AttentionInputs in = longhaul::testing::inputs_of(sizes, kHalfPrecision);
  const Tensor d_o = random_tensor({tokens, 4, 16}, 7, kHalfPrecision);
  const Visibility all{{{0, tokens, 0, tokens}}};
  const Evaluated expected = by_mask(in, mask_of(all, tokens, tokens), kScale, d_o, at::zeros({tokens, 4}));
  const OnEmulatedGpu gpu;
  const auto part_of = [&](int64_t first) {
    return AttentionProblem{in.q.narrow(0, half, half), in.k.narrow(0, first, half),
                            in.v.narrow(0, first, half), all.pair({half, tokens}, {first, first + half}),
                            kScale};
  };
  const AttentionResult sum = attention_forward(part_of(0), true);
  merge_attention(sum, attention_forward(part_of(half), true));
  EXPECT_EQ(chosen("attention"), "flash");
  expect_near(sum.o_thd, expected.result.o_thd.narrow(0, half, half), kTolerance, "o");
  const Tensor own = d_o.narrow(0, half, half), o = sum.o_thd.to(kHalfPrecision),
               dq = at::zeros({half, 4, 16}, at::kFloat);
  for (const int64_t first : {int64_t{0}, half}) {
    const AttentionGradients into{dq, at::zeros({half, 2, 16}, at::kFloat),
                                  at::zeros({half, 2, 16}, at::kFloat)};
    attention_backward(part_of(first), {own, sum.logsumexp_th, attention_delta(o, own, Tensor()), o}, into);
    EXPECT_EQ(chosen("attention_backward"), "flash");
    // Of the later half all queries that see it are here.
    if (first == half) {
      expect_near(into.k_shd, expected.gradients.k_shd.narrow(0, half, half), kTolerance, "dk");
      expect_near(into.v_shd, expected.gradients.v_shd.narrow(0, half, half), kTolerance, "dv");
    }
  }
  expect_near(dq, expected.gradients.q_thd.narrow(0, half, half), kTolerance, "dq");
}

TEST(FlashRefuses, WhatLibTorchWouldNotTake) {
  const OnEmulatedGpu gpu;
  const auto refused = [](int64_t keys, int64_t values, at::ScalarType type, int64_t tokens = 4) {
    const Tensor k = at::empty({1, 1, keys}, type).expand({tokens, 1, keys}),
                 v = at::empty({1, 1, values}, type).expand({tokens, 1, values});
    const Visibility all{{{0, tokens, 0, tokens}}};
    const AttentionProblem problem{k, k, v, all, 1};
    const Refusal forward = refuse_attention_flash(problem);
    return std::string(
        (forward.empty() ? refuse_attention_backward_flash(problem, {v, v, v, v}) : forward).reason());
  };
  EXPECT_EQ(refused(64, 64, kHalfPrecision), "");
  EXPECT_EQ(refused(64, 64, at::kFloat), "it computes in bf16");
  EXPECT_EQ(refused(192, 128, kHalfPrecision), "it takes as many channels of values as of keys");
  EXPECT_EQ(refused(20, 20, kHalfPrecision), "it takes heads of 8 to 256 channels, in eights");
  EXPECT_EQ(refused(264, 264, kHalfPrecision), "it takes heads of 8 to 256 channels, in eights");
  EXPECT_EQ(refused(64, 64, kHalfPrecision, 0), "there are no queries or no keys");
  // 160 sums of 32,768 rows of 128 channels are 2.5 GiB, of half as many rows 1.25.
  EXPECT_EQ(refused(128, 128, kHalfPrecision, 32768), "its sums in one order would take more than 2 GiB");
  EXPECT_EQ(refused(128, 128, kHalfPrecision, 16384), "");
  emulate_cuda(false);
  EXPECT_EQ(refused(64, 64, kHalfPrecision), "the tensors are not on a GPU");
}

// Rows of other lengths than 16 bytes are copied; what can be read where it lies is not.
TEST(FlashReads, RowsWhereTheyLie) {
  const OnEmulatedGpu gpu;
  const Visibility all{{{0, 9, 0, 9}}};
  for (const int64_t skipped : {0, 3, 8}) {  // channels before a head's own
    const Tensor wide = random_tensor({9, 2, 32}, 4, kHalfPrecision), q = wide.narrow(2, skipped, 16);
    const AttentionResult found = attention_forward({q, q, q, all, kScale}),
                          expected = attention_forward(
                              {q.contiguous(), q.contiguous(), q.contiguous(), all, kScale});
    EXPECT_TRUE(found.o_thd.equal(expected.o_thd)) << skipped;
  }
}

}  // namespace
}  // namespace longhaul::kernels::flash_attention_test
