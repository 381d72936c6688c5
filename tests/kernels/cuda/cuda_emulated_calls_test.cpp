// The glue between tensors and the CUDA kernels (<op>/cuda_call.cpp): every operator run by its "cuda" entry,
// forward and backward, where CPU tensors count as on a GPU and the kernels are emulated
// (support/cuda_emulation); beside the reference on the same rounded inputs. Fresh memory is NaN, inputs are
// strided where the operator takes such. ctest: label=fast timeout=240
#include <gtest/gtest.h>

#include "base/error.h"
#include "kernels/activation/cuda_call.h"
#include "kernels/activation/op.h"
#include "kernels/attention/attention_cases.h"
#include "kernels/attention/paged/paged.h"
#include "kernels/cuda/calls.h"
#include "kernels/cuda/runtime.h"
#include "kernels/embedding/op.h"
#include "kernels/experts/op.h"
#include "kernels/linear/op.h"
#include "kernels/linear_cross_entropy/cuda_call.h"
#include "kernels/linear_cross_entropy/log_probabilities.h"
#include "kernels/linear_recurrence/linear_recurrence_gate_cases.h"
#include "kernels/norm/op.h"
#include "kernels/rotary_heads/op.h"
#include "kernels/short_convolution/op.h"
#include "library_calls.h"
#include "support/nightly.h"
#include "tensor/to_tensor.h"

namespace longhaul::kernels::cuda_emulated_calls_test {
namespace {

using namespace longhaul::testing;
constexpr auto kBf16 = at::kBFloat16;

// While alive, CPU tensors count as lying on a GPU, and what LibTorch allocates is NaN.
class OnEmulatedGpu {
 public:
  OnEmulatedGpu() {
    EXPECT_TRUE(cuda::runtime::machine().emulated);
    stand_in_for_library_calls();
    emulate_cuda(true);
  }
  ~OnEmulatedGpu() { emulate_cuda(false); }

