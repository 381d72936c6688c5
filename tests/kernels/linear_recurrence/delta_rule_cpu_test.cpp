// Our CPU form of delta_rule against the reference in fp64, and what must hold between its ways of running.
// ctest: label=fast timeout=120
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/gemm/block.h"
#include "kernels/linear_recurrence/delta_rule_cases.h"
#include "support/threads.h"

namespace longhaul::kernels::delta_rule_test {
namespace {

using longhaul::testing::PoisonFreshMemory;
using longhaul::testing::relative_error;

// reasons in cases.toml
constexpr std::pair<at::ScalarType, double> kDeltaTypes[] = {{at::kFloat, 2e-5}, {at::kBFloat16, 8e-3}};

std::vector<Tensor> evaluated_by_cpu(const DeltaRuleInputs& in) {
  const DeltaForced forced("cpu");
  return delta_evaluated(in, delta_rule);
}

class DeltaRuleCpuCases : public ::testing::TestWithParam<DeltaCase> {};

TEST_P(DeltaRuleCpuCases, EqualTheReference) {
  const PoisonFreshMemory poison;
  for (const auto& [type, tolerance] : kDeltaTypes) {
    const DeltaRuleInputs in = delta_inputs(GetParam(), type);
    const auto found = delta_evaluated(in, delta_rule);
    EXPECT_EQ(Dispatcher::last("delta_rule").chosen, "cpu");
    expect_near(found, delta_evaluated(in_fp64(in), delta_rule_reference), tolerance);
  }
}

TEST_P(DeltaRuleCpuCases, GiveTheSameBitsForAllThreads) {
  const PoisonFreshMemory poison;
  for (const auto& [type, tolerance] : kDeltaTypes) {
    const DeltaRuleInputs in = delta_inputs(GetParam(), type);
    longhaul::testing::expect_same_for_all_threads([&] { return evaluated_by_cpu(in); });
  }
}

// To the bit, gradients included: a document does not see what is packed beside it.
TEST_P(DeltaRuleCpuCases, PackedDocumentsEqualOneAtATime) {
  const DeltaCase& c = GetParam();
  const DeltaRuleInputs in = delta_inputs(c, at::kBFloat16);
  const Tensor o_weight = random_tensor({c.tokens(), c.heads, c.value}, 21),
               state_weight = random_tensor({c.documents(), c.heads, c.key, c.value}, 22);
  const auto evaluated = [&](DeltaRuleInputs part, int64_t begin, int64_t length, int64_t n,
                             int64_t documents) {
    for (Tensor* each : members(part)) *each = each->detach().clone().requires_grad_(true);
    const DeltaForced forced("cpu");
    const LinearRecurrenceResult result = delta_rule(part);
    (result.o_thd.to(at::kDouble).mul(o_weight.narrow(0, begin, length)).sum() +
     result.final_state_nhkv.to(at::kDouble).mul(state_weight.narrow(0, n, documents)).sum())
        .backward();
    std::vector<Tensor> all{result.o_thd.detach()};
    for (const Tensor* each : members(part)) {
      if (each != &part.initial_state_nhkv) all.push_back(each->grad());
    }
    all.insert(all.begin(), {result.final_state_nhkv.detach(), part.initial_state_nhkv.grad()});
    return all;
  };
  const auto packed = evaluated(in, 0, c.tokens(), 0, c.documents());
  for (int64_t n = 0; n < c.documents(); ++n) {
    const int64_t begin = c.offsets[static_cast<size_t>(n)],
                  length = c.offsets[static_cast<size_t>(n) + 1] - begin;
    DeltaRuleInputs alone = in;
    for (Tensor* each : members(alone)) {
      *each = each == &alone.initial_state_nhkv ? each->narrow(0, n, 1) : each->narrow(0, begin, length);
    }
    alone.offsets = Tensor();
    const auto found = evaluated(alone, begin, length, n, 1);
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_TRUE(found[i].equal(i < 2 ? packed[i].narrow(0, n, 1) : packed[i].narrow(0, begin, length)))
          << n << " " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, DeltaRuleCpuCases, ::testing::ValuesIn(delta_cases()));

DeltaCase some_delta_case(const std::string& decay) {
  return {.name = decay,
          .decay = decay,
          .offsets = {0, 70, 71, 250},
          .key_heads = 2,
          .heads = 4,
          .key = 24,
          .value = 40,
          .steep = 1};
}

TEST(DeltaRuleCpu, EveryInstructionSetEqualsTheReference) {
  for (const std::string decay : {"none", "head", "channel"}) {
    const DeltaRuleInputs in = delta_inputs(some_delta_case(decay), at::kFloat);
    const auto expected = delta_evaluated(in_fp64(in), delta_rule_reference);
    for (const BlockKernels* kernels : usable_block_kernels()) {
      SCOPED_TRACE(kernels->name);
      force_block_kernels(kernels->name);
      expect_near(evaluated_by_cpu(in), expected, 2e-5);
    }
    force_block_kernels(std::nullopt);
  }
}

// Rows of a wider tensor, as a projection leaves them, and an output gradient that lies so too.
TEST(DeltaRuleCpu, TakesRowsWhereTheyLie) {
  const DeltaRuleInputs in = delta_inputs(some_delta_case("head"), at::kBFloat16);
  DeltaRuleInputs lying = in;
  for (Tensor* each : {&lying.q_tgk, &lying.k_tgk, &lying.v_thv}) {
    const Tensor x = *each;
    const Tensor wide = at::full({x.size(0), x.size(1) * x.size(2) + 9}, 7.0, x.options());
    *each = wide.narrow(1, 5, x.size(1) * x.size(2)).unflatten(1, {x.size(1), x.size(2)});
    each->copy_(x);
  }
  for (Tensor* each : {&lying.beta_th, &lying.log_decay}) {
    const Tensor turned = each->t().contiguous();
    *each = turned.t();
  }
  const DeltaForced forced("cpu");
  EXPECT_TRUE(delta_rule(lying).o_thd.equal(delta_rule(in).o_thd));
  const auto gradients = [&](DeltaRuleInputs x) {
    for (Tensor* each : members(x)) *each = each->detach().requires_grad_(true);
    const Tensor o = delta_rule(x).o_thd,
                 way = random_tensor({o.size(2), o.size(1), o.size(0)}, 8, at::kBFloat16);
    o.backward(way.permute({2, 1, 0}));
    std::vector<Tensor> all;
    for (const Tensor* each : members(x)) all.push_back(each->grad());
    return all;
  };
  const auto found = gradients(lying), expected = gradients(in);
  for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i].equal(expected[i])) << kMembers[i];
}

// A log_decay of −∞ is a decay of 0: what was there is gone, and no gradient becomes 0 · ∞.
TEST(DeltaRuleCpu, ADecayWithoutEndForgetsAtOnce) {
  for (const std::string decay : {"head", "channel"}) {
    DeltaRuleInputs in = delta_inputs(some_delta_case(decay), at::kFloat);
    in.log_decay = at::full_like(in.log_decay, -INFINITY);
    const auto found = evaluated_by_cpu(in);
    const Tensor own = (in.q_tgk * in.k_tgk).sum(2, true).repeat_interleave(2, 1) * in.scale *
                       in.beta_th.unsqueeze(2) * in.v_thv;
    EXPECT_LT(relative_error(found[0], own), 1e-6);
    for (size_t i = 2; i < found.size(); ++i)
      EXPECT_TRUE(found[i].isfinite().all().item<bool>()) << kMembers[i - 2];
    EXPECT_LT(found.back().abs().max().item<double>(), 1e-5);  // but for rounding
  }
}

// Decoding in fp32: long documents in chunks, short ones token by token; neither sees its neighbours.
TEST(DeltaRuleCpu, ContinuedEqualsReference) {
  const DeltaCase c = some_delta_case("head");
  DeltaRuleInputs in = delta_inputs(c, at::kFloat);
  const LinearRecurrenceResult expected = delta_rule_reference(in_fp64(in));
  const Tensor states = in.initial_state_nhkv.clone();
  in.initial_state_nhkv = Tensor();
  const std::vector<int64_t> rows{0, 1, 2};
  const Tensor o = delta_rule_continued(in, {states, rows});
  EXPECT_EQ(Dispatcher::last("delta_rule").chosen, "cpu");
  EXPECT_LT(share(o, expected.o_thd), 2e-5);
  EXPECT_LT(share(states, expected.final_state_nhkv), 2e-5);
}

TEST(DeltaRuleCpu, LeavesOtherShapesToLibTorch) {
  const auto chosen = [](const DeltaCase& c, at::ScalarType type) {
    delta_rule(delta_inputs(c, type));
    return Dispatcher::last("delta_rule").chosen;
  };
  DeltaCase c = some_delta_case("head");
  EXPECT_EQ(chosen(c, at::kFloat), "cpu");
  EXPECT_EQ(chosen(c, at::kDouble), "aten");
  c.value = 1025;
  EXPECT_EQ(chosen(c, at::kFloat), "aten");
  c = some_delta_case("channel");
  c.key = 257;
  EXPECT_EQ(chosen(c, at::kFloat), "aten");
}

}  // namespace
}  // namespace longhaul::kernels::delta_rule_test
