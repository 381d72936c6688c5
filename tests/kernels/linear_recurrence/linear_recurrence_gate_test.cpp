// Gates of linear_recurrence: made inside the operator from logits, against the definition and against decays
// and keys made by hand. ctest: label=fast timeout=120
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "kernels/linear_recurrence/cpu/cpu.h"
#include "kernels/linear_recurrence/linear_recurrence_gate_cases.h"
#include "support/instruction_sets.h"
#include "support/refused.h"
#include "support/threads.h"

namespace longhaul::kernels::linear_recurrence_gate_test {
namespace {

using longhaul::testing::PoisonFreshMemory;
using Kind = RecurrenceGate::Kind;

// The call without a gate: g and k made by hand under autograd, by the formulas of
// docs/sources/linear-attention.md §5.3.
LinearRecurrenceResult by_hand(const GateCase& c, const GateInputs& in) {
  Tensor g = at::log_sigmoid(in.x).div(c.divisor), k = in.k;
  if (in.bound.defined()) g = at::logaddexp(in.bound.log(), (-in.bound).log1p() + at::log_sigmoid(in.x));
  if (c.tied) k = in.bound.defined() ? (1 - in.bound) * (-in.x).sigmoid() : -g.expm1();
  const Tensor v = c.tied ? in.v.repeat_interleave(c.shape.heads / c.shape.key_heads, 1) : in.v;
  return linear_recurrence_reference(in.q, k, v, g, in.initial, to_tensor(c.shape.offsets), {.scale = 0.7});
}

class LinearRecurrenceGateCases : public ::testing::TestWithParam<GateCase> {};

TEST_P(LinearRecurrenceGateCases, ReferenceEqualsDecaysAndKeysMadeByHand) {
  const GateCase& c = GetParam();
  const GateInputs in = gate_inputs(c, at::kDouble, at::kDouble);
  auto found = run_gate_by("reference", c, in, gate_options(c, in));
  EXPECT_EQ(Dispatcher::last("linear_recurrence").chosen, "reference");
  auto expected = evaluate_gate(in, [&](const GateInputs& x) { return by_hand(c, x); });
  // By hand, a γ of 0 makes log γ, whose gradient is 0 · ∞.
  if (c.least == 0) found[7] = expected[7] = Tensor();
  if (c.spikes && in.bound.defined()) found[6] = expected[6] = Tensor();
  expect_gate_close(found, expected, 1e-11);
}

TEST_P(LinearRecurrenceGateCases, AtenEqualsTheReference) {
  const GateCase& c = GetParam();
  const GateInputs in = gate_inputs(c, at::kDouble, at::kDouble);
  const auto options = gate_options(c, in, true);
  expect_gate_close(run_gate_by("aten", c, in, options), run_gate_by("reference", c, in, options), 1e-10);
}

INSTANTIATE_TEST_SUITE_P(Cases, LinearRecurrenceGateCases, ::testing::ValuesIn(load_gate_cases()));

GateCase small_case(Kind kind, bool tied, double least = 0.2, double largest = 0.6) {
  GateCase c{.shape = {.name = "small",
                       .decay = "key_token",
                       .offsets = {0, 7, 8, 8, 12},
                       .heads = 2,
                       .key_heads = 1,
                       .key = 3,
                       .value = 2}};
  c.kind = kind;
  c.divisor = kind == Kind::kLogSigmoid ? 16 : 1;
  c.spread = 1;
  c.least = least, c.largest = largest;
  c.tied = tied;
  return c;
}

TEST(LinearRecurrenceGate, GradientsMatchFiniteDifferences) {
  for (const Kind kind : {Kind::kLogSigmoid, Kind::kLowerBounded}) {
    for (const bool tied : {false, true}) {
      for (const double least : {0.2, 1e-4}) {  // differences must not step below 0
        const GateCase c = small_case(kind, tied, least);
        GateInputs in = gate_inputs(c, at::kDouble, at::kDouble);
        std::vector<Tensor> values;
        for (Tensor* each : in.all()) {
          if (each->defined()) values.push_back(*each);
        }
        const Forced forced("reference");
        longhaul::testing::check_gradients(
            [&](const std::vector<Tensor>& x) {
              GateInputs at = in;
              size_t next = 0;
              for (Tensor* each : at.all()) {
                if (each->defined()) *each = x[next++];
              }
              return weigh(linear_recurrence(at.q, at.k, at.v, at.x, at.initial, to_tensor(c.shape.offsets),
                                             gate_options(c, at)));
            },
            values);
      }
    }
  }
}

TEST(LinearRecurrenceGate, RefusesBadArgumentsByName) {
  const Tensor q = at::zeros({4, 2, 3}), k = at::zeros({4, 1, 3}), v = at::zeros({4, 1, 5}),
               x = at::zeros({4, 2, 3});
  const auto refused = [&](const Tensor& logits, const RecurrenceGate& gate) {
    return longhaul::testing::refused([&] { linear_recurrence(q, k, v, logits, {}, {}, {.gate = gate}); });
  };
  using ::testing::HasSubstr;
  const Tensor bound = at::full({2, 3}, 0.5);
  EXPECT_EQ(refused(x, {Kind::kLogSigmoid}), "accepted");
  EXPECT_EQ(refused(x + 7, {Kind::kLowerBounded, 1, bound}), "accepted");  // logits may have any sign
  EXPECT_THAT(refused({}, {Kind::kLogSigmoid}), HasSubstr("bad argument log_decay"));
  EXPECT_THAT(refused(at::zeros({2}), {Kind::kLogSigmoid}), HasSubstr("bad argument log_decay"));
  EXPECT_THAT(refused(at::zeros({4, 2}), {Kind::kLowerBounded, 1, bound}),
              HasSubstr("bad argument log_decay"));
  EXPECT_THAT(refused(x, {Kind::kLogSigmoid, 0}), HasSubstr("bad argument gate.divisor"));
  EXPECT_THAT(refused(x, {Kind::kLogSigmoid, double(INFINITY)}), HasSubstr("bad argument gate.divisor"));
  EXPECT_THAT(refused(x, {Kind::kLowerBounded, 2, bound}), HasSubstr("bad argument gate.divisor"));
  EXPECT_THAT(refused(x, {Kind::kLogSigmoid, 1, bound}), HasSubstr("bad argument gate.lower_bound"));
  for (const Tensor& wrong : {Tensor(), at::zeros({3}), at::zeros({2, 3}, at::kDouble), bound.to(at::kMeta),
                              bound + 0.5, bound - 0.6, at::full({2, 3}, NAN)}) {
    EXPECT_THAT(refused(x, {Kind::kLowerBounded, 1, wrong}), HasSubstr("bad argument gate.lower_bound"));
  }
}

// HGRN2 with γ = 0 and f → ∞: the state stays as it was, whatever comes (docs/sources/linear-attention.md
// §12.8).
TEST(LinearRecurrenceGate, FreezesItsState) {
  const GateCase c = small_case(Kind::kLowerBounded, true, 0, 0);
  for (const char* implementation : {"reference", "aten", "cpu"}) {
    for (const double logit : {1e4, double(INFINITY)}) {
      GateInputs in = gate_inputs(c, at::kFloat, at::kFloat);
      in.x.fill_(logit);
      const auto found = run_gate_by(implementation, c, in, gate_options(c, in));
      EXPECT_TRUE(found[1].equal(in.initial)) << implementation;
      for (const size_t i : {6, 7}) EXPECT_TRUE(found[i].eq(0).all().item<bool>()) << implementation;
    }
  }
}

// ---- the form of our own for the CPU

constexpr std::tuple<at::ScalarType, at::ScalarType, double> kGateTypes[] =
    {  // of q, k, v; of the logits; tolerance, reasons in cases.toml
        {at::kFloat, at::kFloat, 1e-5},
        {at::kFloat, at::kBFloat16, 1e-5},
        {at::kBFloat16, at::kFloat, 5e-3},
        {at::kBFloat16, at::kBFloat16, 5e-3}};

// Gradients of logits are rounded to them.
double tolerance_of(at::ScalarType logits, double tolerance) {
  return logits == at::kBFloat16 ? std::max(tolerance, 5e-3) : tolerance;
}

void expect_cpu_like_reference(const GateCase& c, at::ScalarType type, at::ScalarType logits,
                               double tolerance, bool reverse) {
  SCOPED_TRACE(std::string(name_of(type)) + ", logits " + std::string(name_of(logits)) +
               (reverse ? ", reverse" : ""));
  const GateInputs in = gate_inputs(c, type, logits), wide = widened(in);
  auto found = run_gate_by("cpu", c, in, gate_options(c, in, reverse));
  EXPECT_EQ(found[6].scalar_type(), logits);
  auto expected = run_gate_by("reference", c, wide, gate_options(c, wide, reverse));
  EXPECT_LT(rms_error(found[6], expected[6]), tolerance_of(logits, tolerance)) << "d logits";
  found[6] = expected[6] = Tensor();
  expect_gate_close(found, expected, tolerance);
}

class LinearRecurrenceGateCpuCases : public ::testing::TestWithParam<GateCase> {};

TEST_P(LinearRecurrenceGateCpuCases, EqualTheReference) {
  const PoisonFreshMemory poison;
  for (const auto& [type, logits, tolerance] : kGateTypes) {
    for (const bool reverse : {false, true})
      expect_cpu_like_reference(GetParam(), type, logits, tolerance, reverse);
  }
}

TEST_P(LinearRecurrenceGateCpuCases, GiveTheSameBitsHoweverTheyAreRun) {
  const PoisonFreshMemory poison;
  const GateCase& c = GetParam();
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const GateInputs in = gate_inputs(c, type, at::kBFloat16);
    const auto run = [&](RecurrenceExecution execution) {
      LinearRecurrenceOptions options = gate_options(c, in);
      options.block = 32, options.execution = execution;
      std::vector<Tensor> all;
      for (const Tensor& each : run_gate_by("cpu", c, in, options)) {
        if (each.defined()) all.push_back(each);
      }
      return all;
    };
    const auto fused = run(RecurrenceExecution::kFused);
    for (const auto execution : {RecurrenceExecution::kSegmented, RecurrenceExecution::kTwoPass}) {
      const auto other = run(execution);
      for (size_t i = 0; i < fused.size(); ++i) EXPECT_TRUE(other[i].equal(fused[i])) << "output " << i;
    }
    longhaul::testing::expect_same_for_all_threads([&] { return run(RecurrenceExecution::kAuto); });
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, LinearRecurrenceGateCpuCases, ::testing::ValuesIn(load_gate_cases()));

TEST(LinearRecurrenceGateCpu, EveryInstructionSetEqualsTheReference) {
  for (const Kind kind : {Kind::kLogSigmoid, Kind::kLowerBounded}) {
    for (const double least : {0.0, 0.4}) {
      GateCase c = small_case(kind, true, least);
      c.shape.offsets = {0, 90, 91, 230};
      c.shape.key = 21, c.spread = 3;
      longhaul::testing::for_each_instruction_set([&] {
        for (const auto& [type, logits, tolerance] : kGateTypes)
          expect_cpu_like_reference(c, type, logits, tolerance, false);
      });
    }
  }
}

// What the operator does for itself is what it does for a caller who made decays and keys of the same
// numbers.
TEST(LinearRecurrenceGateCpu, EqualsTheCallWithoutAGate) {
  for (const Kind kind : {Kind::kLogSigmoid, Kind::kLowerBounded}) {
    GateCase c = small_case(kind, false);
    c.shape.offsets = {0, 70, 150};
    c.shape.key = 32;
    const GateInputs in = gate_inputs(c, at::kBFloat16, at::kBFloat16);
    const Forced forced("cpu");
    Tensor g = at::log_sigmoid(in.x.to(at::kFloat)).div(c.divisor);
    LinearRecurrenceOptions without{.scale = 0.7};
    if (in.bound.defined()) {
      g = (in.bound + (1 - in.bound) * in.x.to(at::kFloat).sigmoid()).log();
      without.log_decay_bound = std::log(c.least);  // which the gate knows by itself
    }
    const auto fused = linear_recurrence(in.q, in.k, in.v, in.x, in.initial, to_tensor(c.shape.offsets),
                                         gate_options(c, in));
    const auto apart =
        linear_recurrence(in.q, in.k, in.v, g, in.initial, to_tensor(c.shape.offsets), without);
    // decays a few units of fp32 apart turn a few roundings to bf16
    EXPECT_LT(rms_error(fused.o_thd, apart.o_thd), 1e-3);
    EXPECT_LT(rms_error(fused.final_state_nhkv, apart.final_state_nhkv), 1e-4);
  }
}

// Logits as a slice of a projection's output; gradients alone of what is asked for.
TEST(LinearRecurrenceGateCpu, TakesSlicesAndGivesWhatIsWanted) {
  const PoisonFreshMemory poison;
  GateCase c = small_case(Kind::kLowerBounded, true);
  c.shape.offsets = {0, 70, 150};
  c.shape.key = 32;
  const GateInputs in = gate_inputs(c, at::kBFloat16, at::kBFloat16);
  const auto options = gate_options(c, in);
  const auto apart = run_gate_by("cpu", c, in, options);
  const Tensor qx = at::cat({in.q, in.x}, 1).requires_grad_(true);
  const auto parts = qx.split(c.shape.heads, 1);
  const Forced forced("cpu");
  const auto call = [&](const Tensor& q, const Tensor& x, const Tensor& bound) {
    LinearRecurrenceOptions with = options;
    with.gate.lower_bound_hk = bound;
    return linear_recurrence(q, Tensor(), in.v, x, in.initial, to_tensor(c.shape.offsets), with);
  };
  weigh(call(parts[0], parts[1], in.bound)).backward();
  EXPECT_TRUE(qx.grad().equal(at::cat({apart[2], apart[6]}, 1)));
  const Tensor bound = in.bound.clone().requires_grad_(true);
  weigh(call(in.q, in.x, bound)).backward();
  EXPECT_TRUE(bound.grad().equal(apart[7]));
}

// Gradients into the middle of larger tensors: what lies around each row stays.
TEST(LinearRecurrenceGateCpu, WritesNothingButItsRows) {
  for (const bool per_head : {false, true}) {
    for (const auto& [type, logits, tolerance] : kGateTypes) {
      GateCase c = small_case(per_head ? Kind::kLogSigmoid : Kind::kLowerBounded, false, 0, 0.5);
      c.shape.offsets = {0, 70, 70, 71, 135};
      c.shape.key = 24, c.shape.value = 40, c.spread = 4;
      if (per_head) c.shape.decay = "head_token";
      GateInputs in = gate_inputs(c, type, logits);
      in.x.requires_grad_(true);
      const RecurrenceProblem problem = recurrence_problem(in.q, in.k, in.v, in.x, in.initial,
                                                           to_tensor(c.shape.offsets), gate_options(c, in));
      std::vector<Tensor> bands;
      const auto within = [&](const Tensor& like) {  // three rows of 7 before and after it
        auto sizes = like.sizes().vec();
        sizes.front() += 6;
        bands.push_back(at::full(sizes, 7, like.options().requires_grad(false)));
        return bands.back().narrow(0, 3, like.size(0));
      };
      RecurrenceGradients out{within(in.q), within(in.k), within(in.v), within(in.x), within(in.initial)};
      if (in.bound.defined()) out.lower_bound_hk = within(in.bound);
      Tensor boundaries;
      recurrence_forward_cpu(problem, &boundaries);
      recurrence_backward_cpu(problem, random_tensor({135, 2, 40}, 31, type), Tensor(), boundaries, out);
      for (const Tensor* inner : {&out.log_decay, &out.lower_bound_hk}) {
        if (!inner->defined()) continue;
        EXPECT_FALSE(inner->eq(7).any().item<bool>()) << "not written";
      }
      for (const Tensor& each : bands) {
        EXPECT_TRUE(each.narrow(0, 0, 3).eq(7).all().item<bool>() &&
                    each.narrow(0, each.size(0) - 3, 3).eq(7).all().item<bool>())
            << "written beside its rows";
      }
    }
  }
}

// Logits without end, γ of 0 and of almost 1: everything finite. A NaN is passed on, not swallowed.
TEST(LinearRecurrenceGateCpu, StaysFiniteAtTheEdges) {
  const Forced forced("cpu");
  for (const Kind kind : {Kind::kLogSigmoid, Kind::kLowerBounded}) {
    for (const double least : {0.0, 1e-40, 1 - 1e-6}) {
      GateCase c = small_case(kind, true, least, least);
      c.shape.offsets = {0, 3, 70};
      for (const double logit : {1e4, -1e4, double(INFINITY), -double(INFINITY), -0.0, double(NAN)}) {
        GateInputs in = gate_inputs(c, at::kFloat, at::kFloat);
        in.x.fill_(logit);
        for (const Tensor& each : run_gate(c, in, gate_options(c, in))) {
          if (!each.defined()) continue;
          EXPECT_EQ(each.isfinite().all().item<bool>(), !std::isnan(logit)) << logit << " " << least;
        }
      }
    }
  }
}

// γ bounds the gate by itself; a narrower promise of the caller's is checked.
TEST(LinearRecurrenceGateCpu, ChecksAPromisedBoundButNotItsOwn) {
  const Forced forced("cpu");
  GateCase c = small_case(Kind::kLowerBounded, true, 0.1, 0.5);
  c.shape.offsets = {0, 70};
  GateInputs in = gate_inputs(c, at::kFloat, at::kFloat);
  in.x.fill_(-1e4);  // λ = γ
  auto options = gate_options(c, in);
  run_gate(c, in, options);
  options.log_decay_bound = -5;
  run_gate(c, in, options);
  options.log_decay_bound = -1;
  EXPECT_THROW(run_gate(c, in, options), Error);
}

TEST(LinearRecurrenceGateCpu, SaysWhyItRefuses) {
  GateCase c = small_case(Kind::kLogSigmoid, false);
  const GateInputs in = gate_inputs(c, at::kFloat, at::kDouble);
  linear_recurrence(in.q, in.k, in.v, in.x, {}, {}, gate_options(c, in));
  const auto& choice = Dispatcher::last("linear_recurrence");
  EXPECT_EQ(choice.chosen, "aten");
  EXPECT_THAT(choice.refusals, ::testing::Contains(::testing::Pair("cpu", "takes logits of bf16 and fp32")));
}

}  // namespace
}  // namespace longhaul::kernels::linear_recurrence_gate_test
