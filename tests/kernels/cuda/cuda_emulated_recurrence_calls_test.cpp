// linear_recurrence by its "cuda" entry, as cuda_emulated_calls_test.cpp tests the other operators.
// ctest: label=fast timeout=240
#include <gtest/gtest.h>

#include "emulated_calls.h"
#include "kernels/linear_recurrence/linear_recurrence_gate_cases.h"
#include "support/nightly.h"
#include "tensor/to_tensor.h"

namespace longhaul::kernels::cuda_calls_test {
namespace {

class CudaCallsRecurrence : public ::testing::TestWithParam<Case> {};

TEST_P(CudaCallsRecurrence, EqualsReference) {
  const Case& c = GetParam();
  if (c.tokens() * c.heads * c.key * c.value > 6'000'000) GTEST_SKIP() << "slow when emulated";
  const Inputs in = inputs_of(c, kBf16);
  for (const bool decay_gradient : {false, true}) {
    for (const bool reverse : {false, true}) {
      if (reverse != decay_gradient && c.tokens() > (takes_all() ? 500 : 100)) continue;
      const LinearRecurrenceOptions options{.scale = 0.7, .reverse = reverse};
      const auto run = [&](const Inputs& x) {
        return linear_recurrence(x.q, strided(x.k), x.v, x.log_decay, x.initial, to_tensor(c.offsets),
                                 options);
      };
      Evaluation found;
      {
        const OnEmulatedGpu gpu;
        found = evaluate(in, decay_gradient, run);
        expect_cuda("linear_recurrence");
      }
      const Forced forced("reference");
      // The gradient of a decay adds up products, of both signs, of operands that were rounded.
      expect_close(found, evaluate(widened(in), decay_gradient, run),
                   decay_gradient ? 8e-3 : kEmulatedTolerance);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Cases, CudaCallsRecurrence, ::testing::ValuesIn(load_cases()));

// k = 1 − e^g: no key exists outside the kernels, and the gradient of g has both parts.
TEST(CudaCallsRecurrenceOther, TiedKeys) {
  for (const bool reverse : {false, true}) {
    for (const std::vector<int64_t>& offsets :
         {std::vector<int64_t>{0, 70, 71, 150}, std::vector<int64_t>{0, 1, 2, 3}}) {
      expect_like_fp64({"linear_recurrence"}, [&](at::ScalarType type) {
        const int64_t tokens = offsets.back();
        const Tensor q = emulated_leaf({tokens, 4, 24}, 1, type), v = emulated_leaf({tokens, 2, 40}, 2, type);
        const Tensor g = rounded({tokens, 4, 24}, 3, emulated_wide(type)).abs().neg().requires_grad_(true);
        const LinearRecurrenceOptions options{.scale = 0.7, .reverse = reverse, .tied_keys = true};
        const auto result = linear_recurrence(q, Tensor(), v, g, Tensor(), to_tensor(offsets), options);
        const auto weights = [&](const Tensor& x, uint64_t seed) {
          return rounded(x.sizes(), seed, emulated_wide(type));
        };
        const Tensor o = result.o_thd.to(emulated_wide(type)), state = result.final_state_nhkv;
        (o.mul(weights(o, 4)).sum() + state.mul(weights(state, 5)).sum()).backward();
        return std::vector<Tensor>{o.detach(), state.detach(), q.grad(), v.grad(), g.grad()};
      });
    }
  }
}

// Gates made in the kernels, of logits in bf16 and fp32.
class CudaCallsRecurrenceGate : public ::testing::TestWithParam<GateCase> {};

TEST_P(CudaCallsRecurrenceGate, EqualsReference) {
  const GateCase& c = GetParam();
  if (c.shape.tokens() * c.shape.heads * c.shape.key * c.shape.value > 3'000'000)
    GTEST_SKIP() << "slow when emulated";
  for (const at::ScalarType logits : {at::kFloat, kBf16}) {
    const bool reverse = logits == kBf16;
    const GateInputs in = gate_inputs(c, kBf16, logits), wide = widened(in);
    std::vector<Tensor> found;
    {
      const OnEmulatedGpu gpu;
      found = run_gate(c, in, gate_options(c, in, reverse));
      expect_cuda("linear_recurrence");
    }
    const Forced forced("reference");
    EXPECT_EQ(found[6].scalar_type(), logits);
    // The gradient of a decay adds up products, of both signs, of operands that were rounded.
    expect_gate_close(found, run_gate(c, wide, gate_options(c, wide, reverse)), 8e-3);
  }
}
INSTANTIATE_TEST_SUITE_P(Cases, CudaCallsRecurrenceGate, ::testing::ValuesIn(load_gate_cases()));

// One token a document: the exact form, with decays per channel and per head; and without gradients of the
// gate the chunked one.
TEST(CudaCallsRecurrenceOther, GatesWithoutTheirGradients) {
  for (const GateCase& each : load_gate_cases()) {
    for (const std::vector<int64_t>& offsets :
         {std::vector<int64_t>{0, 1, 2, 3}, std::vector<int64_t>{0, 70}}) {
      GateCase c = each;
      c.shape.offsets = offsets;
      c.shape.key = std::min<int64_t>(c.shape.key, 40);
      const GateInputs in = gate_inputs(c, kBf16, kBf16), wide = widened(in);
      const auto run = [&](const GateInputs& x) {  // gradients of the values alone
        const Tensor v = x.v.clone().requires_grad_(true);
        const auto result =
            linear_recurrence(x.q, x.k, v, x.x, x.initial, to_tensor(offsets), gate_options(c, x));
        weigh(result).backward();
        return std::vector<Tensor>{result.o_thd.detach(), result.final_state_nhkv.detach(), Tensor(),
                                   Tensor(), v.grad()};
      };
      std::vector<Tensor> found;
      {
        const OnEmulatedGpu gpu;
        found = run(in);
        expect_cuda("linear_recurrence");
      }
      const Forced forced("reference");
      SCOPED_TRACE(c.shape.name);
      expect_gate_close(found, run(wide), kEmulatedTolerance);
    }
  }
}

TEST(CudaCallsRecurrenceOther, OneTokenATimeTakesStatesAlong) {
  const Tensor q = rounded({4, 2, 8}, 1, kBf16), k = rounded({4, 2, 8}, 2, kBf16),
               v = rounded({4, 2, 6}, 3, kBf16);
  const Tensor decay = random_tensor({2}, 4).sigmoid().neg().to(at::kFloat);
  const OnEmulatedGpu gpu;
  const auto whole = linear_recurrence(q, k, v, decay, Tensor(), Tensor());
  Tensor state;
  std::vector<Tensor> steps;
  for (int64_t t = 0; t < 4; ++t) {
    const auto step =
        linear_recurrence(q.narrow(0, t, 1), k.narrow(0, t, 1), v.narrow(0, t, 1), decay, state, Tensor());
    steps.push_back(step.o_thd);
    state = step.final_state_nhkv;
  }
  EXPECT_LT(rms_error(at::cat(steps), whole.o_thd), kEmulatedTolerance);
  EXPECT_LT(rms_error(state, whole.final_state_nhkv), kEmulatedTolerance);
}

}  // namespace
}  // namespace longhaul::kernels::cuda_calls_test
