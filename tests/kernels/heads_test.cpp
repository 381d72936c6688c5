// Fused heads and rotary positions against the rotation's definition.
#include "kernels/rotary_heads/op.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "support/instruction_sets.h"
#include "support/threads.h"

namespace longhaul::kernels::heads_test {
namespace {

using namespace longhaul::testing;

constexpr int64_t kHeads = 3, kKvHeads = 2, kHeadDim = 10, kAll = kHeads + 2 * kKvHeads;

RotaryTable table_of(const std::vector<int64_t>& positions, int64_t dim, at::ScalarType type = at::kDouble) {
  return rotary_table(positions, dim, 10000, type);
}

TEST(Rotary, TurnsPairsAndLeavesTheRest) {
  constexpr int64_t kDim = 6;
  const std::vector<int64_t> positions = {0, 5, 1000003};
  const Tensor x = random_tensor({3, kAll * kHeadDim}, 1), x_thd = x.view({3, kAll, kHeadDim}).clone();
  const Heads heads = split_heads(x, kHeads, kKvHeads, kHeadDim, table_of(positions, kDim));
  const Tensor y = at::cat({heads.q_thd, heads.k_thd}, 1);
  EXPECT_TRUE(heads.v_thd.equal(x_thd.narrow(1, kHeads + kKvHeads, kKvHeads))) << "values are not rotated";
  EXPECT_TRUE(y.narrow(2, kDim, kHeadDim - kDim)
                  .equal(x_thd.narrow(1, 0, kHeads + kKvHeads).narrow(2, kDim, kHeadDim - kDim)));
  EXPECT_TRUE(y[0].equal(x_thd[0].narrow(0, 0, kHeads + kKvHeads))) << "position 0";
  for (int64_t t = 0; t < 3; ++t) {
    for (int64_t h = 0; h < kHeads + kKvHeads; ++h) {
      for (int64_t j = 0; j < kDim / 2; ++j) {
        const double angle = static_cast<double>(positions[static_cast<size_t>(t)]) *
                             std::pow(10000.0, -2.0 * static_cast<double>(j) / kDim);
        const double a = x_thd[t][h][j].item<double>(), b = x_thd[t][h][j + kDim / 2].item<double>();
        EXPECT_NEAR(y[t][h][j].item<double>(), a * std::cos(angle) - b * std::sin(angle), 1e-12);
        EXPECT_NEAR(y[t][h][j + kDim / 2].item<double>(), b * std::cos(angle) + a * std::sin(angle), 1e-12);
      }
    }
  }
}

TEST(Rotary, ProductsDependOnDistancesOnly) {
  const Tensor x = random_tensor({1, 3 * kHeadDim}, 2);
  const auto product = [&](int64_t at_q, int64_t at_k) {
    const Tensor q = split_heads(x.clone(), 1, 1, kHeadDim, table_of({at_q}, kHeadDim)).q_thd;
    return q.mul(split_heads(x.clone(), 1, 1, kHeadDim, table_of({at_k}, kHeadDim)).k_thd).sum();
  };
  EXPECT_LT(relative_error(product(17, 4), product(100017, 100004)), 1e-9);
  EXPECT_GT(relative_error(product(17, 4), product(17, 5)), 1e-3);
}

// Dimensions of one pair, less than a vector, one and a half vectors, the whole head; bf16 rounds once as the
// reference does.
TEST(Rotary, EqualsReference) {
  const PoisonFreshMemory poison;
  for_each_instruction_set([&] {
    const std::pair<at::ScalarType, double> types[] = {
        {at::kDouble, 1e-14}, {at::kFloat, 1e-6}, {at::kBFloat16, 4e-3}};
    for (const auto& [type, tolerance] : types) {
      for (const auto& [head_dim, dim] :
           {std::pair<int64_t, int64_t>{2, 2}, {10, 6}, {64, 32}, {50, 48}, {128, 128}}) {
        for (const int64_t tokens : {1, 2, 37}) {
          std::vector<int64_t> positions;
          for (int64_t t = 0; t < tokens; ++t) positions.push_back(t * 7 % 19);
          const RotaryTable table = table_of(positions, dim, type == at::kDouble ? at::kDouble : at::kFloat);
          const Tensor x = random_tensor({tokens, kAll * head_dim}, 1, type).requires_grad_(true);
          const Heads heads = split_heads(x * 1, kHeads, kKvHeads, head_dim, table);
          const Tensor again = x.detach().clone().requires_grad_(true),
                       again_thd = again.view({tokens, kAll, head_dim});
          const Tensor q = rotate_reference(again_thd.narrow(1, 0, kHeads), table),
                       k = rotate_reference(again_thd.narrow(1, kHeads, kKvHeads), table);
          const Tensor v = again_thd.narrow(1, kHeads + kKvHeads, kKvHeads);
          EXPECT_LT(relative_error(heads.q_thd, q), tolerance) << type << " " << head_dim << " " << dim;
          EXPECT_LT(relative_error(heads.k_thd, k), tolerance) << type << " " << head_dim << " " << dim;
          EXPECT_TRUE(heads.v_thd.equal(v));
          const Tensor mix = random_tensor({tokens, kAll, head_dim}, 2, type);
          at::cat({heads.q_thd, heads.k_thd, heads.v_thd}, 1).mul(mix).sum().backward();
          at::cat({q, k, v}, 1).mul(mix).sum().backward();
          EXPECT_LT(relative_error(x.grad(), again.grad()), tolerance)
              << type << " " << head_dim << " " << dim;
        }
      }
    }
  });
}

TEST(SplitHeads, Gradients) {
  const RotaryTable table = table_of({3, 0, 11, 12, 5}, 6);
  const Tensor mix = random_tensor({5, kAll, kHeadDim}, 2);
  for (const RotaryTable& each : {table, RotaryTable{}}) {
    check_gradients(
        [&](const std::vector<Tensor>& in) {
          const Heads heads = split_heads(in[0] * 1, kHeads, kKvHeads, kHeadDim, each);
          return at::cat({heads.q_thd, heads.k_thd, heads.v_thd}, 1).mul(mix).sum();
        },
        {random_tensor({5, kAll * kHeadDim}, 1)});
  }
}

TEST(SplitHeads, WithoutATableAreViews) {
  const Tensor x = random_tensor({4, kAll * kHeadDim}, 1);
  const Heads heads = split_heads(x, kHeads, kKvHeads, kHeadDim, {});
  EXPECT_TRUE(heads.k_thd.equal(x.view({4, kAll, kHeadDim}).narrow(1, kHeads, kKvHeads)));
  EXPECT_EQ(heads.q_thd.const_data_ptr(), x.const_data_ptr()) << "nothing is copied";
}

// Rotation overwrites its input: who needs the old values is refused by autograd instead of getting wrong
// gradients.
TEST(SplitHeads, OldValuesOfTheInputAreRefused) {
  const Tensor leaf = random_tensor({2, kAll * kHeadDim}, 1).requires_grad_(true);
  EXPECT_THROW(split_heads(leaf, kHeads, kKvHeads, kHeadDim, table_of({1, 2}, 6)), Error);
  const Tensor x = leaf * 1;
  const Tensor square = x.square();
  const Heads heads = split_heads(x, kHeads, kKvHeads, kHeadDim, table_of({1, 2}, 6));
  EXPECT_THROW((square.sum() + heads.q_thd.sum()).backward(), c10::Error);
}

TEST(SplitHeads, EdgeCases) {
  const Heads none =
      split_heads(at::zeros({0, kAll * kHeadDim}), kHeads, kKvHeads, kHeadDim, table_of({}, 6, at::kFloat));
  EXPECT_EQ(none.q_thd.sizes(), at::IntArrayRef({0, kHeads, kHeadDim}));
  EXPECT_THROW(split_heads(at::zeros({2, 5}), kHeads, kKvHeads, kHeadDim, {}), Error);
  const Tensor x = at::zeros({2, kAll * kHeadDim});
  EXPECT_THROW(split_heads(x, kHeads, kKvHeads, kHeadDim, table_of({1}, 6, at::kFloat)), Error)
      << "positions for every token";
  EXPECT_THROW(split_heads(x, kHeads, kKvHeads, kHeadDim, table_of({1, 2}, 12, at::kFloat)), Error)
      << "more than a head";
  EXPECT_THROW(split_heads(x, kHeads, kKvHeads, kHeadDim, table_of({1, 2}, 6)), Error)
      << "fp64 angles for fp32";
}

TEST(SplitHeads, SameForEveryNumberOfThreads) {
  std::vector<int64_t> positions(301);
  for (size_t t = 0; t < positions.size(); ++t) positions[t] = static_cast<int64_t>(t);
  const RotaryTable table = table_of(positions, 6, at::kFloat);
  expect_same_for_all_threads([&] {
    const Tensor x = random_tensor({301, kAll * kHeadDim}, 1, at::kFloat).requires_grad_(true);
    const Heads heads = split_heads(x * 1, kHeads, kKvHeads, kHeadDim, table);
    const Tensor y = at::cat({heads.q_thd, heads.k_thd, heads.v_thd}, 1);
    y.backward(random_tensor(y.sizes(), 2, at::kFloat));
    return std::vector<Tensor>{y.detach(), x.grad()};
  });
}

}  // namespace
}  // namespace longhaul::kernels::heads_test
