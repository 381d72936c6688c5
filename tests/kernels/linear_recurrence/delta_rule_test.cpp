#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/threads/parallel.h"
#include "kernels/delta_rule/gates.h"
#include "kernels/linear_recurrence/delta_rule_cases.h"
#include "support/refused.h"

namespace longhaul::kernels::delta_rule_test {
namespace {

using longhaul::testing::PoisonFreshMemory;
using longhaul::testing::refused;
using longhaul::testing::relative_error;
using ::testing::HasSubstr;

// S_t = (1 − β kᵀk) diag(λ) S_{t−1} + β kᵀ v with the matrices written out, differentiated by LibTorch.
LinearRecurrenceResult written_out(const DeltaRuleInputs& in) {
  const int64_t heads = in.v_thv.size(1), group = heads / in.q_tgk.size(1), keys = in.q_tgk.size(2);
  const auto* offsets = in.offsets.const_data_ptr<int64_t>();
  std::vector<Tensor> outputs, finals;
  for (int64_t n = 0; n + 1 < in.offsets.size(0); ++n) {
    std::vector<Tensor> states;
    for (int64_t h = 0; h < heads; ++h) states.push_back(in.initial_state_nhkv[n][h]);
    for (int64_t t = offsets[n]; t < offsets[n + 1]; ++t) {
      for (int64_t h = 0; h < heads; ++h) {
        const Tensor k = in.k_tgk[t][h / group], beta = in.beta_th[t][h];
        Tensor& state = states[static_cast<size_t>(h)];
        if (in.log_decay.defined())
          state = (in.log_decay[t][h].exp() * at::ones({keys}, k.options())).unsqueeze(1) * state;
        state = at::mm(at::eye(keys, k.options()) - beta * at::outer(k, k), state) +
                beta * at::outer(k, in.v_thv[t][h]);
        outputs.push_back(in.scale * at::mv(state.t(), in.q_tgk[t][h / group]));
      }
    }
    finals.push_back(at::stack(states));
  }
  return {at::stack(outputs).view(in.v_thv.sizes()), at::stack(finals)};
}

class DeltaRuleCases : public ::testing::TestWithParam<DeltaCase> {};

TEST_P(DeltaRuleCases, ReferenceEqualsTheMatricesWrittenOut) {
  const DeltaCase& c = GetParam();
  if (c.tokens() * c.heads > 600) GTEST_SKIP() << "a graph of many small tensors";
  const DeltaRuleInputs in = delta_inputs(c);
  expect_near(delta_evaluated(in, delta_rule_reference), delta_evaluated(in, written_out), 1e-11);
}

TEST_P(DeltaRuleCases, ChunkedEqualsReference) {
  const DeltaCase& c = GetParam();
  const PoisonFreshMemory poison;
  for (const auto& [type, tolerance] :
       {std::pair{at::kDouble, 1e-11}, {at::kFloat, 2e-5}, {at::kBFloat16, 8e-3}}) {
    const DeltaForced forced("aten");
    const DeltaRuleInputs in = delta_inputs(c, type);
    expect_near(delta_evaluated(in, delta_rule), delta_evaluated(in_fp64(in), delta_rule_reference),
                tolerance);
  }
}

TEST_P(DeltaRuleCases, PackedDocumentsEqualOneAtATime) {
  const DeltaCase& c = GetParam();
  const DeltaRuleInputs in = delta_inputs(c);
  const LinearRecurrenceResult packed = delta_rule(in);
  for (size_t n = 0; n + 1 < c.offsets.size(); ++n) {
    const auto begin = c.offsets[n], length = c.offsets[n + 1] - begin;
    DeltaRuleInputs alone = in;
    for (Tensor* each : {&alone.q_tgk, &alone.k_tgk, &alone.v_thv, &alone.beta_th})
      *each = each->narrow(0, begin, length);
    if (alone.log_decay.defined()) alone.log_decay = alone.log_decay.narrow(0, begin, length);
    alone.initial_state_nhkv = in.initial_state_nhkv.narrow(0, static_cast<int64_t>(n), 1);
    alone.offsets = Tensor();
    const LinearRecurrenceResult result = delta_rule(alone);
    EXPECT_LT(relative_error(packed.o_thd.narrow(0, begin, length), result.o_thd), 1e-12);
    EXPECT_LT(relative_error(packed.final_state_nhkv[static_cast<int64_t>(n)], result.final_state_nhkv[0]),
              1e-12);
  }
}

// Decoding: token by token where a document is short, in chunks where it is long; the others' states stay.
TEST_P(DeltaRuleCases, ContinuedEqualsReference) {
  const DeltaCase& c = GetParam();
  DeltaRuleInputs in = delta_inputs(c);
  const LinearRecurrenceResult expected = delta_rule_reference(in);
  const int64_t documents = c.documents();
  std::vector<int64_t> rows;
  for (int64_t n = 0; n < documents; ++n) rows.push_back(2 * (documents - n));
  const Tensor states = random_tensor({2 * documents + 1, c.heads, c.key, c.value}, 9),
               before = states.clone();
  for (int64_t n = 0; n < documents; ++n)
    states[rows[static_cast<size_t>(n)]].copy_(in.initial_state_nhkv[n]);
  in.initial_state_nhkv = Tensor();
  const PoisonFreshMemory poison;
  EXPECT_LT(share(delta_rule_continued(in, {states, rows}), expected.o_thd), 1e-11);
  for (int64_t n = 0; n < documents; ++n) {
    EXPECT_LT(share(states[rows[static_cast<size_t>(n)]], expected.final_state_nhkv[n]), 1e-11);
    EXPECT_TRUE(states[2 * n + 1].equal(before[2 * n + 1])) << "a sequence that was not named";
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, DeltaRuleCases, ::testing::ValuesIn(delta_cases()));

TEST(DeltaRule, GradientsMatchFiniteDifferences) {
  for (const std::string decay : {"none", "head", "channel"}) {
    const DeltaCase c{.name = decay,
                      .decay = decay,
                      .offsets = {0, 7, 8, 29},
                      .key_heads = 1,
                      .heads = 2,
                      .key = 3,
                      .value = 2,
                      .steep = 1};
    DeltaRuleInputs in = delta_inputs(c);
    std::vector<Tensor> values;
    for (const Tensor* each : members(in)) values.push_back(*each);
    for (const char* implementation : {"aten", "reference"}) {
      const DeltaForced forced(implementation);
      longhaul::testing::check_gradients(
          [&](const std::vector<Tensor>& x) {
            DeltaRuleInputs moved = in;
            const auto places = members(moved);
            for (size_t i = 0; i < x.size(); ++i) *places[i] = x[i];
            return delta_loss(delta_rule(moved));
          },
          values);
      EXPECT_EQ(Dispatcher::last("delta_rule").chosen, implementation);
    }
  }
}

// With β = 1 and a key of length 1 the state holds under that key what was written last, and nothing else has
// changed.
TEST(DeltaRule, WritesOverWhatItHadUnderAKey) {
  const Tensor k = random_tensor({2, 1, 4}, 1), unit = (k / k.norm(2, 2, true)),
               v = random_tensor({2, 1, 3}, 2);
  const Tensor same = unit.narrow(0, 0, 1).expand({2, 1, 4}).contiguous();
  const auto twice = delta_rule({same, same, v, at::ones({2, 1}, at::kDouble), {}, {}, {}});
  EXPECT_LT(relative_error(twice.o_thd, v), 1e-14);
  EXPECT_LT(relative_error(twice.final_state_nhkv[0][0], at::outer(unit[0][0], v[1][0])), 1e-14);
}

// Where keys are orthogonal nothing is corrected: it is the plain recurrence.
TEST(DeltaRule, OfOrthogonalKeysIsTheLinearRecurrence) {
  const int64_t tokens = 12;
  const Tensor k = at::eye(tokens, at::kDouble).unsqueeze(1), q = random_tensor({tokens, 1, tokens}, 1),
               v = random_tensor({tokens, 1, 3}, 2);
  const Tensor decay = random_tensor({tokens, 1}, 3).sigmoid().neg(),
               beta = random_tensor({tokens, 1}, 4).sigmoid();
  const auto found = delta_rule({q, k, v, beta, decay, {}, {}});
  const auto expected = linear_recurrence(q, k, v * beta.unsqueeze(2), decay, {}, {});
  EXPECT_LT(relative_error(found.o_thd, expected.o_thd), 1e-13);
  EXPECT_LT(relative_error(found.final_state_nhkv, expected.final_state_nhkv), 1e-13);
}

TEST(DeltaRule, ADecayOfAllChannelsAlikeIsThatOfTheHead) {
  const DeltaCase c{.name = "",
                    .decay = "head",
                    .offsets = {0, 90},
                    .key_heads = 2,
                    .heads = 2,
                    .key = 6,
                    .value = 5,
                    .steep = 1};
  DeltaRuleInputs in = delta_inputs(c);
  const auto head = delta_evaluated(in, delta_rule);
  in.log_decay = in.log_decay.unsqueeze(2).expand({-1, -1, c.key}).contiguous();
  auto channel = delta_evaluated(in, delta_rule);
  channel.back() = channel.back().sum(2);
  expect_near(channel, head, 1e-12);
}

// A log_decay of −∞ is a decay of 0: what was there is gone, and nothing becomes 0 · ∞.
TEST(DeltaRule, ADecayWithoutEndForgetsAtOnce) {
  for (const std::string decay : {"head", "channel"}) {
    for (const char* implementation : {"aten", "reference"}) {
      const DeltaCase c{.name = "",
                        .decay = decay,
                        .offsets = {0, 70, 71, 150},
                        .key_heads = 2,
                        .heads = 2,
                        .key = 6,
                        .value = 5};
      DeltaRuleInputs in = delta_inputs(c);
      in.log_decay = at::full_like(in.log_decay, -INFINITY);
      const DeltaForced forced(implementation);
      const auto found = delta_rule(in);
      const Tensor own = in.scale * (in.q_tgk * in.k_tgk).sum(2, true) * in.beta_th.unsqueeze(2) * in.v_thv;
      EXPECT_LT(relative_error(found.o_thd, own), 1e-12) << implementation;
    }
  }
}

TEST(DeltaRule, ResultsDoNotDependOnThreadsOrNeighbours) {
  const DeltaCase c{.name = "",
                    .decay = "channel",
                    .offsets = {0, 3, 4, 80, 81},
                    .key_heads = 2,
                    .heads = 4,
                    .key = 16,
                    .value = 16,
                    .steep = 1};
  DeltaRuleInputs in = delta_inputs(c, at::kFloat);
  in.initial_state_nhkv = Tensor();
  std::vector<int64_t> rows{0, 1, 2, 3};
  const auto run = [&](int count) {
    set_threads(count);
    const Tensor states = random_tensor({4, 4, 16, 16}, 9, at::kFloat);
    const Tensor o = delta_rule_continued(in, {states, rows});
    set_threads(0);
    return std::pair{o, states};
  };
  const auto one = run(1), two = run(2);
  EXPECT_TRUE(one.first.equal(two.first));
  EXPECT_TRUE(one.second.equal(two.second));
  for (size_t n = 0; n + 1 < c.offsets.size(); ++n) {
    const auto begin = c.offsets[n], length = c.offsets[n + 1] - begin;
    DeltaRuleInputs alone = in;
    for (Tensor* each : {&alone.q_tgk, &alone.k_tgk, &alone.v_thv, &alone.beta_th, &alone.log_decay})
      *each = each->narrow(0, begin, length);
    alone.offsets = Tensor();
    const Tensor states = random_tensor({4, 4, 16, 16}, 9, at::kFloat);
    const std::vector<int64_t> row{static_cast<int64_t>(n)};
    EXPECT_TRUE(delta_rule_continued(alone, {states, row}).equal(one.first.narrow(0, begin, length))) << n;
  }
}

TEST(DeltaRule, MetaTensorsGiveShapes) {
  const DeltaCase c{
      .name = "", .decay = "head", .offsets = {0, 5, 9}, .key_heads = 1, .heads = 2, .key = 3, .value = 4};
  DeltaRuleInputs in = delta_inputs(c, at::kBFloat16);
  for (Tensor* each : members(in)) *each = each->to(at::kMeta).requires_grad_(true);
  const auto result = delta_rule(in);
  EXPECT_EQ(result.o_thd.sizes(), at::IntArrayRef({9, 2, 4}));
  EXPECT_EQ(result.o_thd.scalar_type(), at::kBFloat16);
  EXPECT_EQ(result.final_state_nhkv.sizes(), at::IntArrayRef({2, 2, 3, 4}));
  (result.o_thd.sum() + result.final_state_nhkv.sum()).backward();
  for (const Tensor* each : members(in)) EXPECT_EQ(each->grad().sizes(), each->sizes());
}

TEST(DeltaRule, RefusesWhatDoesNotFit) {
  const DeltaCase c{.name = "",
                    .decay = "head",
                    .offsets = {0, 5},
                    .key_heads = 1,
                    .heads = 2,
                    .key = 3,
                    .value = 4,
                    .steep = 1};
  const auto with = [&](const std::function<void(DeltaRuleInputs&)>& change) {
    DeltaRuleInputs in = delta_inputs(c);
    change(in);
    return refused([&] { delta_rule(in); });
  };
  EXPECT_THAT(with([](auto& in) { in.beta_th = in.beta_th.narrow(1, 0, 1); }),
              HasSubstr("delta_rule: bad argument beta"));
  EXPECT_THAT(with([](auto& in) { in.k_tgk = in.k_tgk.narrow(2, 0, 2); }),
              HasSubstr("delta_rule: bad argument k"));
  EXPECT_THAT(with([](auto& in) { in.k_tgk = in.k_tgk.to(at::kFloat); }),
              HasSubstr("delta_rule: bad argument k"));
  EXPECT_THAT(with([](auto& in) { in.v_thv = in.v_thv.select(1, 0); }),
              HasSubstr("delta_rule: bad argument v"));
  EXPECT_THAT(with([](auto& in) {
                in.q_tgk = in.k_tgk = in.q_tgk.expand({5, 3, 3});
              }),
              HasSubstr("delta_rule: bad argument q"));
  EXPECT_THAT(with([](auto& in) { in.log_decay = in.log_decay.narrow(0, 0, 4); }),
              HasSubstr("delta_rule: bad argument log_decay"));
  EXPECT_THAT(with([](auto& in) { in.log_decay = in.log_decay.neg(); }),
              HasSubstr("delta_rule: bad argument log_decay"));
  EXPECT_THAT(with([](auto& in) { in.initial_state_nhkv = in.initial_state_nhkv.to(at::kFloat); }),
              HasSubstr("delta_rule: bad argument initial_state"));
  EXPECT_THAT(with([](auto& in) {
                in.offsets = to_tensor(std::vector<int64_t>{0, 4});
              }),
              HasSubstr("delta_rule: bad argument offsets (cu_seqlens)"));
}

// Each element as its sentence says, by the loops without gradients and by LibTorch's operators with them;
// far logits among them.
TEST(DeltaGates, AreWhatTheySay) {
  for (const auto& [type, tolerance] : {std::pair{at::kDouble, 1e-14}, {at::kFloat, 1e-6}}) {
    const Tensor x = random_tensor({7, 3, 4}, 1, type).mul(3), rate = random_tensor({3}, 2, type),
                 bias = random_tensor({3, 4}, 3, type);
    x[0][0][0] = 200, x[0][0][1] = -200;
    const Tensor wide = x.to(at::kDouble), expected = -rate.to(at::kDouble).exp().view({3, 1}) *
                                                      at::softplus(wide + bias.to(at::kDouble));
    EXPECT_LT(relative_error(step_decays(x, rate, bias), expected), tolerance);
    const Tensor of_heads = step_decays(x.select(2, 0), rate, bias.select(1, 0));
    EXPECT_LT(relative_error(of_heads, expected.select(2, 0)), tolerance);
    EXPECT_LT(relative_error(write_shares(x.select(2, 1), 2), 2 * wide.select(2, 1).sigmoid()), tolerance);
    EXPECT_LT(relative_error(step_decays(x, rate, bias, true), expected), tolerance);
    EXPECT_LT(
        relative_error(step_decays(x.select(2, 0), rate, bias.select(1, 0), true), expected.select(2, 0)),
        tolerance);
    EXPECT_LT(relative_error(write_shares(x.select(2, 1), 2, true), 2 * wide.select(2, 1).sigmoid()),
              tolerance);
  }
}

TEST(DeltaGates, GradientsMatchFiniteDifferences) {
  for (const bool by_channel : {false, true}) {
    std::vector<Tensor> values{random_tensor({6, 3}, 1), random_tensor({3}, 2), random_tensor({3}, 3)};
    if (by_channel) values = {random_tensor({6, 3, 4}, 1), random_tensor({3}, 2), random_tensor({3, 4}, 3)};
    longhaul::testing::check_gradients(
        [](const std::vector<Tensor>& x) {
          const Tensor g = step_decays(x[0], x[1], x[2]);
          return g.mul(random_tensor(g.sizes(), 9)).sum();
        },
        values);
  }
  longhaul::testing::check_gradients(
      [](const std::vector<Tensor>& x) {
        return write_shares(x[0], 2).mul(random_tensor({6, 3}, 9)).sum();
      },
      {random_tensor({6, 3}, 1)});
}

TEST(DeltaGates, HeadsGetTheirLength) {
  const Tensor x = random_tensor({5, 3, 7}, 1);
  const Tensor expected = 0.4 * x / (x.square().sum(2, true) + 1e-2).sqrt();
  EXPECT_LT(relative_error(of_length(x, 0.4, 1e-2), expected), 1e-14);
  longhaul::testing::check_gradients(
      [](const std::vector<Tensor>& in) {
        return of_length(in[0].narrow(2, 1, 5), 0.4, 1e-2).mul(random_tensor({5, 3, 5}, 9)).sum();
      },
      {x});
}

}  // namespace
}  // namespace longhaul::kernels::delta_rule_test
