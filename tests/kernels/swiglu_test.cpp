#include "kernels/swiglu/op.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/threads.h"

namespace longhaul::kernels {
namespace {

using namespace longhaul::testing;

template <class Op>
std::vector<Tensor> run(const Op& op, const Tensor& x_in) {
  const Tensor x = x_in.detach().clone().requires_grad_(true);
  const Tensor y = op(x);
  y.backward(random_tensor(y.sizes(), 7, y.scalar_type()));
  return {y.detach(), x.grad()};
}

// bf16: silu(gate) is rounded to bf16 before the product, as in the reference; two units (2^-7) bound the rest.
TEST(Swiglu, EqualsReference) {
  const PoisonFreshMemory poison;
  const std::pair<at::ScalarType, double> types[] = {{at::kDouble, 1e-14}, {at::kFloat, 1e-6}, {at::kBFloat16, 8e-3}};
  for (const auto& [type, tolerance] : types) {
    for (const auto& sizes : {std::vector<int64_t>{1, 2}, {5, 6}, {33, 130}}) {
      const Tensor x = random_tensor(sizes, 1, type).mul(4);
      const auto fast = run(swiglu, x), reference = run(swiglu_reference, x);
      EXPECT_LT(relative_error(fast[0], reference[0]), tolerance) << type;
      EXPECT_LT(relative_error(fast[1], reference[1]), tolerance) << type;
    }
  }
}

// Against the definition in fp64, where the error of bf16 outputs is three roundings at most.
TEST(Swiglu, KnownValues) {
  const Tensor x = at::tensor({0.0, 1.0, -2.0, 3.0, 5.0, 0.5}, at::kDouble).view({1, 6});  // gates 0, 1, −2; ups 3, 5, 0.5
  const Tensor y = swiglu(x);
  EXPECT_EQ(y[0][0].item<double>(), 0);
  EXPECT_NEAR(y[0][1].item<double>(), 5 / (1 + std::exp(-1.0)), 1e-15);
  EXPECT_NEAR(y[0][2].item<double>(), -1 / (1 + std::exp(2.0)), 1e-15);
  const Tensor wide = random_tensor({40, 64}, 2);
  EXPECT_LT(relative_error(swiglu(wide.to(at::kBFloat16)), swiglu(wide.to(at::kBFloat16).to(at::kDouble))), 8e-3);
}

TEST(Swiglu, Gradients) {
  const Tensor mix = random_tensor({7, 5}, 3);
  check_gradients([&](const std::vector<Tensor>& in) { return swiglu(in[0]).mul(mix).sum(); }, {random_tensor({7, 10}, 1)});
}

TEST(Swiglu, EdgeCases) {
  EXPECT_EQ(swiglu(at::zeros({0, 8})).sizes(), at::IntArrayRef({0, 4}));
  EXPECT_THROW(swiglu(at::zeros({3, 5})), Error);
  EXPECT_THROW(swiglu(at::zeros({3, 4}, at::kLong)), Error);
}

TEST(Swiglu, SameForEveryNumberOfThreads) {
  const Tensor x = random_tensor({600, 256}, 1, at::kFloat);
  expect_same_for_all_threads([&] { return run(swiglu, x); });
}

}  // namespace
}  // namespace longhaul::kernels
