// The recurrence with states in the model's dtype: in fp64 the one recurrence, in bf16 the numbers that
// public code is known to have.
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "kernels/linear_recurrence/cpu/narrow_state.h"
#include "support/tensors.h"

namespace longhaul::kernels::narrow_recurrence_test {
namespace {

using namespace longhaul::testing;

constexpr double kSlowestSlope = 4.948526e-5;  // of the published model: layer 78, head 63

TEST(NarrowStateRecurrence, IsTheOneRecurrenceInFp64) {
  const Tensor offsets = at::tensor(std::vector<int64_t>{0, 40, 41, 41, 90});
  const Tensor log_decay = at::tensor({-0.9, -0.01, -1e-4}, at::kDouble);
  const auto run = [&](bool narrow) {
    std::vector<Tensor> in;
    for (uint64_t seed = 1; seed < 4; ++seed)
      in.push_back(random_tensor({90, 3, 5}, seed).requires_grad_(true));
    const Tensor o = narrow ? narrow_state_recurrence(in[0], in[1], in[2], log_decay, {}, offsets, 16)
                            : linear_recurrence_reference(in[0], in[1], in[2], log_decay, {}, offsets).o_thd;
    o.backward(random_tensor({90, 3, 5}, 9));
    return std::vector<Tensor>{o.detach(), in[0].grad(), in[1].grad(), in[2].grad()};
  };
  const std::vector<Tensor> found = run(true), expected = run(false);
  for (size_t i = 0; i < found.size(); ++i) EXPECT_LT(relative_error(found[i], expected[i]), 1e-12) << i;
}

struct OneChannel {
  Tensor q, k, v, state = at::ones({1, 1, 1, 1}, at::kBFloat16), log_decay;
  std::vector<int64_t> rows{0};
  OneChannel(int64_t tokens, double slope)
      : q(at::ones({tokens, 1, 1}, at::kBFloat16)),
        k(at::zeros_like(q)),
        v(at::zeros_like(q)),
        log_decay(at::full({1}, -slope, at::kFloat)) {}
  Tensor run() { return narrow_state_recurrence(q, k, v, log_decay, {state, rows}, {}); }
};

// e^{−256 s} = 0.98741, and what a bf16 slope makes of it: 0.98828 (docs/sources/minimax-01.md §12).
TEST(NarrowStateRecurrence, ABlocksDecayIsThatOfTheRoundedSlope) {
  OneChannel slow(257, kSlowestSlope);
  const Tensor o = slow.run();
  EXPECT_EQ(o[256].item<double>(), 0.98828125);
  EXPECT_NEAR(std::exp(-256 * kSlowestSlope), 0.98741, 5e-6) << "where it should be";
  const Choice choice = Dispatcher::last("narrow_state_recurrence");
  EXPECT_EQ(choice.chosen, "aten");
  ASSERT_EQ(choice.refusals.size(), 2u);
  EXPECT_EQ(choice.refusals[1].first, "cpu");
}

// In bf16 e^{−s} is 1 for every s < 0.00195: decoding, such a head never forgets.
TEST(NarrowStateRecurrence, SlowHeadsNeverForgetWhileDecoding) {
  for (const auto& [slope, forgets] : {std::pair{0.0019, false}, {0.0021, true}}) {
    OneChannel one(1, slope);
    for (int step = 0; step < 100; ++step) one.run();
    EXPECT_EQ(one.state.item<double>() < 1, forgets) << slope;
  }
}

TEST(NarrowStateRecurrence, GoesOnFromAState) {
  const Tensor q = random_tensor({40, 2, 3}, 1), k = random_tensor({40, 2, 3}, 2),
               v = random_tensor({40, 2, 3}, 3);
  const Tensor log_decay = at::tensor({-0.5, -0.01}, at::kDouble),
               whole = narrow_state_recurrence(q, k, v, log_decay, {}, {}, 16);
  const Tensor state = at::zeros({2, 2, 3, 3}, at::kDouble);
  const std::vector<int64_t> rows{1};
  std::vector<Tensor> pieces;
  for (const auto& [begin, count] :
       std::vector<std::pair<int64_t, int64_t>>{{0, 20}, {20, 1}, {21, 1}, {22, 18}}) {
    const auto own = [&, from = begin, length = count](const Tensor& x) { return x.narrow(0, from, length); };
    pieces.push_back(narrow_state_recurrence(own(q), own(k), own(v), log_decay, {state, rows}, {}, 16));
  }
  EXPECT_LT(relative_error(at::cat(pieces), whole), 1e-12);
  EXPECT_EQ(state[0].abs().sum().item<double>(), 0) << "another sequence's";
}

TEST(NarrowStateRecurrence, RefusesWideStates) {
  OneChannel one(1, 0.1);
  one.state = one.state.to(at::kFloat);
  EXPECT_THROW(one.run(), Error);
}

}  // namespace
}  // namespace longhaul::kernels::narrow_recurrence_test
