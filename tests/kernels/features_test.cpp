// Features and gates against their ATen form in fp64, and by finite differences.
#include "kernels/feature_maps/op.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/instruction_sets.h"
#include "support/threads.h"

namespace longhaul::kernels::features_test {
namespace {

using namespace longhaul::testing;

constexpr FeatureMap kMaps[] = {FeatureMap::kNone, FeatureMap::kSilu, FeatureMap::kRelu,
                                FeatureMap::kSigmoid};
constexpr Turn kTurns[] = {Turn::kNone, Turn::kCosine, Turn::kRotary};

TurnTable turn_table(Turn turn, int64_t tokens, int64_t heads, int64_t dim, at::ScalarType type) {
  if (turn == Turn::kNone) return {};
  const int64_t of_head = turn == Turn::kCosine ? dim : dim / 2;
  const Tensor angle = random_tensor({tokens, heads == 3 ? of_head : heads * of_head}, 77).mul(9);
  return {angle.cos().to(type), angle.sin().to(type)};
}

// Columns of a wider matrix, odd widths, one head and several.
TEST(Features, EqualReference) {
  const PoisonFreshMemory poison;
  for_each_instruction_set([&] {
    const std::pair<at::ScalarType, double> types[] = {
        {at::kDouble, 1e-13}, {at::kFloat, 2e-6}, {at::kBFloat16, 1e-2}};
    for (const auto& [type, tolerance] : types) {
      const at::ScalarType wide = type == at::kDouble ? at::kDouble : at::kFloat;
      for (const auto& [heads, dim] : {std::pair<int64_t, int64_t>{1, 6}, {3, 10}, {2, 64}}) {
        for (const Turn turn : kTurns) {
          const TurnTable table = turn_table(turn, 37, heads, dim, wide);
          const TurnTable again = turn == Turn::kNone
                                      ? table
                                      : TurnTable{table.cos_tr.to(at::kDouble), table.sin_tr.to(at::kDouble)};
          for (const FeatureMap map : kMaps) {
            const Tensor x = random_tensor({37, heads * dim + 7}, 1, type).requires_grad_(true);
            const Tensor z = x.detach().to(at::kDouble).requires_grad_(true);
            const Tensor y = features(x.narrow(1, 3, heads * dim), heads, map, turn, table);
            const Tensor wanted = features_reference(z.narrow(1, 3, heads * dim), heads, map, turn, again);
            EXPECT_LT(relative_error(y, wanted), tolerance) << type << " " << int(map) << " " << int(turn);
            const Tensor mix = random_tensor(y.sizes(), 2);
            y.to(at::kDouble).mul(mix).sum().backward();
            wanted.mul(mix).sum().backward();
            EXPECT_LT(relative_error(x.grad(), z.grad()), tolerance)
                << type << " " << int(map) << " " << int(turn);
          }
        }
      }
    }
  });
}

TEST(Features, Gradients) {
  for (const Turn turn : kTurns) {
    const Tensor mix = random_tensor({5, 2, turn == Turn::kCosine ? 12 : 6}, 2);
    std::vector<Tensor> values{random_tensor({5, 12}, 1)};
    if (turn != Turn::kNone) values.push_back(random_tensor({5, turn == Turn::kCosine ? 12 : 3}, 3));
    check_gradients(
        [&](const std::vector<Tensor>& in) {
          const TurnTable table = in.size() > 1 ? TurnTable{in[1].cos(), in[1].sin()} : TurnTable{};
          return features(in[0], 2, FeatureMap::kSilu, turn, table).mul(mix).sum();
        },
        values);
  }
}

TEST(Features, CosineProductsDependOnDistancesOnly) {
  const Tensor x = random_tensor({1, 8}, 1), theta = random_tensor({8}, 2);
  const auto product = [&](double at_q, double at_k) {
    const auto at_position = [&](double t) {
      const Tensor angle = theta.mul(t).unsqueeze(0);
      return features(x, 2, FeatureMap::kSilu, Turn::kCosine, {angle.cos(), angle.sin()});
    };
    return at_position(at_q).mul(at_position(at_k)).sum();
  };
  EXPECT_LT(relative_error(product(17, 4), product(100017, 100004)), 1e-9);
  EXPECT_GT(relative_error(product(17, 4), product(17, 5)), 1e-3);
}

TEST(Gated, EqualsReferenceAndGradients) {
  const PoisonFreshMemory poison;
  for_each_instruction_set([&] {
    const std::pair<at::ScalarType, double> types[] = {
        {at::kDouble, 1e-13}, {at::kFloat, 2e-6}, {at::kBFloat16, 1e-2}};
    for (const auto& [type, tolerance] : types) {
      for (const FeatureMap map : kMaps) {
        const Tensor n = random_tensor({11, 21}, 1, type).requires_grad_(true),
                     u = random_tensor({11, 40}, 2, type).requires_grad_(true);
        const Tensor n2 = n.detach().to(at::kDouble).requires_grad_(true),
                     u2 = u.detach().to(at::kDouble).requires_grad_(true);
        const Tensor y = gated(n, u.narrow(1, 5, 21), map),
                     wanted = gated_reference(n2, u2.narrow(1, 5, 21), map);
        EXPECT_LT(relative_error(y, wanted), tolerance);
        y.to(at::kDouble).square().sum().backward();
        wanted.square().sum().backward();
        EXPECT_LT(relative_error(n.grad(), n2.grad()), 2 * tolerance);
        EXPECT_LT(relative_error(u.grad(), u2.grad()), 2 * tolerance);
      }
    }
  });
  check_gradients(
      [&](const std::vector<Tensor>& in) { return gated(in[0], in[1], FeatureMap::kSilu).square().sum(); },
      {random_tensor({5, 6}, 1), random_tensor({5, 6}, 2)});
}

TEST(Features, RefuseWhatDoesNotFit) {
  const Tensor x = at::zeros({4, 6});
  EXPECT_THROW(features(x, 4, FeatureMap::kSilu), Error);
  EXPECT_THROW(
      features(x, 2, FeatureMap::kSilu, Turn::kRotary, turn_table(Turn::kRotary, 4, 2, 3, at::kFloat)), Error)
      << "odd heads";
  EXPECT_THROW(features(x, 2, FeatureMap::kSilu, Turn::kCosine), Error) << "no angles";
  EXPECT_THROW(gated(x, at::zeros({4, 5}), FeatureMap::kSilu), Error);
}

}  // namespace
}  // namespace longhaul::kernels::features_test