 private:
  PoisonFreshMemory poison_;
};

void expect_cuda(const std::string& op) { EXPECT_EQ(Dispatcher::last(op).chosen, "cuda") << op; }

// ‖a − b‖ / ‖b‖ of everything that came out, against the same run in fp64 by the loops of the CPU. One
// rounding to bf16 is 1.7e-3 in the mean; what is kept in bf16 on the way (normed rows, probabilities) is
// rounded once more: 5e-3 bounds both.
constexpr double kEmulatedTolerance = 5e-3;
using Run = std::function<std::vector<Tensor>(at::ScalarType)>;
void expect_like_fp64(const std::vector<std::string>& ops, const Run& run,
                      double tolerance = kEmulatedTolerance) {
  std::vector<Tensor> found;
  {
    const OnEmulatedGpu gpu;
    found = run(kBf16);
    for (const std::string& op : ops) expect_cuda(op);
  }
  const auto expected = run(at::kDouble);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_TRUE(found[i].defined()) << i;
    EXPECT_LT(rms_error(found[i], expected[i]), tolerance)
        << (ops.empty() ? "libraries" : ops[0]) << " " << i;
  }
}

// The same values in every type: rounded to bf16 first.
Tensor rounded(at::IntArrayRef sizes, uint64_t seed, at::ScalarType type) {
  return random_tensor(sizes, seed, kBf16).to(type);
}
Tensor emulated_leaf(at::IntArrayRef sizes, uint64_t seed, at::ScalarType type) {
  return rounded(sizes, seed, type).requires_grad_(true);
}
at::ScalarType emulated_wide(at::ScalarType type) { return type == at::kDouble ? at::kDouble : at::kFloat; }
Tensor wide_leaf(at::IntArrayRef sizes, uint64_t seed, at::ScalarType type) {
  return emulated_leaf(sizes, seed, emulated_wide(type));
}
Tensor full(at::IntArrayRef sizes, double value, at::ScalarType type) {
  return at::full(sizes, value, at::TensorOptions().dtype(type));
}

class CudaCallsRecurrence : public ::testing::TestWithParam<Case> {};

// Every other element of wider rows.
Tensor strided(const Tensor& x) { return at::stack({x, x.mul(3)}, -1).select(-1, 0); }

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
TEST(CudaCalls, RecurrenceWithTiedKeys) {
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
TEST(CudaCalls, RecurrenceOfGatesWithoutTheirGradients) {
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

TEST(CudaCalls, RecurrenceOfOneTokenATimeTakesStatesAlong) {
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

// LibTorch's flash attention would come first (flash_attention_test).
struct ForcedKernels {
  ForcedKernels() { Dispatcher::force("attention", "cuda"); }
  ~ForcedKernels() { Dispatcher::force("attention", std::nullopt); }
};

class CudaCallsAttention : public ::testing::TestWithParam<AttentionCase> {};

TEST_P(CudaCallsAttention, EqualsReference) {
  const AttentionCase& c = GetParam();
  const AttentionInputs in = longhaul::testing::inputs_of(c, kBf16);
  const bool in_one = c.offsets == c.key_offsets && c.key == c.value;
  if (!c.causal) GTEST_SKIP() << "it refuses: any_device_test";
  if (c.key_offsets.back() * c.offsets.back() * c.heads * (c.key + c.value) > 40'000'000)
    GTEST_SKIP() << "slow when emulated";
  const auto run = [&](const AttentionInputs& x) { return c.call(attention, x, 0.3); };
  const AttentionEvaluation expected = longhaul::testing::evaluate(
      in.to(at::kDouble), [&](const AttentionInputs& x) { return c.call(attention_reference, x, 0.3); });
  const OnEmulatedGpu gpu;
  const ForcedKernels forced;
  // See cases.toml for the tolerance.
  expect_same(longhaul::testing::evaluate(in_one ? in.in_one_tensor() : in, run), expected, 1.5e-2);
  expect_cuda("attention");
}
INSTANTIATE_TEST_SUITE_P(Cases, CudaCallsAttention, ::testing::ValuesIn(attention_cases()));

TEST(CudaCalls, AttentionWithoutGradientOfTheLogsumexp) {
  expect_like_fp64(
      {"attention"},
      [](at::ScalarType type) {
        std::optional<ForcedKernels> forced;
        if (type == kBf16) forced.emplace();
        const Tensor q = emulated_leaf({70, 2, 16}, 1, type), k = emulated_leaf({70, 1, 16}, 2, type),
                     v = emulated_leaf({70, 1, 16}, 3, type);
        const Tensor o =
            attention(q, k, v, to_tensor(std::vector<int64_t>{0, 30, 70}), Tensor(), {.scale = 0.25}).o_thd;
        o.backward(rounded({70, 2, 16}, 4, type));
        return std::vector<Tensor>{o.detach(), q.grad(), k.grad(), v.grad()};
      },
      1e-2);  // softmax and its gradient are rounded before the products
}

// One new token for each of several caches that end inside, at and beyond pages.
TEST(CudaCalls, AttentionOverCachesReadsTheirPages) {
  for (const int64_t window : {0, 100}) {
    expect_like_fp64({"attention_paged"}, [window](at::ScalarType type) {
      const std::vector<int64_t> lengths = {300, 1, 256, 770}, rows = {2, 0, 4, 3};
      KeyValueCache cache({.heads = 2, .key = 20, .value = 12, .options = type});
      cache.grow(5);
      for (size_t n = 0; n < lengths.size(); ++n) {
        for (const int64_t part : {lengths[n] - 1, int64_t{1}}) {
          cache.append(std::span(&rows[n], 1), std::vector<int64_t>{0, part},
                       rounded({part, 2, 20}, 1 + n + static_cast<uint64_t>(part), type),
                       rounded({part, 2, 12}, 9 + n, type));
        }
      }
      const Tensor q = rounded({4, 6, 40}, 3, type).slice(2, 0, 40, 2);
      const AttentionResult result = attention_paged(q, to_tensor(std::vector<int64_t>{0, 1, 2, 3, 4}), cache,
                                                     rows, {.scale = 0.25, .window = window});
      return std::vector<Tensor>{result.o_thd, result.logsumexp_th};
    });
  }
}

// Several new tokens: the pages are copied together, as nothing is gained by reading them in place once per
// token.
TEST(CudaCalls, AttentionOfSeveralNewTokensGathersTheCache) {
  Dispatcher::force("attention_paged", "gathered");
  expect_like_fp64({"attention"}, [](at::ScalarType type) {
    std::optional<ForcedKernels> forced;
    if (type == kBf16) forced.emplace();
    KeyValueCache cache({.heads = 1, .key = 16, .value = 16, .options = type});
    cache.grow(1);
    const std::vector<int64_t> rows = {0};
    cache.append(rows, std::vector<int64_t>{0, 300}, rounded({300, 1, 16}, 1, type),
                 rounded({300, 1, 16}, 2, type));
    return std::vector<Tensor>{
        attention_paged(rounded({2, 4, 16}, 3, type), Tensor(), cache, rows, {.scale = 0.25}).o_thd};
  });
  Dispatcher::force("attention_paged", std::nullopt);
}

TEST(CudaCalls, GradientOfABiasAddsToItsSink) {
  const Tensor dy = rounded({530, 40}, 1, kBf16), sink = full({40}, 0.5, at::kFloat);
  const OnEmulatedGpu gpu;
  cuda_calls<ActivationCuda>().add_bias_gradient(dy, sink);
  EXPECT_LT(rms_error(sink, dy.to(at::kDouble).sum(0).add(0.5)), 1e-6);
}

// Documents shorter than the taps and empty ones, with a state and without, rows of a wider tensor, and
// gradients that reach the states.
TEST(CudaCalls, ShortConvolution) {
  for (const auto& [taps, with_bias, with_state, silu] : {std::tuple{4, true, true, true},
                                                          {4, false, false, true},
                                                          {7, true, true, false},
                                                          {1, true, true, true}}) {
    expect_like_fp64({"short_convolution"}, [&, taps = taps, with_bias = with_bias, with_state = with_state,
                                             silu = silu](at::ScalarType type) {
      const std::vector<int64_t> offsets = {0, 1, 3, 3, 40};
      const Tensor x = emulated_leaf({40, 30}, 1, type), weight = wide_leaf({24, taps}, 2, type),
                   bias = with_bias ? wide_leaf({24}, 3, type) : Tensor(),
                   state = with_state ? emulated_leaf({4, taps - 1, 24}, 4, type) : Tensor();
      const auto result =
          short_convolution(x.narrow(1, 6, 24), weight, bias, to_tensor(offsets), state, {.silu = silu});
      const auto weighed = [&](const Tensor& y, uint64_t seed) {
        return y.to(emulated_wide(type)).mul(rounded(y.sizes(), seed, emulated_wide(type))).sum();
      };
      (weighed(result.y_tc, 5) + weighed(result.final_state_nwc, 6)).backward();
      std::vector<Tensor> found = {result.y_tc.detach(), x.grad(), weight.grad()};
      if (with_bias) found.push_back(bias.grad());
      if (with_state && taps > 1) {
        found.push_back(state.grad());
        found.push_back(result.final_state_nwc.detach());
      }
      return found;
    });
  }
}

// Decoding: one token for each of some sequences.
TEST(CudaCalls, ShortConvolutionGoesOnFromStates) {
  expect_like_fp64({"short_convolution"}, [](at::ScalarType type) {
    const Tensor weight = rounded({24, 4}, 1, emulated_wide(type)),
                 states = rounded({5, 3, 24}, 2, type).clone();
    const std::vector<int64_t> rows = {3, 0, 4};
    const Tensor y = short_convolution_continued(rounded({3, 24}, 3, type), weight, {}, {states, rows},
                                                 to_tensor(std::vector<int64_t>{0, 1, 2, 3}), {.silu = true});
    return std::vector<Tensor>{y, states};
  });
}

// Routers that LibTorch's operators score choose by our kernel: with a bias, within groups, with ties.
TEST(CudaCalls, RoutersOfOtherScoresChooseAsOnTheCpu) {
  using Score = RouterOptions::Score;
  for (const auto& [score, groups] :
       {std::pair{Score::kSigmoid, 4}, {Score::kSqrtSoftplus, 1}, {Score::kSoftmax, 2}}) {
    const auto run = [&, score = score, groups = groups](at::ScalarType type) {
      const Tensor x = emulated_leaf({30, 16}, 1, type),
                   router = rounded({8, 16}, 2, emulated_wide(type))
                                .index_select(0, at::tensor({0, 1, 2, 2, 4, 5, 6, 7})),
                   sink = full({8, 16}, 3, emulated_wide(type));
      const RouterOptions options{
          .score = score,
          .scale = 2.5,
          .groups = groups,
          .groups_per_token = groups / 2 + groups % 2,
          .bias_e =
              rounded({8}, 4, emulated_wide(type)).index_select(0, at::tensor({0, 1, 2, 2, 4, 5, 6, 7}))};
      const Routing routing = route(x, router, 2, sink, {}, options);
      routing.weight_tk.mul(rounded({30, 2}, 3, emulated_wide(type)))
          .sum()
          .add(routing.probability_sum_se.square().sum())
          .backward();
      return std::vector<Tensor>{routing.weight_tk.detach(), x.grad(), sink,
                                 routing.choice_tk.to(at::kDouble)};
    };
    std::vector<Tensor> found;
    {
      const OnEmulatedGpu gpu;
      found = run(kBf16);
    }
    const std::vector<Tensor> expected = run(at::kDouble);
    EXPECT_TRUE(found[3].equal(expected[3]));
    for (size_t i = 0; i < 3; ++i) EXPECT_LT(rms_error(found[i], expected[i]), kEmulatedTolerance) << i;
  }
}

// Products by LibTorch's libraries; the gradients of weight and bias are added in fp32 to what the sinks
// hold.
TEST(CudaCalls, LinearAddsToItsSinks) {
  expect_like_fp64({}, [&](at::ScalarType type) {
    const Tensor x = emulated_leaf({37, 24}, 1, type), weight = rounded({40, 24}, 2, type),
                 bias = rounded({40}, 3, type), sink = full({40, 24}, 0.5, emulated_wide(type)),
                 bias_sink = full({40}, -2, emulated_wide(type));
    const Tensor y = linear(x, weight, bias, {.weight = sink, .bias = bias_sink});
    if (type == kBf16) {
      EXPECT_EQ(Dispatcher::last("linear").chosen, "libtorch");
      EXPECT_LT(rms_error(linear_wide(x.detach(), weight),
                          at::mm(x.detach().to(at::kDouble), weight.to(at::kDouble).t())),
                1e-6);
    }
    const Tensor dy = rounded({37, 80}, 4, type).narrow(1, 8, 40);  // rows that lie apart
    y.backward(dy);
    if (type == kBf16) {
      // no rounding to bf16 on the way
      const Tensor wide = dy.to(at::kDouble);
      EXPECT_LT(rms_error(sink, at::mm(wide.t(), x.detach().to(at::kDouble)).add(0.5)), 1e-6);
      EXPECT_LT(rms_error(bias_sink, wide.sum(0).sub(2)), 1e-6);
    }
    return std::vector<Tensor>{y.detach(), x.grad(), sink, bias_sink};
  });
}

TEST(CudaCalls, LinearCrossEntropy) {
  for (const bool with_sink : {true, false}) {
    expect_like_fp64({"linear_cross_entropy"}, [&](at::ScalarType type) {
      const Tensor hidden = emulated_leaf({21, 24}, 1, type), weight = rounded({75, 24}, 2, type),
                   sink = full({75, 24}, 0.5, emulated_wide(type));
      Tensor labels = at::arange(21).mul(11).remainder(75);
      labels[3] = -1;
      const LinearCrossEntropyOptions options{.z_loss = 0.01, .chunk = 8};
      const Tensor sum =
          linear_cross_entropy_sum(hidden, weight, labels, with_sink ? sink : Tensor(), options);
      sum.mul(0.5).backward();  // not what was expected: the sink gets the rest in the backward pass
      return std::vector<Tensor>{sum.detach(), hidden.grad(), sink,
                                 linear_cross_entropy_each(hidden, weight, labels, options)};
    });
  }
}

// Chunks with a tail, a vocabulary that is no multiple of the padding, and tokens without a label.
TEST(CudaCalls, TokenLogProbabilities) {
  for (const bool with_sink : {true, false}) {
    for (const bool entropy : {true, false}) {
      expect_like_fp64({"token_logits"}, [&](at::ScalarType type) {
        const Tensor hidden = emulated_leaf({21, 24}, 1, type), weight = rounded({75, 24}, 2, type),
                     sink = full({75, 24}, 0.5, emulated_wide(type));
        Tensor labels = at::arange(21).mul(11).remainder(75);
        labels[3] = -1;
        const auto each = log_probabilities_of_all(
            hidden, {weight, with_sink ? sink : Tensor()}, labels,
            {.temperature = 0.7, .entropy = entropy, .logsumexp = true, .chunk = 8}, {});
        const auto weighed = [&](const Tensor& x, uint64_t seed) {
          return x.mul(rounded({21}, seed, x.scalar_type())).sum();
        };
        Tensor sum = weighed(each.log_probability_t, 3) + weighed(each.logsumexp_t, 4);
        if (entropy) sum = sum + weighed(each.entropy_t, 5);
        sum.backward();
        std::vector<Tensor> found = {each.log_probability_t.detach(), each.logsumexp_t.detach(),
                                     hidden.grad(), sink};
        if (entropy) found.push_back(each.entropy_t.detach());
        return found;
      });
    }
  }
}

// On a GPU nobody picks the tokens that have a label.
TEST(CudaCalls, TokensWithoutLabelHaveNoLoss) {
  const Tensor hidden = rounded({7, 8}, 1, kBf16), weight = rounded({9, 8}, 2, kBf16);
  const Tensor labels = at::tensor(std::vector<int64_t>{3, -1, 0, 8, -5, 2, -1});
  CrossEntropyProblem problem{hidden, weight, labels, {.z_loss = 0.1, .chunk = 3, .upstream = 0.5}};
  problem.all_labelled = false;
  const auto run = [&](const auto& implementation) {
    const CrossEntropyGradients gradients{at::full_like(hidden, NAN), at::ones({9, 8})};
    return std::vector<Tensor>{implementation(problem, gradients), gradients.hidden_td, gradients.sink_vd};
  };
  stand_in_for_library_calls();
  const auto expected = run(cross_entropy_aten), found = run(cuda_calls<CrossEntropyCuda>().run);
  for (size_t i = 0; i < 3; ++i) EXPECT_LT(rms_error(found[i], expected[i]), kEmulatedTolerance) << i;
}

TEST(CudaCalls, Norms) {
  for (const auto& [rows, channels] : {std::pair<int64_t, int64_t>{9, 13}, {1, 64}, {40, 200}}) {
    for (const double beta : {1.0, 0.25}) {
      expect_like_fp64({"rms_norm", "layer_norm", "join_norm"}, [&, rows = rows,
                                                                 channels = channels](at::ScalarType type) {
        const Tensor x = emulated_leaf({rows, channels}, 1, type),
                     branch = emulated_leaf({rows, channels}, 2, type),
                     gate = emulated_leaf({rows, channels}, 3, type);
        const Tensor weight = wide_leaf({channels}, 4, type), bias = wide_leaf({channels}, 5, type);
        const JoinedNorm layer = join_norm(NormKind::kLayer, x, branch, 1, beta, weight, bias, 1e-5);
        const JoinedNorm rms = join_norm(NormKind::kRms, x, branch, 2 * beta, beta, weight, {}, 1e-5);
        const std::vector<Tensor> outputs = {rms_norm(x, weight, 1e-5, gate),
                                             rms_norm(x, weight, 1e-5),
                                             layer_norm(branch, weight, bias, 1e-5),
                                             layer_norm(gate, weight, {}, 1e-5),
                                             layer.joined_tc,
                                             layer.normed_tc,
                                             rms.joined_tc,
                                             rms.normed_tc};
        Tensor loss = full({}, 0, emulated_wide(type));
        std::vector<Tensor> results;
        for (size_t i = 0; i < outputs.size(); ++i) {
          if (i != 6)
            loss = loss + outputs[i]
                              .to(emulated_wide(type))
                              .mul(rounded({rows, channels}, 10 + i, emulated_wide(type)))
                              .sum();  // one join goes unused
          results.push_back(outputs[i].detach());
        }
        loss.backward();
        for (const Tensor& each : {x, branch, gate, weight, bias}) results.push_back(each.grad());
        return results;
      });
    }
  }
}

TEST(CudaCalls, Activations) {
  expect_like_fp64({"swiglu", "silu_heads", "bias_gelu"}, [](at::ScalarType type) {
    const Tensor x = emulated_leaf({19, 24}, 1, type), bias = rounded({24}, 2, type),
                 sink = full({24}, 2, emulated_wide(type)), plain = emulated_leaf({19, 24}, 3, type);
    const Heads heads = silu_heads(x, 2, 1, 6);
    const Tensor gelu = bias_gelu(x, bias, sink), without = bias_gelu(plain, {}, {}),
                 y = swiglu(strided(plain));
    // Gradients that are pieces of a longer row, and one that is transposed.
    at::cat({heads.q_thd, heads.k_thd}, 1).mul(rounded({19, 3, 6}, 4, type)).sum().backward({}, true);
    heads.v_thd.permute({2, 1, 0}).mul(rounded({6, 1, 19}, 5, type)).sum().backward();
    gelu.backward(rounded({19, 24}, 6, type));
    without.backward(rounded({19, 24}, 7, type));
    y.backward(rounded({19, 12}, 8, type));
    return std::vector<Tensor>{heads.q_thd.detach(),
                               heads.k_thd.detach(),
                               heads.v_thd.detach(),
                               gelu.detach(),
                               without.detach(),
                               y.detach(),
                               x.grad(),
                               plain.grad(),
                               sink};
  });
}

TEST(CudaCalls, Heads) {
  const std::vector<int64_t> positions = {0, 1, 2, 0, 1};
  for (const int64_t dim : {0, 6, 10}) {
    expect_like_fp64({"split_heads"}, [&](at::ScalarType type) {
      const Tensor x = emulated_leaf({5, 4 * 10}, 1, type);
      const RotaryTable table =
          dim > 0 ? rotary_table(positions, dim, 10000, emulated_wide(type)) : RotaryTable{};
      const Heads heads = split_heads(x.mul(1), 2, 1, 10, table);
      const std::vector<Tensor> results = {heads.q_thd.detach().clone(), heads.k_thd.detach().clone(),
                                           heads.v_thd.detach().clone()};
      (at::cat({heads.q_thd, heads.k_thd}, 1).mul(rounded({5, 3, 10}, 2, type)).sum() +
       heads.v_thd.mul(rounded({5, 1, 10}, 3, type)).sum())
          .backward();
      return std::vector<Tensor>{results[0], results[1], results[2], x.grad()};
    });
  }
}

TEST(CudaCalls, Embedding) {
  const Tensor ids = at::tensor(std::vector<int64_t>{3, 0, 3, 9, 3, 1}),
               positions = at::tensor(std::vector<int64_t>{0, 1, 2, 0, 1, 3});
  for (const bool with_positions : {false, true}) {
    expect_like_fp64({"embedding"}, [&](at::ScalarType type) {
      const EmbeddingTable table{emulated_leaf({10, 21}, 1, type), full({10, 21}, 2, emulated_wide(type))},
          position{emulated_leaf({4, 21}, 2, type), full({4, 21}, 3, emulated_wide(type))};
      const Tensor y = with_positions ? embedding(ids, table, positions, position) : embedding(ids, table);
      y.backward(rounded({6, 21}, 3, type));
      EXPECT_FALSE(table.value_vd.grad().defined());
      return std::vector<Tensor>{y.detach(), table.sink.buffer(), position.sink.buffer()};
    });
  }
}

// From hidden states to the sum over experts.
TEST(CudaCalls, Experts) {
  const std::vector<std::string> ops = {"route",
                                        "assign_experts",
                                        "permute_to_experts",
                                        "combine_experts",
                                        "grouped_linear",
                                        "grouped_linear_input_gradient",
                                        "grouped_linear_weight_gradient"};
  expect_like_fp64(ops, [](at::ScalarType type) {
    const Tensor x = emulated_leaf({30, 16}, 1, type), weight = rounded({5, 24, 16}, 4, type).mul(0.25),
                 sink = full({5, 24, 16}, 3, emulated_wide(type));
    const Tensor router = rounded({5, 16}, 2, emulated_wide(type)),
                 router_sink = full({5, 16}, 3, emulated_wide(type));
    const Routing routing = route(x, router, 2, router_sink, at::tensor(std::vector<int64_t>{0, 13, 30}));
    const ExpertAssignment assignment = assign_experts(routing.choice_tk, 5);
    const Tensor rows = permute_to_experts(x, assignment);
    const Tensor up = grouped_linear(rows, assignment.rows_per_expert, weight, sink);
    const Tensor y = combine_experts(up, routing.weight_tk, assignment);
    const auto type_of_sum = emulated_wide(type);
    (y.to(type_of_sum).mul(rounded({30, 24}, 5, type_of_sum)).sum() +
     routing.probability_sum_se.mul(rounded({2, 5}, 6, type_of_sum)).sum() + routing.log_sum_square.mul(0.2))
        .backward();
    return std::vector<Tensor>{routing.weight_tk.detach(),
                               routing.choice_tk,
                               routing.probability_sum_se.detach(),
                               routing.count_se,
                               routing.log_sum_square.detach(),
                               to_tensor(assignment.rows_per_expert),
                               assignment.source_r,
                               assignment.place_tk,
                               rows.detach(),
                               up.detach(),
                               y.detach(),
                               x.grad(),
                               sink,
                               router_sink};
  });
}

TEST(CudaCalls, ExpertsWithoutTokensAndForeignExperts) {
  const OnEmulatedGpu gpu;
  const Tensor weight = rounded({3, 4, 8}, 1, kBf16), sink = full({3, 4, 8}, 2, at::kFloat);
  const ExpertAssignment none = assign_experts(at::empty({0, 2}, at::kLong), 3);
  EXPECT_EQ(none.rows_per_expert, (std::vector<int64_t>{0, 0, 0}));
  const Tensor x = at::zeros({0, 8}, kBf16).requires_grad_(true);
  const Tensor y = grouped_linear(permute_to_experts(x, none), none.rows_per_expert, weight, sink);
  combine_experts(y, at::zeros({0, 2}), none).sum().backward();
  EXPECT_EQ(x.grad().sizes(), at::IntArrayRef({0, 8}));
  EXPECT_TRUE(sink.eq(2).all().item<bool>());
  for (const int64_t outside : {-1, 3})
    EXPECT_THROW(assign_experts(at::full({2, 1}, outside, at::kLong), 3), Error) << outside;
}

TEST(CudaCalls, RefuseWhatTheyCannotDo) {
  const OnEmulatedGpu gpu;
  const auto refused = [](const std::string& op) {
    for (const auto& [name, reason] : Dispatcher::last(op).refusals) {
      if (name == "cuda") return reason;
    }
    return std::string();
  };
  swiglu(at::zeros({2, 4}));
  EXPECT_EQ(refused("swiglu"), "the CUDA kernels compute in bf16");
  const Tensor wide_heads = at::zeros({3, 1, 300}, kBf16);
  linear_recurrence(wide_heads, wide_heads, wide_heads, Tensor(), Tensor(), Tensor());
  EXPECT_EQ(refused("linear_recurrence"), "it takes heads of 1 to 256 channels");
  attention(wide_heads, wide_heads, wide_heads, Tensor(), Tensor(), {});
  EXPECT_EQ(refused("attention"), "it takes heads of 1 to 256 channels");
  KeyValueCache cache({.heads = 1, .key = 8, .value = 8, .options = kBf16});
  cache.grow(1);
  const std::vector<int64_t> rows = {0};
  cache.append(rows, std::vector<int64_t>{0, 3}, at::zeros({3, 1, 8}, kBf16), at::zeros({3, 1, 8}, kBf16));
  attention_paged(at::zeros({2, 1, 8}, kBf16), Tensor(), cache, rows, {});
  EXPECT_EQ(refused("attention_paged"), "it takes one new token a sequence");
  const Tensor x = at::zeros({2, 8}, kBf16);
  linear(x, at::zeros({4, 8}, kBf16), {}, {.weight = at::zeros({4, 8})});
  EXPECT_EQ(refused("linear"), "a single product is left to LibTorch");
  emulate_cuda(false);
  swiglu(x);
  EXPECT_EQ(refused("swiglu"), "the tensors are not on a GPU");
}

}  // namespace
}  // namespace longhaul::kernels::cuda_emulated_calls_test
