// Gates that stay at their known bound, where the diagonal blocks of the CPU form are products with inverse
// decays: neither a value nor a gradient may be lost, however small the gradients are that come in.
// ctest: label=fast timeout=120
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kernels/linear_recurrence/linear_recurrence_gate_cases.h"
#include "support/instruction_sets.h"
#include "tensor/to_tensor.h"

namespace longhaul::kernels::linear_recurrence_bound_test {
namespace {

using longhaul::testing::for_each_instruction_set;
using longhaul::testing::PoisonFreshMemory;

// Of the whole, and of stretches of eight tokens of a channel: a few dozen numbers, whose roundings do not
// even out as much.
struct Tolerance {
  at::ScalarType type;
  double whole, stretch;
  // A decay's gradient is what is left of sums that are 1/λ times as large (docs/sources/linear-attention.md
  // §2): of them fp32 keeps so much less. In bf16 it is the roundings of the products' operands, measured up
  // to 5.6 %, that do not cancel as the sums do.
  Tolerance of_decay(double bound) const {
    const double cancelled = std::max(1.0, std::exp(-bound) / 3);
    return type == at::kFloat ? Tolerance{type, whole * cancelled, stretch * cancelled}
                              : Tolerance{type, whole, 0.1};
  }
};
constexpr Tolerance kBoundTolerances[] = {{at::kFloat, 1e-5, 2e-4}, {at::kBFloat16, 5e-3, 5e-2}};

const Case kCase{.name = "bound",
                 .decay = "key_token",
                 .offsets = {0, 300, 301, 590},
                 .heads = 2,
                 .key_heads = 1,
                 .key = 20,
                 .value = 24};

enum class AtBound { kAll, kOneChannel };

Inputs inputs_at(double bound, AtBound which, at::ScalarType type) {
  Inputs in = inputs_of(kCase, type);
  in.log_decay = which == AtBound::kAll
                     ? at::full_like(in.log_decay, bound)
                     : random_tensor(in.log_decay.sizes(), 7).sigmoid().mul(-0.02).to(at::kFloat);
  in.log_decay.select(2, 3).fill_(bound);
  return in;
}

void expect_nothing_lost(const Inputs& in, const Tolerance& tolerance, const LinearRecurrenceOptions& options,
                         double upstream) {
  const Tolerance of_decay = tolerance.of_decay(options.log_decay_bound);
  const auto run = [&](const Inputs& values, const auto& op) {
    return evaluate(
        values, true,
        [&](const Inputs& x) {
          return op(x.q, x.k, x.v, x.log_decay, x.initial, to_tensor(kCase.offsets), options);
        },
        upstream);
  };
  const Evaluation expected = run(widened(in), linear_recurrence_reference);
  const Forced forced("cpu");
  const Evaluation found = run(in, linear_recurrence);
  expect_close(found, expected, tolerance.whole, of_decay.whole);
  EXPECT_LT(worst_stretch(found.result.o_thd, expected.result.o_thd), tolerance.stretch) << "o";
  const char* names[] = {"dq", "dk", "dv", "", "d log_decay"};
  for (const size_t i : {0, 1, 2, 4}) {
    EXPECT_LT(worst_stretch(found.gradients[i], expected.gradients[i]),
              i == 4 ? of_decay.stretch : tolerance.stretch)
        << names[i];
  }
}

// The first block of each pair is as long as the bound allows a diagonal block to be; in the second it is one
// of several.
TEST(LinearRecurrenceBound, AGateThatStaysAtItLosesNothing) {
  const PoisonFreshMemory poison;
  const std::pair<double, std::vector<int64_t>> bounds[] = {
      {-5, {16, 128}}, {-2.5, {32, 64}}, {-1.25, {64, 256}}, {-0.625, {128}}, {-0.3125, {256}}};
  for (const auto& [bound, blocks] : bounds) {
    for (const Tolerance& tolerance : kBoundTolerances) {
      for (const AtBound which : {AtBound::kAll, AtBound::kOneChannel}) {
        const Inputs in = inputs_at(bound, which, tolerance.type);
        for (const int64_t block : blocks) {
          for (const double upstream : {1.0, 1e-4, 1e-8}) {
            SCOPED_TRACE(fmt::format("{} bound {} {} block {} upstream {}", name_of(tolerance.type), bound,
                                     which == AtBound::kAll ? "everywhere" : "in one channel", block,
                                     upstream));
            expect_nothing_lost(in, tolerance, {.scale = 0.7, .log_decay_bound = bound, .block = block},
                                upstream);
          }
        }
      }
    }
  }
}

TEST(LinearRecurrenceBound, EveryInstructionSetLosesNothing) {
  for (const Tolerance& tolerance : kBoundTolerances) {
    const Inputs in = inputs_at(-1.25, AtBound::kAll, tolerance.type);
    for_each_instruction_set(
        [&] { expect_nothing_lost(in, tolerance, {.log_decay_bound = -1.25, .block = 64}, 1e-4); });
  }
}

// A gate whose logits are so low that λ = γ, with keys of its own and tied ones: γ is the bound.
TEST(LinearRecurrenceBound, AGateAtItsLowerBoundLosesNothing) {
  for (const bool tied : {false, true}) {
    for (const double exponent : {-5.0, -2.5, -1.25}) {
      GateCase c{.shape = kCase,
                 .kind = RecurrenceGate::Kind::kLowerBounded,
                 .divisor = 1,
                 .spread = 0.5,
                 .shift = -12};
      c.least = c.largest = std::exp(exponent);
      c.tied = tied;
      for (const Tolerance& tolerance : kBoundTolerances) {
        SCOPED_TRACE(fmt::format("{} log γ {} {}", name_of(tolerance.type), exponent, tied ? "tied" : ""));
        const GateInputs in = gate_inputs(c, tolerance.type, at::kFloat), wide = widened(in);
        const auto options = [&](const GateInputs& x) {
          LinearRecurrenceOptions of = gate_options(c, x);
          of.block = 64;
          return of;
        };
        const auto found = run_gate_by("cpu", c, in, options(in), 1e-4),
                   expected = run_gate_by("reference", c, wide, options(wide), 1e-4);
        const Tolerance of_decay = tolerance.of_decay(exponent);
        expect_gate_close(found, expected, tolerance.whole, of_decay.whole);
        for (const size_t i : {0, 2, 3, 4, 6}) {
          if (!found[i].defined()) continue;
          EXPECT_LT(worst_stretch(found[i], expected[i]), i == 6 ? of_decay.stretch : tolerance.stretch)
              << (i == 0 ? "o" : kGateInputs[i - 2]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace longhaul::kernels::linear_recurrence_bound_test
