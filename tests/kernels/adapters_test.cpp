// adapted_linear beside plain products under LibTorch's autograd in fp64; the gradients of A and B arrive in
// their sinks, and nothing else has one.
#include "kernels/adapters/op.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/tensors.h"

namespace longhaul::kernels::adapters_test {
namespace {

using namespace longhaul::testing;

constexpr int64_t kAdapterTokens = 37, kIn = 24, kOut = 20, kRank = 3;
constexpr double kScale = 1.7;

// Two adapters, of columns 2 to 8 and 11 to 20, and none of the others.
struct AdapterCase {
  explicit AdapterCase(at::ScalarType type)
      : x(random_tensor({kAdapterTokens, kIn}, 1, type)),
        weight(random_tensor({kOut, kIn}, 2, type)),
        bias(random_tensor({kOut}, 3, type)),
        down(random_tensor({2 * kRank, kIn}, 4, type)),
        first(random_tensor({6, kRank}, 5, type)),
        second(random_tensor({9, kRank}, 6, type)),
        dy(random_tensor({kAdapterTokens, kOut}, 7, type)) {}
  Tensor x, weight, bias, down, first, second, dy;
};

struct AdapterResult {
  Tensor y, dx, down, first, second;
};

AdapterResult plain(const AdapterCase& of) {
  const auto leaf = [](const Tensor& value) {
    return value.detach().to(at::kDouble).clone().requires_grad_(true);
  };
  const Tensor x = leaf(of.x), down = leaf(of.down), first = leaf(of.first), second = leaf(of.second);
  const Tensor delta = at::zeros({kOut, kIn}, at::kDouble);
  Tensor y = at::mm(x, of.weight.to(at::kDouble).t()) + of.bias.to(at::kDouble);
  const Tensor added_first = at::mm(x, at::mm(first, down.narrow(0, 0, kRank)).t()).mul(kScale);
  const Tensor added_second = at::mm(x, at::mm(second, down.narrow(0, kRank, kRank)).t()).mul(kScale);
  const auto zeros = [](int64_t columns) { return at::zeros({kAdapterTokens, columns}, at::kDouble); };
  y = y + at::cat({zeros(2), added_first, zeros(3), added_second}, 1);
  y.backward(of.dy.to(at::kDouble));
  return {y.detach(), x.grad(), down.grad(), first.grad(), second.grad()};
}

// packed: with kept copies of the weights, as a model has them.
AdapterResult ours(const AdapterCase& of, bool packed, bool wants_dx = true) {
  const bool wide = of.x.scalar_type() == at::kDouble;
  const auto leaf = [](const Tensor& value) { return value.detach().clone().requires_grad_(true); };
  const auto sink = [&](const Tensor& value) {
    return at::zeros(value.sizes(), wide ? at::kDouble : at::kFloat);
  };
  AdapterResult result{.down = sink(of.down), .first = sink(of.first), .second = sink(of.second)};
  const Tensor x = wants_dx ? leaf(of.x) : of.x.clone(), down = leaf(of.down), first = leaf(of.first),
               second = leaf(of.second);
  PackedWeight copies[4];
  const auto kept = [&](int i) { return packed ? KeptPacked{.copies = &copies[i]} : KeptPacked{}; };
  const Tensor y = adapted_linear(
      x, {.weight = of.weight, .bias = of.bias, .kept = kept(0)},
      {.weight = down, .sinks = {.weight = result.down}, .kept = kept(1)},
      {{.weights = {.weight = first, .sinks = {.weight = result.first}, .kept = kept(2)}, .first_column = 2},
       {.weights = {.weight = second, .sinks = {.weight = result.second}, .kept = kept(3)},
        .first_column = 11,
        .first_rank = kRank}},
      kScale);
  y.backward(of.dy);
  EXPECT_FALSE(down.grad().defined()) << "the gradient goes to the sink only";
  result.y = y.detach();
  result.dx = wants_dx ? x.grad() : Tensor();
  return result;
}

// bf16: z, and what is added to y, are rounded once each.
TEST(AdaptedLinear, EqualsPlainProducts) {
  const PoisonFreshMemory poison;
  for (const auto& [type, tolerance] :
       {std::pair{at::kDouble, 1e-12}, {at::kFloat, 1e-5}, {at::kBFloat16, 2e-2}}) {
    for (const bool packed : {false, true}) {
      const AdapterCase of(type);
      const AdapterResult found = ours(of, packed), expected = plain(of);
      EXPECT_EQ(found.y.scalar_type(), type);
      EXPECT_LT(relative_error(found.y, expected.y), tolerance) << type << packed;
      EXPECT_LT(relative_error(found.dx, expected.dx), tolerance) << type << packed;
      EXPECT_LT(relative_error(found.down, expected.down), tolerance) << type << packed;
      EXPECT_LT(relative_error(found.first, expected.first), tolerance) << type << packed;
      EXPECT_LT(relative_error(found.second, expected.second), tolerance) << type << packed;
    }
  }
}

TEST(AdaptedLinear, AnInputWithoutGradientLeavesTheOthers) {
  const AdapterCase of(at::kDouble);
  const AdapterResult found = ours(of, false, /*wants_dx=*/false), expected = plain(of);
  EXPECT_LT(relative_error(found.down, expected.down), 1e-12);
  EXPECT_LT(relative_error(found.second, expected.second), 1e-12);
}

TEST(AdaptedLinear, AddsToWhatTheSinksHold) {
  const AdapterCase of(at::kDouble);
  const Tensor down = of.down.clone().requires_grad_(true), up = of.first.clone().requires_grad_(true);
  const Tensor to_down = at::ones({2 * kRank, kIn}, at::kDouble), to_up = at::ones_like(of.first);
  const auto pass = [&] {
    adapted_linear(of.x, {.weight = of.weight}, {.weight = down, .sinks = {.weight = to_down}},
                   {{.weights = {.weight = up, .sinks = {.weight = to_up}}, .first_column = 2}}, kScale)
        .backward(of.dy);
  };
  pass();
  const Tensor once = to_up - 1, of_down = to_down - 1;
  pass();
  EXPECT_LT(relative_error(to_up - 1, once * 2), 1e-12);
  EXPECT_LT(relative_error(to_down - 1, of_down * 2), 1e-12);
  EXPECT_EQ(of_down.narrow(0, kRank, kRank).abs().max().item<double>(), 0) << "rows of no adapter";
}

TEST(AdaptedLinear, MergedIsTheWeightOfTheSameProduct) {
  const AdapterCase of(at::kDouble);
  const Tensor merged =
      merged_weight(of.weight, of.down,
                    {{.weights = {.weight = of.first}, .first_column = 2},
                     {.weights = {.weight = of.second}, .first_column = 11, .first_rank = kRank}},
                    kScale);
  EXPECT_LT(relative_error(at::mm(of.x, merged.t()) + of.bias, plain(of).y), 1e-12);
}

TEST(AdaptedLinear, RefusesShapesThatDoNotFit) {
  const AdapterCase of(at::kDouble);
  const auto product = [&](const Tensor& down, const Tensor& up, int64_t first_column) {
    adapted_linear(of.x, {.weight = of.weight}, {.weight = down},
                   {{.weights = {.weight = up}, .first_column = first_column}}, kScale);
  };
  EXPECT_NO_THROW(product(of.down, of.first, 14));
  EXPECT_THROW(product(of.down, of.first, 15), Error);
  EXPECT_THROW(product(of.down.narrow(1, 0, kIn - 1), of.first, 0), Error);
  EXPECT_THROW(product(of.down.narrow(0, 0, kRank - 1), of.first, 0), Error);
}

}  // namespace
}  // namespace longhaul::kernels::adapters_test
