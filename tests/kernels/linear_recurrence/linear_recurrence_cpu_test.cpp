// Our CPU form of linear_recurrence against the reference in fp64, and what must hold between its ways of
// running. ctest: label=fast timeout=120
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "kernels/gemm/block.h"
#include "kernels/linear_recurrence/cpu/cpu.h"
#include "kernels/linear_recurrence/linear_recurrence_cases.h"
#include "support/refused.h"
#include "support/threads.h"
#include "tensor/to_tensor.h"

namespace longhaul::kernels::linear_recurrence_cpu_test {
namespace {

using longhaul::testing::PoisonFreshMemory;

// reasons in cases.toml
constexpr std::pair<at::ScalarType, double> kRecurrenceCpuTypes[] = {{at::kFloat, 1e-5},
                                                                     {at::kBFloat16, 5e-3}};

Evaluation run_cpu(const Case& c, const Inputs& in, const LinearRecurrenceOptions& options) {
  const Forced forced("cpu");
  return evaluate(in, true, [&](const Inputs& x) {
    return linear_recurrence(x.q, x.k, x.v, x.log_decay, x.initial, to_tensor(c.offsets), options);
  });
}

Evaluation oracle(const Case& c, const Inputs& in, const LinearRecurrenceOptions& options) {
  return evaluate(widened(in), true, [&](const Inputs& x) {
    return linear_recurrence_reference(x.q, x.k, x.v, x.log_decay, x.initial, to_tensor(c.offsets), options);
  });
}

std::vector<Tensor> all_of(const Evaluation& evaluation) {
  std::vector<Tensor> all{evaluation.result.o_thd, evaluation.result.final_state_nhkv};
  all.insert(all.end(), evaluation.gradients.begin(), evaluation.gradients.end());
  return all;
}

void expect_same_bits(const Evaluation& a, const Evaluation& b) {
  const auto left = all_of(a), right = all_of(b);
  ASSERT_EQ(left.size(), right.size());
  for (size_t i = 0; i < left.size(); ++i) EXPECT_TRUE(left[i].equal(right[i])) << "output " << i;
}

class LinearRecurrenceCpuCases : public ::testing::TestWithParam<Case> {};

TEST_P(LinearRecurrenceCpuCases, EqualTheReference) {
  const PoisonFreshMemory poison;
  const Case& c = GetParam();
  for (const auto& [type, tolerance] : kRecurrenceCpuTypes) {
    const Inputs in = inputs_of(c, type);
    for (const bool reverse : {false, true}) {
      SCOPED_TRACE(std::string(name_of(type)) + (reverse ? " reverse" : ""));
      const LinearRecurrenceOptions options{.scale = 0.7, .reverse = reverse};
      expect_close(run_cpu(c, in, options), oracle(c, in, options), tolerance);
      EXPECT_EQ(Dispatcher::last("linear_recurrence").chosen, "cpu");
    }
  }
}

// fused ≡ segmented ≡ two-pass, with any number of threads, bit by bit.
TEST_P(LinearRecurrenceCpuCases, GiveTheSameBitsHoweverTheyAreRun) {
  const PoisonFreshMemory poison;
  const Case& c = GetParam();
  for (const auto& [type, tolerance] : kRecurrenceCpuTypes) {
    const Inputs in = inputs_of(c, type);
    const auto fused = run_cpu(c, in, {.block = 32, .execution = RecurrenceExecution::kFused});
    expect_same_bits(run_cpu(c, in, {.block = 32, .execution = RecurrenceExecution::kSegmented}), fused);
    expect_same_bits(run_cpu(c, in, {.block = 32, .execution = RecurrenceExecution::kTwoPass}), fused);
    longhaul::testing::expect_same_for_all_threads([&] { return all_of(run_cpu(c, in, {.block = 32})); });
  }
}

// Decoding: documents continue some of many sequences, in no order. What the others have stays, and every
// execution leaves the same.
TEST_P(LinearRecurrenceCpuCases, ContinueStatesInTheirPlaces) {
  const PoisonFreshMemory poison;
  const Case& c = GetParam();
  const auto documents = static_cast<int64_t>(c.offsets.size()) - 1, sequences = documents + 3;
  std::vector<int64_t> rows;
  for (int64_t n = 0; n < documents; ++n)
    rows.push_back((documents - n) % documents + (n % 2 == 0 ? 1 : 2) * static_cast<int64_t>(documents == 1));
  const Tensor index = to_tensor(rows),
               at_start = random_tensor({sequences, c.heads, c.key, c.value}, 77, at::kFloat);
  for (const auto& [type, tolerance] : kRecurrenceCpuTypes) {
    Inputs in = inputs_of(c, type);
    in.initial = at_start.index_select(0, index);
    const Inputs wide = widened(in);
    const auto expected =
        linear_recurrence_reference(wide.q.detach(), wide.k.detach(), wide.v.detach(),
                                    wide.log_decay.defined() ? wide.log_decay.detach() : Tensor(),
                                    wide.initial.detach(), to_tensor(c.offsets), {.scale = 0.7});
    Tensor first;
    for (const auto execution :
         {RecurrenceExecution::kFused, RecurrenceExecution::kSegmented, RecurrenceExecution::kTwoPass}) {
      const Tensor states = at_start.clone();
      const Forced forced("cpu");
      const Tensor o = linear_recurrence_continued(in.q.detach(), in.k.detach(), in.v.detach(),
                                                   in.log_decay.defined() ? in.log_decay.detach() : Tensor(),
                                                   {states, rows}, to_tensor(c.offsets),
                                                   {.scale = 0.7, .execution = execution});
      if (!first.defined()) first = states;
      EXPECT_TRUE(states.equal(first));
      EXPECT_LT(rms_error(o, expected.o_thd), tolerance);
      EXPECT_LT(rms_error(states.index_select(0, index), expected.final_state_nhkv), tolerance);
      EXPECT_TRUE(states.index_copy(0, index, in.initial.detach()).equal(at_start)) << "the other sequences";
    }
  }
}

// A document that is read in parts, of which each but the last is a multiple of kContinuedTokens.
TEST_P(LinearRecurrenceCpuCases, ContinueWithTheBitsOfOneCall) {
  const PoisonFreshMemory poison;
  const Case& c = GetParam();
  const std::vector<int64_t> rows{0};
  const Forced forced("cpu");
  for (const auto& [type, tolerance] : kRecurrenceCpuTypes) {
    const Inputs in = inputs_of(c, type);
    const auto read = [&](const std::vector<int64_t>& stops) {
      const Tensor states = random_tensor({1, c.heads, c.key, c.value}, 77, at::kFloat);
      std::vector<Tensor> parts;
      int64_t begin = 0;
      for (const int64_t stop : stops) {
        const auto part = [&, count = stop - begin](const Tensor& x) {
          return x.defined() && x.dim() > 1 ? x.detach().narrow(0, begin, count) : x.detach();
        };
        parts.push_back(linear_recurrence_continued(
            part(in.q), part(in.k), part(in.v), in.log_decay.defined() ? part(in.log_decay) : Tensor(),
            {states, rows}, to_tensor(std::vector<int64_t>{0, stop - begin})));
        begin = stop;
      }
      return std::pair(at::cat(parts), states);
    };
    const auto [o, state] = read({c.tokens()});
    for (const int64_t stop : {kContinuedTokens, 2 * kContinuedTokens, 5 * kContinuedTokens}) {
      if (stop + 5 > c.tokens()) continue;  // fewer are walked token by token
      const auto [o_of_parts, state_of_parts] = read({stop, c.tokens()});
      EXPECT_TRUE(o_of_parts.equal(o)) << name_of(type) << " stop at " << stop;
      EXPECT_TRUE(state_of_parts.equal(state)) << name_of(type) << " stop at " << stop;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, LinearRecurrenceCpuCases, ::testing::ValuesIn(load_cases()));

TEST(ContinuedStates, AreRefusedByName) {
  const Tensor x = at::zeros({2, 1, 4}), offsets = at::tensor({0, 1, 2}, at::kLong);
  const auto refused = [&](const Tensor& states, std::vector<int64_t> rows) {
    return longhaul::testing::refused([&] {
      linear_recurrence_continued(x, x, x, Tensor(), {states, rows}, offsets);
    });
  };
  using ::testing::HasSubstr;
  const Tensor states = at::zeros({3, 1, 4, 4});
  EXPECT_EQ(refused(states, {2, 0}), "accepted");
  EXPECT_THAT(refused(states, {1, 1}), HasSubstr("bad argument rows")) << "twice the same";
  EXPECT_THAT(refused(states, {0, 3}), HasSubstr("bad argument rows"));
  EXPECT_THAT(refused(states, {-1, 0}), HasSubstr("bad argument rows"));
  EXPECT_THAT(refused(states, {1}), HasSubstr("bad argument rows"));
  EXPECT_THAT(refused(at::zeros({3, 1, 4, 5}), {0, 1}), HasSubstr("bad argument states"));
  EXPECT_THAT(refused(states.to(at::kDouble), {0, 1}), HasSubstr("bad argument states"));
  EXPECT_THAT(refused(states.transpose(2, 3), {0, 1}), HasSubstr("contiguous"));
}

Case case_of(const std::string& decay, std::vector<int64_t> offsets, int64_t key = 24, int64_t value = 40,
             double steep = 0.3) {
  return {.name = decay,
          .decay = decay,
          .offsets = std::move(offsets),
          .heads = 4,
          .key_heads = 2,
          .key = key,
          .value = value,
          .steep = steep};
}
const char* const kKinds[] = {"none", "head", "head_token", "key_token"};

TEST(LinearRecurrenceCpu, EveryInstructionSetEqualsTheReference) {
  for (const char* kind : kKinds) {
    const Case c = case_of(kind, {0, 90, 91, 230});
    for (const auto& [type, tolerance] : kRecurrenceCpuTypes) {
      const Inputs in = inputs_of(c, type);
      const auto expected = oracle(c, in, {.scale = 0.5});
      for (const BlockKernels* set : usable_block_kernels()) {
        SCOPED_TRACE(std::string(kind) + " " + set->name);
        force_block_kernels(set->name);
        expect_close(run_cpu(c, in, {.scale = 0.5}), expected, tolerance);
        force_block_kernels(std::nullopt);
      }
    }
  }
}

TEST(LinearRecurrenceCpu, DoesNotDependOnTheBlock) {
  for (const char* kind : kKinds) {
    const Case c = case_of(kind, {0, 300});
    for (const auto& [type, tolerance] : kRecurrenceCpuTypes) {
      const Inputs in = inputs_of(c, type);
      const auto expected = oracle(c, in, {});
      for (const int64_t block : {16, 32, 64, 128, 256}) {
        SCOPED_TRACE(std::string(kind) + " block " + std::to_string(block));
        expect_close(run_cpu(c, in, {.block = block}), expected, tolerance);
      }
    }
  }
}

// Splitting a sequence and passing the state on is the same function, gradients included.
TEST(LinearRecurrenceCpu, SplittingASequenceCarriesStateAndGradient) {
  for (const char* kind : kKinds) {
    const Case c = case_of(kind, {0, 700});
    const Inputs in = inputs_of(c, at::kFloat);
    const auto whole = run_cpu(c, in, {});
    const auto split = evaluate(in, true, [&](const Inputs& x) {
      Tensor state = x.initial;
      std::vector<Tensor> outputs;
      for (const auto& [begin, length] :
           std::vector<std::pair<int64_t, int64_t>>{{0, 37}, {37, 1}, {38, 0}, {38, 600}, {638, 62}}) {
        const auto part = [&, from = begin, count = length](const Tensor& t) {
          return t.defined() && t.dim() > 1 ? t.narrow(0, from, count) : t;
        };
        const auto result =
            linear_recurrence(part(x.q), part(x.k), part(x.v), part(x.log_decay), state, Tensor());
        outputs.push_back(result.o_thd);
        state = result.final_state_nhkv;
      }
      return LinearRecurrenceResult{at::cat(outputs), state};
    });
    SCOPED_TRACE(kind);
    expect_close(split, whole, 1e-5);
  }
}

TEST(LinearRecurrenceCpu, PermutingDocumentsPermutesResultsBitwise) {
  for (const char* kind : kKinds) {
    const Case c = case_of(kind, {0, 65, 65, 66, 200});
    const Inputs in = inputs_of(c, at::kBFloat16);
    const auto forward = run_cpu(c, in, {});
    Case turned = c;
    turned.offsets = {0, 134, 135, 135, 200};
    const auto pieces = [](const Tensor& x) {
      return x.defined() && x.dim() > 1
                 ? at::cat({x.narrow(0, 66, 134), x.narrow(0, 65, 1), x.narrow(0, 0, 65)})
                 : x;
    };
    const Inputs moved{pieces(in.q), pieces(in.k), pieces(in.v), pieces(in.log_decay), in.initial.flip(0)};
    const auto plain = [](const Case& which, const Inputs& x) {
      return linear_recurrence(x.q, x.k, x.v, x.log_decay, x.initial, to_tensor(which.offsets));
    };
    const auto a = plain(c, in), b = plain(turned, moved);
    EXPECT_TRUE(pieces(a.o_thd).equal(b.o_thd)) << kind;
    EXPECT_TRUE(a.final_state_nhkv.flip(0).equal(b.final_state_nhkv)) << kind;
  }
}

// γ = 0 ≡ none; constant per token ≡ per head; constant over channels ≡ per token; dγ is the sum over tokens.
TEST(LinearRecurrenceCpu, KindsOfDecayNest) {
  const Case c = case_of("head", {0, 70, 150});
  const Inputs in = inputs_of(c, at::kFloat);
  const auto with = [&](const Tensor& decay) {
    Inputs other = in;
    other.log_decay = decay;
    return run_cpu(c, other, {});
  };
  const auto head = with(in.log_decay), token = with(in.log_decay.expand({150, 4}).contiguous());
  const auto channel = with(in.log_decay.view({1, 4, 1}).expand({150, 4, 24}).contiguous());
  const auto broadcast = with(in.log_decay.view({1, 4, 1}).expand({150, 4, 24}));
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_LT(rms_error(token.gradients[i], head.gradients[i]), 1e-5);
    EXPECT_LT(rms_error(channel.gradients[i], head.gradients[i]), 1e-5);
  }
  EXPECT_LT(rms_error(token.result.o_thd, head.result.o_thd), 1e-5);
  EXPECT_LT(rms_error(channel.result.o_thd, head.result.o_thd), 1e-5);
  EXPECT_LT(rms_error(token.gradients[4].sum(0), head.gradients[4]), 1e-5);
  EXPECT_LT(rms_error(channel.gradients[4].sum(2), token.gradients[4]), 1e-5);
  expect_same_bits(broadcast, channel);
  const auto none = with(Tensor()), zero = with(at::zeros({4}));
  EXPECT_TRUE(zero.result.o_thd.equal(none.result.o_thd));
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(zero.gradients[i].equal(none.gradients[i]));
}

// The columns of the state do not meet: slices of the values give slices of every result that has value
// columns, bit by bit, and parts of the gradients that do not.
TEST(LinearRecurrenceCpu, SlicesOfTheValuesGiveTheSameBits) {
  for (const char* kind : kKinds) {
    for (const auto& [type, tolerance] : kRecurrenceCpuTypes) {
      const Case c = case_of(kind, {0, 70, 71, 135}, 24, 80);
      const Inputs in = inputs_of(c, type);
      const Tensor d_o = random_tensor({135, 4, 80}, 31, type),
                   d_final = random_tensor(in.initial.sizes(), 32, at::kFloat);
      struct Results {
        Tensor o, final, dv, d_initial, dq, dk;
      };
      const auto of_columns = [&](int64_t first, int64_t count) {
        const auto slice = [&](const Tensor& x) { return x.narrow(-1, first, count).contiguous(); };
        const RecurrenceProblem problem = recurrence_problem(in.q, in.k, slice(in.v), in.log_decay,
                                                             slice(in.initial), to_tensor(c.offsets), {});
        Tensor boundaries;
        const LinearRecurrenceResult result = recurrence_forward_cpu(problem, &boundaries);
        RecurrenceGradients out{at::empty_like(in.q), at::empty_like(in.k), at::empty_like(problem.v_thv),
                                Tensor(), at::empty_like(problem.initial_state_nhkv)};
        recurrence_backward_cpu(problem, slice(d_o), slice(d_final), boundaries, out);
        return Results{result.o_thd,           result.final_state_nhkv,  out.v_thv,
                       out.initial_state_nhkv, out.q_thk.to(at::kFloat), out.k_thk.to(at::kFloat)};
      };
      const Results whole = of_columns(0, 80), left = of_columns(0, 48), right = of_columns(48, 32);
      const auto joined = [](const Tensor& a, const Tensor& b) { return at::cat({a, b}, -1); };
      EXPECT_TRUE(joined(left.o, right.o).equal(whole.o)) << kind;
      EXPECT_TRUE(joined(left.final, right.final).equal(whole.final)) << kind;
      EXPECT_TRUE(joined(left.dv, right.dv).equal(whole.dv)) << kind;
      EXPECT_TRUE(joined(left.d_initial, right.d_initial).equal(whole.d_initial)) << kind;
      EXPECT_LT(rms_error(left.dq + right.dq, whole.dq), tolerance) << kind;
      EXPECT_LT(rms_error(left.dk + right.dk, whole.dk), tolerance) << kind;
    }
  }
}

// q, k, v as slices of one tensor, which is how a layer's projection leaves them: read where they lie.
TEST(LinearRecurrenceCpu, TakesSlicesOfOneTensorInPlace) {
  const PoisonFreshMemory poison;
  for (const bool reverse : {false, true}) {
    const Case c = case_of("head", {0, 70, 150}, 32, 32);
    const Inputs in = inputs_of(c, at::kBFloat16);
    const auto apart = run_cpu(c, in, {.reverse = reverse});
    const Tensor qkv = at::cat({in.q, in.k, in.v}, 1).requires_grad_(true),
                 initial = in.initial.clone().requires_grad_(true);
    const auto parts = qkv.split_with_sizes({in.q.size(1), in.k.size(1), in.v.size(1)}, 1);
    const auto result = linear_recurrence(parts[0], parts[1], parts[2], in.log_decay, initial,
                                          to_tensor(c.offsets), {.reverse = reverse});
    EXPECT_EQ(Dispatcher::last("linear_recurrence").chosen, "cpu");
    weigh(result).backward();
    EXPECT_TRUE(result.o_thd.equal(apart.result.o_thd));
    EXPECT_TRUE(qkv.grad().equal(at::cat({apart.gradients[0], apart.gradients[1], apart.gradients[2]}, 1)));
    EXPECT_TRUE(initial.grad().equal(apart.gradients[3]));
  }
}

// Gradients into the middle of larger tensors: what lies around each row stays.
TEST(LinearRecurrenceCpu, WritesNothingButItsRows) {
  for (const char* kind : kKinds) {
    for (const auto& [type, tolerance] : kRecurrenceCpuTypes) {
      SCOPED_TRACE(kind);
      const Case c = case_of(kind, {0, 70, 70, 71, 135});
      const Inputs in = inputs_of(c, type);
      const Tensor d_o = random_tensor({135, 4, 40}, 31, type);
      if (in.log_decay.defined()) in.log_decay.requires_grad_(true);
      const RecurrenceProblem problem =
          recurrence_problem(in.q, in.k, in.v, in.log_decay, in.initial, to_tensor(c.offsets), {});
      std::vector<Tensor> bands;
      // three rows and `beside` channels of 7 around it
      const auto within = [&](const Tensor& like, int64_t beside) {
        auto sizes = like.sizes().vec();
        sizes.front() += 6;
        sizes.back() += 2 * beside;
        bands.push_back(at::full(sizes, 7, like.options().requires_grad(false)));
        return bands.back().narrow(0, 3, like.size(0)).narrow(-1, beside, like.size(-1));
      };
      RecurrenceGradients out{within(in.q, 5), within(in.k, 5), within(in.v, 5), Tensor(),
                              within(in.initial, 0)};
      if (in.log_decay.defined()) out.log_decay = within(in.log_decay, 0);
      Tensor boundaries;
      recurrence_forward_cpu(problem, &boundaries);
      recurrence_backward_cpu(problem, d_o, Tensor(), boundaries, out);
      for (const Tensor* inner :
           {&out.q_thk, &out.k_thk, &out.v_thv, &out.initial_state_nhkv, &out.log_decay}) {
        if (!inner->defined()) continue;
        EXPECT_FALSE(inner->eq(7).all().item<bool>()) << "not written";
        inner->fill_(7);
      }
      for (const Tensor& each : bands)
        EXPECT_TRUE(each.eq(7).all().item<bool>()) << "written beside its rows";
    }
  }
}

// k = 1 − e^g, by hand and by the option; the gradient of g has both parts.
TEST(LinearRecurrenceCpu, TiedKeysEqualKeysMadeByHand) {
  const PoisonFreshMemory poison;
  for (const bool reverse : {false, true}) {
    const Case c = case_of("key_token", {0, 70, 71, 150}, 24, 40, 2.0);
    for (const auto& [type, tolerance] : kRecurrenceCpuTypes) {
      const Inputs in = inputs_of(c, type);
      const auto run = [&](const Inputs& values, const char* implementation) {
        return evaluate(values, true, [&](const Inputs& x) {
          const Forced forced(implementation);
          return linear_recurrence(x.q, Tensor(), x.v, x.log_decay, x.initial, to_tensor(c.offsets),
                                   {.scale = 0.7, .reverse = reverse, .tied_keys = true});
        });
      };
      const auto expected = evaluate(widened(in), true, [&](const Inputs& x) {
        return linear_recurrence_reference(x.q, 1 - x.log_decay.exp(), x.v.repeat_interleave(2, 1),
                                           x.log_decay, x.initial, to_tensor(c.offsets),
                                           {.scale = 0.7, .reverse = reverse});
      });
      for (const auto& [values, implementation, bound] :
           {std::tuple{in, "cpu", tolerance}, std::tuple{in, "reference", tolerance},
            std::tuple{widened(in), "reference", 1e-11}}) {
        const auto tied = run(values, implementation);
        EXPECT_LT(rms_error(tied.result.o_thd, expected.result.o_thd), bound);
        EXPECT_LT(rms_error(tied.result.final_state_nhkv, expected.result.final_state_nhkv), bound);
        for (const size_t i : {0, 2, 3, 4})
          EXPECT_LT(rms_error(tied.gradients[i], expected.gradients[i]), bound)
              << implementation << " gradient " << i;
      }
    }
  }
}

// Gates with a known bound take products on the diagonal; the result is the exact path's.
TEST(LinearRecurrenceCpu, BoundedGatesTakeTheFastPath) {
  const PoisonFreshMemory poison;
  for (const double bound : {-5.0, -2.5, -1.25}) {  // diagonal blocks of 16, 32 and 64 tokens
    const Case c = case_of("key_token", {0, 70, 71, 230}, 24, 40, -bound);
    for (const auto& [type, tolerance] : kRecurrenceCpuTypes) {
      const Inputs in = inputs_of(c, type);
      const auto expected = oracle(c, in, {.scale = 0.7});
      SCOPED_TRACE(bound);
      expect_close(run_cpu(c, in, {.scale = 0.7, .log_decay_bound = bound}), expected, tolerance);
      // too low for the fast path
      expect_close(run_cpu(c, in, {.scale = 0.7, .log_decay_bound = 4 * bound}), expected, tolerance);
    }
  }
}

// Decays per channel are looked at block by block, and in short documents token by token.
TEST(LinearRecurrenceCpu, RefusesARisingDecayWhereverItStands) {
  const Case c = case_of("key_token", {0, 3, 153}, 20, 8);
  const Inputs in = inputs_of(c, at::kFloat);
  for (const int64_t token : {0, 2, 3, 100, 152}) {
    for (const int64_t channel : {0, 19}) {
      const Tensor decay = in.log_decay.clone();
      decay[token][3][channel] = 0.0005;  // rounding
      linear_recurrence(in.q, in.k, in.v, decay, in.initial, to_tensor(c.offsets), {.reverse = token == 100});
      EXPECT_EQ(Dispatcher::last("linear_recurrence").chosen, "cpu");
      decay[token][3][channel] = 0.01;
      EXPECT_THROW(linear_recurrence(in.q, in.k, in.v, decay, in.initial, to_tensor(c.offsets),
                                     {.reverse = token == 100}),
                   Error)
          << token;
    }
  }
}

TEST(LinearRecurrenceCpu, RefusesAGateBelowItsBound) {
  const Case c = case_of("key_token", {0, 70}, 8, 8, 3.0);
  const Inputs in = inputs_of(c, at::kFloat);
  EXPECT_THROW(
      linear_recurrence(in.q, in.k, in.v, in.log_decay, Tensor(), Tensor(), {.log_decay_bound = -1.0}),
      Error);
}

TEST(LinearRecurrenceCpu, StaysFiniteAtTheEdges) {
  const Case c = case_of("key_token", {0, 300}, 16, 16);
  for (const double gate : {-1e4, -0.0, -88.0, -5.0, -double(INFINITY)}) {
    Inputs in = inputs_of(c, at::kFloat);
    in.log_decay = at::full({300, 4, 16}, gate, at::kFloat);
    const auto channel = run_cpu(c, in, {});
    for (const Tensor& each : all_of(channel)) EXPECT_TRUE(each.isfinite().all().item<bool>()) << gate;
    in.log_decay = at::full({300, 4}, gate, at::kFloat);
    for (const Tensor& each : all_of(run_cpu(c, in, {})))
      EXPECT_TRUE(each.isfinite().all().item<bool>()) << gate;
  }
}

TEST(LinearRecurrenceCpu, SaysWhyItRefuses) {
  const auto reason = [](const Tensor& q, const Tensor& v) {
    linear_recurrence(q, q, v, Tensor(), Tensor(), Tensor());
    const auto& choice = Dispatcher::last("linear_recurrence");
    EXPECT_EQ(choice.refusals.front().second, "the tensors are not on a GPU");
    for (const auto& [implementation, why] : choice.refusals) {
      if (implementation == "cpu") return why;
    }
    return choice.chosen;
  };
  const Tensor x = at::zeros({6, 2, 8});
  EXPECT_EQ(reason(x, x), "cpu");
  EXPECT_EQ(reason(x.to(at::kDouble), x.to(at::kDouble)), "takes bf16 and fp32");
  EXPECT_EQ(reason(at::zeros({6, 2, 257}), x), "takes 1 to 256 channels");
  EXPECT_EQ(reason(x, at::zeros({6, 8, 2}).transpose(1, 2)), "channels do not follow each other in memory");
}

}  // namespace
}  // namespace longhaul::kernels::linear_recurrence_cpu_test
