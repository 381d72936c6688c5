// delta_rule by its "cuda" entry (kernels/delta_rule/cuda_call.cpp), forward, backward and decoding, where
// CPU tensors count as on a GPU and the kernels are emulated; beside the reference in fp64 on the same
// rounded inputs. Fresh memory is NaN. ctest: label=fast timeout=120
#include <gtest/gtest.h>

#include "kernels/linear_recurrence/delta_rule_cases.h"
#include "on_emulated_gpu.h"

namespace longhaul::kernels::delta_rule_test {
namespace {

class CudaCallsDeltaRule : public ::testing::TestWithParam<DeltaCase> {};

// The bounds of bench/gpu_check/delta_rule.cpp: 8e-3, and 1.2e-2 where writes turn over what they
// replace. Where each of 130 does so, all errors stay: 2.5e-2.
TEST_P(CudaCallsDeltaRule, EqualsReference) {
  const DeltaCase& c = GetParam();
  const double tolerance = c.least_beta > 1 ? 2.5e-2 : c.most_beta > 1 ? 1.2e-2 : 8e-3;
  const bool taken = c.decay != "channel" && c.key <= 256;
  const DeltaRuleInputs in = delta_inputs(c, at::kBFloat16);
  const std::vector<Tensor> expected = delta_evaluated(in_fp64(in), delta_rule_reference);
  const longhaul::testing::OnEmulatedGpu gpu;
  expect_near(delta_evaluated(in, delta_rule), expected, tolerance);
  EXPECT_EQ(Dispatcher::last("delta_rule").chosen == "cuda", taken);
}
INSTANTIATE_TEST_SUITE_P(Cases, CudaCallsDeltaRule, ::testing::ValuesIn(delta_cases()));

const DeltaCase& some_case() {
  static const DeltaCase c{.name = "",
                           .decay = "head",
                           .offsets = {0, 70, 71, 71, 140},
                           .key_heads = 2,
                           .heads = 4,
                           .key = 20,
                           .value = 36,
                           .steep = 0.5};
  return c;
}

// Gates in bf16, strided rows, no states in or out.
TEST(CudaCallsDeltaRuleOther, TakesWhatModelsGive) {
  const auto run = [&](const DeltaRuleInputs& given) {
    DeltaRuleInputs in = given;
    in.initial_state_nhkv = Tensor();
    for (Tensor* each : {&in.beta_th, &in.log_decay})
      *each = each->to(given.v_thv.scalar_type() == at::kDouble ? at::kDouble : at::kBFloat16);
    std::vector<Tensor> leaves;
    for (Tensor* each : {&in.q_tgk, &in.k_tgk, &in.v_thv, &in.beta_th, &in.log_decay}) {
      leaves.push_back(each->detach().clone().requires_grad_(true));
      *each = at::stack({leaves.back(), leaves.back().mul(3)}, -1).select(-1, 0);
    }
    const LinearRecurrenceResult result = delta_rule(in);
    result.o_thd.mul(random_tensor(result.o_thd.sizes(), 21, in.v_thv.scalar_type())).sum().backward();
    std::vector<Tensor> found{result.o_thd.detach()};
    for (const Tensor& leaf : leaves) found.push_back(leaf.grad());
    return found;
  };
  DeltaRuleInputs in = delta_inputs(some_case(), at::kBFloat16);
  for (Tensor* each : {&in.beta_th, &in.log_decay}) *each = each->to(at::kBFloat16).to(at::kFloat);
  std::vector<Tensor> expected;
  {
    const DeltaForced forced("reference");
    expected = run(in_fp64(in));
  }
  const longhaul::testing::OnEmulatedGpu gpu;
  const std::vector<Tensor> found = run(in);
  EXPECT_EQ(Dispatcher::last("delta_rule").chosen, "cuda");
  for (size_t i = 0; i < found.size(); ++i) EXPECT_LT(share(found[i], expected[i]), 8e-3) << i;
}

// Each sequence goes on from its own state, to the same bits whoever is beside it; the others' states stay.
TEST(CudaCallsDeltaRuleOther, ContinuesSequences) {
  const DeltaCase& c = some_case();
  DeltaRuleInputs in = delta_inputs(c, at::kBFloat16);
  const LinearRecurrenceResult expected = delta_rule_reference(in_fp64(in));
  const std::vector<int64_t> rows{5, 0, 3, 1};
  const Tensor states = random_tensor({6, c.heads, c.key, c.value}, 9, at::kFloat), before = states.clone();
  for (size_t n = 0; n < rows.size(); ++n)
    states[rows[n]].copy_(in.initial_state_nhkv[static_cast<int64_t>(n)]);
  const Tensor last_state = in.initial_state_nhkv.narrow(0, 3, 1);
  in.initial_state_nhkv = Tensor();
  const longhaul::testing::OnEmulatedGpu gpu;
  const Tensor o = delta_rule_continued(in, {states, rows});
  EXPECT_LT(share(o, expected.o_thd), 8e-3);
  for (size_t n = 0; n < rows.size(); ++n) {
    EXPECT_LT(share(states[rows[n]], expected.final_state_nhkv[static_cast<int64_t>(n)]), 8e-3);
  }
  for (const int64_t other : {2, 4}) EXPECT_TRUE(states[other].equal(before[other]));

  for (Tensor* each : {&in.q_tgk, &in.k_tgk, &in.v_thv, &in.beta_th, &in.log_decay})
    *each = each->narrow(0, 71, 69);
  in.offsets = Tensor();
  const Tensor alone = last_state.clone();
  const std::vector<int64_t> row{0};
  EXPECT_TRUE(delta_rule_continued(in, {alone, row}).equal(o.narrow(0, 71, 69)));
  EXPECT_TRUE(alone[0].equal(states[1]));
}

TEST(CudaCallsDeltaRuleOther, LeavesTheRestToOthers) {
  const longhaul::testing::OnEmulatedGpu gpu;
  const auto refusal = [](const DeltaRuleInputs& in) {
    delta_rule(in);
    for (const auto& [implementation, reason] : Dispatcher::last("delta_rule").refusals) {
      if (implementation == "cuda") return reason;
    }
    return std::string();
  };
  DeltaCase c = some_case();
  c.decay = "channel";
  EXPECT_EQ(refusal(delta_inputs(c, at::kBFloat16)), "it takes no decay per key channel");
  c.decay = "none";
  c.key = 257;
  EXPECT_EQ(refusal(delta_inputs(c, at::kBFloat16)), "it takes heads of 1 to 256 key channels");
  c.key = 8;
  EXPECT_EQ(refusal(delta_inputs(c, at::kFloat)), "the CUDA kernels compute in bf16");
}

}  // namespace
}  // namespace longhaul::kernels::delta_rule_test
