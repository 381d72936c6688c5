// delta_rule in LibTorch's operators as a device runs it (kernels/delta_rule/chunked.h): the values on a
// pretended device, whose spans are wide, and how much of the work has to wait for one another.
#include <gtest/gtest.h>

#include <numeric>

#include "kernels/delta_rule/chunked.h"
#include "kernels/linear_recurrence/delta_rule_cases.h"
#include "support/pretended_device.h"

namespace longhaul::kernels::delta_rule_test {
namespace {

using longhaul::testing::PoisonFreshMemory;

LinearRecurrenceResult on_the_device(DeltaRuleInputs in) {
  for (Tensor* each : members(in)) *each = each->to(pretended_device());
  const LinearRecurrenceResult result = delta_rule(in);
  EXPECT_EQ(Dispatcher::last("delta_rule").chosen, "aten");
  return {result.o_thd.to(at::kCPU), result.final_state_nhkv.to(at::kCPU)};
}

class DeltaRuleOnADevice : public ::testing::TestWithParam<DeltaCase> {};

TEST_P(DeltaRuleOnADevice, EqualsReference) {
  const DeltaCase& c = GetParam();
  for (const auto& [type, tolerance] :
       {std::pair{at::kDouble, 1e-11}, {at::kFloat, 2e-5}, {at::kBFloat16, 8e-3}}) {
    const DeltaRuleInputs in = delta_inputs(c, type);
    expect_near(delta_evaluated(in, on_the_device), delta_evaluated(in_fp64(in), delta_rule_reference),
                tolerance);
  }
}
INSTANTIATE_TEST_SUITE_P(Cases, DeltaRuleOnADevice, ::testing::ValuesIn(delta_cases()));

// In pieces, of several documents at a time, with states between them.
TEST_P(DeltaRuleOnADevice, PiecesEqualReference) {
  const DeltaCase& c = GetParam();
  const DeltaRuleProblem problem = delta_rule_problem(delta_inputs(c));
  const Tensor d_o = random_tensor(problem.in.v_thv.sizes(), 21),
               d_final = random_tensor(problem.in.initial_state_nhkv.sizes(), 22);
  const LinearRecurrenceResult expected = delta_rule_forward_reference(problem);
  const DeltaRuleGradients gradients = delta_rule_backward_reference(problem, d_o, d_final);
  const PoisonFreshMemory poison;
  for (const DeltaRoom& room : {DeltaRoom{1, 1}, {2, 2}, {5, 2}, {9, 4}}) {
    Tensor kept;
    const LinearRecurrenceResult found = delta_rule_forward_chunked(problem, room, &kept);
    const DeltaRuleGradients made = delta_rule_backward_chunked(problem, room, kept, d_o, d_final);
    std::vector<Tensor> all{found.o_thd,  found.final_state_nhkv, made.q_tgk, made.k_tgk, made.v_thv,
                            made.beta_th, made.initial_state_nhkv};
    std::vector<Tensor> reference{
        expected.o_thd,    expected.final_state_nhkv,   gradients.q_tgk, gradients.k_tgk, gradients.v_thv,
        gradients.beta_th, gradients.initial_state_nhkv};
    if (problem.decays()) {
      all.push_back(made.log_decay);
      reference.push_back(gradients.log_decay);
    }
    expect_near(all, reference, 1e-11);
  }
}

// Forward and backward, of `documents` documents of `length` tokens.
int64_t operators_of(int64_t documents, int64_t length) {
  DeltaCase c{.name = "", .decay = "head", .heads = 1, .key = 4, .value = 4, .steep = 1};
  c.offsets.resize(static_cast<size_t>(documents) + 1);
  for (size_t n = 0; n < c.offsets.size(); ++n) c.offsets[n] = static_cast<int64_t>(n) * length;
  DeltaRuleInputs in = delta_inputs(c, at::kFloat);
  for (Tensor* each : members(in)) *each = each->to(pretended_device()).requires_grad_(true);
  const Tensor d_o = at::ones_like(in.v_thv);
  pretended_operators();
  delta_rule(in).o_thd.backward(d_o);
  return pretended_operators();
}

// What waits is one product a step: forward, when forward is made again, and backward. Documents go together.
TEST(DeltaRuleSpans, StepsOfADeviceAreOneProductEach) {
  const int64_t four = operators_of(4, 1024);
  EXPECT_EQ(operators_of(4, 2048) - four, 3 * 16);
  EXPECT_EQ(operators_of(7, 1024), four);
  EXPECT_LT(four, 320);
}

// Keys that are all alike, written with β near 2: powers of the system grow without bound, and only their
// sum is small.
TEST(DeltaRuleSpans, SystemsOfKeysThatAreAlike) {
  for (const auto& [type, tolerance] : {std::pair{at::kDouble, 1e-11}, {at::kFloat, 2e-5}}) {
    const DeltaCase c{.name = "",
                      .decay = "none",
                      .offsets = {0, 190},
                      .key = 8,
                      .value = 8,
                      .least_beta = 1.9,
                      .most_beta = 1.95};
    DeltaRuleInputs in = delta_inputs(c, type);
    const Tensor one = in.k_tgk.narrow(0, 0, 1), near = one.add(in.k_tgk, 0.05);
    in.k_tgk = near / near.norm(2, 2, true);
    expect_near(delta_evaluated(in, on_the_device), delta_evaluated(in_fp64(in), delta_rule_reference),
                tolerance);
  }
}

void expect_whole(const std::vector<int64_t>& lengths, int64_t width, const DeltaRoom& room) {
  std::vector<int64_t> offsets{0};
  for (const int64_t length : lengths) offsets.push_back(offsets.back() + length);
  const DeltaCut cut = delta_cut(offsets, width, room);
  std::vector<int64_t> next(offsets.begin(), offsets.end() - 1);  // token of each document
  int64_t kept = 0;
  for (const DeltaSpanCut& span : cut.spans) {
    ASSERT_LE(span.chunks(), room.chunks);
    ASSERT_EQ(static_cast<int64_t>(span.places.size()), span.chunks() * width);
    const size_t first = static_cast<size_t>(span.documents[0]);
    EXPECT_EQ(span.kept, next[first] == offsets[first] ? -1 : kept);
    if (span.kept >= 0) kept += static_cast<int64_t>(span.documents.size());
    for (const int64_t n : span.documents) {
      const auto at = static_cast<size_t>(n);
      EXPECT_EQ(span.kept < 0, next[at] == offsets[at]);
    }
    for (size_t s = 0; s + 1 < span.steps.size(); ++s) {
      const int64_t here = span.steps[s + 1] - span.steps[s];
      ASSERT_TRUE(s == 0 || here <= span.steps[s] - span.steps[s - 1]);
      for (int64_t rank = 0; rank < here; ++rank) {
        const auto n = static_cast<size_t>(span.documents[static_cast<size_t>(rank)]);
        const int64_t chunk = span.steps[s] + rank;
        for (int64_t i = 0; i < width; ++i) {
          const int64_t token = span.places[static_cast<size_t>(chunk * width + i)];
          ASSERT_EQ(token, next[n] < offsets[n + 1] ? next[n]++ : -1);
        }
        if (next[n] == offsets[n + 1]) {
          EXPECT_EQ(span.last[static_cast<size_t>(rank)], chunk);
        }
      }
    }
    for (size_t i = 0; i < span.token.size(); ++i)
      ASSERT_EQ(span.places[static_cast<size_t>(span.place[i])], span.token[i]);
    EXPECT_EQ(span.tokens(), std::ranges::count_if(span.places, [](int64_t token) { return token >= 0; }));
  }
  EXPECT_EQ(cut.kept, kept);
  EXPECT_EQ(next, std::vector<int64_t>(offsets.begin() + 1, offsets.end()));
}

TEST(DeltaRuleSpans, SpansTakeEveryTokenOnce) {
  for (const DeltaRoom& room : {DeltaRoom{1, 1}, {2, 1}, {2, 2}, {3, 2}, {7, 1}, {7, 3}, {100, 6}}) {
    expect_whole({1, 0, 15, 16, 17, 0, 33, 100}, 16, room);
    expect_whole({300, 5, 5, 5, 80, 81}, 16, room);
    expect_whole({300, 160, 301, 163, 40}, 16, room);
    expect_whole({0}, 16, room);
    expect_whole({64, 64, 64}, 64, room);
  }
  // Pieces of long documents go together.
  const DeltaCut cut = delta_cut({0, 160, 320, 480}, 16, {.chunks = 6, .long_documents = 3});
  ASSERT_EQ(cut.spans.size(), 5u);
  EXPECT_EQ(cut.spans[0].documents.size(), 3u);
  EXPECT_EQ(cut.kept, 4 * 3);
}

}  // namespace
}  // namespace longhaul::kernels::delta_rule_test
