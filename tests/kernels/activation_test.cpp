// silu_heads, swiglu and bias_gelu against their definitions in ATen operators.
#include "kernels/activation/op.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "support/instruction_sets.h"
#include "support/threads.h"

namespace longhaul::kernels::activation_test {
namespace {

using namespace longhaul::testing;

template <class Op>
std::vector<Tensor> run(const Op& op, const Tensor& x_in) {
  const Tensor x = x_in.detach().clone().requires_grad_(true);
  const Tensor y = op(x);
  y.backward(random_tensor(y.sizes(), 7, y.scalar_type()));
  return {y.detach(), x.grad()};
}

at::ScalarType wide(at::ScalarType type) { return type == at::kDouble ? at::kDouble : at::kFloat; }

// Any matrix is one of heads of one channel, without keys and values.
Tensor whole_silu(const Tensor& x) { return silu_heads(x, x.size(1), 0, 1).q_thd.squeeze(2); }

// bf16: swiglu's reference rounds silu(gate) to bf16 before the product, ours once; two units (2^-7) bound
// that.
const std::pair<at::ScalarType, double> kTolerances[] = {
    {at::kDouble, 1e-13}, {at::kFloat, 2e-6}, {at::kBFloat16, 8e-3}};
const std::vector<std::vector<int64_t>> kShapes = {{1, 2}, {5, 6}, {9, 34}, {33, 130}, {3, 64}};

TEST(Activations, EqualTheirReferences) {
  const PoisonFreshMemory poison;
  for_each_instruction_set([&] {
    for (const auto& [type, tolerance] : kTolerances) {
      for (const auto& sizes : kShapes) {
        const Tensor x = random_tensor(sizes, 1, type).mul(4);
        const auto expect = [&](const std::vector<Tensor>& found, const std::vector<Tensor>& expected,
                                const char* name) {
          for (size_t i = 0; i < 2; ++i)
            EXPECT_LT(relative_error(found[i], expected[i]), tolerance)
                << name << " " << type << " " << x.sizes() << " " << i;
        };
        expect(run(whole_silu, x), run(silu_reference, x), "silu");
        expect(run(swiglu, x), run(swiglu_reference, x), "swiglu");
        const auto gelu = [](const Tensor& in) { return bias_gelu(in, Tensor(), Tensor()); };
        expect(run(gelu, x), run([](const Tensor& in) { return bias_gelu_reference(in, Tensor()); }, x),
               "gelu");
      }
    }
  });
}

// Against fp64: x + bias is not rounded on the way, so one rounding (half a unit: 2^-8 of the largest) is all
// there is in bf16.
TEST(BiasGelu, EqualsReference) {
  const PoisonFreshMemory poison;
  for_each_instruction_set([&] {
    const std::pair<at::ScalarType, double> types[] = {
        {at::kDouble, 1e-13}, {at::kFloat, 2e-6}, {at::kBFloat16, 3.95e-3}};
    for (const auto& [type, tolerance] : types) {
      for (const auto& sizes : kShapes) {
        const Tensor x = random_tensor(sizes, 1, type).mul(4).requires_grad_(true),
                     bias = random_tensor({sizes[1]}, 2, type);
        const Tensor dy = random_tensor(sizes, 3, type),
                     sink = at::full({sizes[1]}, 2.0, at::TensorOptions().dtype(wide(type)));
        const Tensor y = bias_gelu(x, bias, sink);
        y.backward(dy);
        const Tensor wide_x = x.detach().to(at::kDouble).requires_grad_(true),
                     wide_bias = bias.to(at::kDouble).requires_grad_(true);
        const Tensor expected = bias_gelu_reference(wide_x, wide_bias);
        expected.backward(dy.to(at::kDouble));
        EXPECT_LT(relative_error(y, expected), tolerance) << type << x.sizes();
        EXPECT_LT(relative_error(x.grad(), wide_x.grad()), tolerance) << type << x.sizes();
        EXPECT_LT(relative_error(sink.sub(2), wide_bias.grad()), type == at::kDouble ? 1e-13 : 2e-6)
            << type << x.sizes() << ": sums are wide";
      }
    }
  });
}

TEST(BiasGelu, AFrozenBiasGetsNoGradient) {
  const Tensor bias = random_tensor({6}, 2), dy = random_tensor({5, 6}, 3),
               sink = at::zeros({6}, at::kDouble);
  const Tensor x = random_tensor({5, 6}, 1).requires_grad_(true),
               again = x.detach().clone().requires_grad_(true);
  bias_gelu(x, bias, Tensor()).backward(dy);
  bias_gelu(again, bias, sink).backward(dy);
  EXPECT_TRUE(x.grad().equal(again.grad()));
}

TEST(Activations, KnownValues) {
  // gates 0, 1, −2; ups 3, 5, 0.5
  const Tensor x = at::tensor({0.0, 1.0, -2.0, 3.0, 5.0, 0.5}, at::kDouble).view({1, 6});
  const Tensor y = swiglu(x);
  EXPECT_EQ(y[0][0].item<double>(), 0);
  EXPECT_NEAR(y[0][1].item<double>(), 5 / (1 + std::exp(-1.0)), 1e-15);
  EXPECT_NEAR(y[0][2].item<double>(), -1 / (1 + std::exp(2.0)), 1e-15);
  EXPECT_NEAR(whole_silu(x)[0][2].item<double>(), -2 / (1 + std::exp(2.0)), 1e-15);
  EXPECT_NEAR(bias_gelu(x, Tensor(), Tensor())[0][1].item<double>(), 0.8411919906082768, 1e-15);
}

// Far from zero an activation is the identity or nothing, never a NaN; a NaN stays one.
TEST(Activations, ExtremeValues) {
  for_each_instruction_set([&] {
    const double huge = 1e30, nan = std::nan("");
    for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
      const Tensor x =
          at::tensor({huge, -huge, 200.0, -200.0, 0.0, -0.0, 88.0, nan}, at::kDouble).to(type).view({1, 8});
      for (const Tensor& y : {whole_silu(x), bias_gelu(x, Tensor(), Tensor())}) {
        EXPECT_TRUE(y[0].narrow(0, 0, 1).equal(x[0].narrow(0, 0, 1))) << type;
        EXPECT_EQ(y[0][2].item<double>(), 200) << type;
        EXPECT_LT(std::abs(y[0][3].item<double>()), 1e-30) << type;
        EXPECT_EQ(y[0][4].item<double>(), 0) << type;
        EXPECT_TRUE(y[0][7].isnan().item<bool>()) << type;
        EXPECT_EQ(y.isnan().sum().item<int64_t>(), 1) << type;
      }
    }
  });
}

TEST(Activations, Gradients) {
  const Tensor mix = random_tensor({7, 5}, 3), wide_mix = random_tensor({7, 10}, 4);
  check_gradients([&](const std::vector<Tensor>& in) { return swiglu(in[0]).mul(mix).sum(); },
                  {random_tensor({7, 10}, 1)});
  check_gradients([&](const std::vector<Tensor>& in) { return whole_silu(in[0]).mul(wide_mix).sum(); },
                  {random_tensor({7, 10}, 1)});
  const Tensor bias = random_tensor({10}, 5), sink = at::zeros({10}, at::kDouble);
  check_gradients(
      [&](const std::vector<Tensor>& in) { return bias_gelu(in[0], bias, sink).mul(wide_mix).sum(); },
      {random_tensor({7, 10}, 1)});
}

TEST(SiluHeads, AreSiluInPieces) {
  const PoisonFreshMemory poison;
  constexpr int64_t kTokens = 11, kHeads = 4, kKvHeads = 2, kDim = 3;
  for (const auto& [type, tolerance] : kTolerances) {
    const Tensor x = random_tensor({kTokens, (kHeads + 2 * kKvHeads) * kDim}, 1, type).requires_grad_(true);
    const Heads heads = silu_heads(x, kHeads, kKvHeads, kDim);
    const Tensor whole = silu_reference(x.detach()).view({kTokens, kHeads + 2 * kKvHeads, kDim});
    EXPECT_LT(relative_error(heads.q_thd, whole.narrow(1, 0, kHeads)), tolerance) << type;
    EXPECT_LT(relative_error(heads.k_thd, whole.narrow(1, kHeads, kKvHeads)), tolerance) << type;
    EXPECT_LT(relative_error(heads.v_thd, whole.narrow(1, kHeads + kKvHeads, kKvHeads)), tolerance) << type;
    // Gradients that are pieces of a longer row, and one that is transposed.
    const Tensor dq = random_tensor({kTokens, kHeads, kDim}, 2, type),
                 dk = random_tensor({kTokens, kKvHeads, kDim}, 3, type);
    const Tensor dv = random_tensor({kTokens, kKvHeads, kDim}, 4, type);
    const Tensor turned = heads.v_thd.permute({2, 1, 0}).contiguous().mul(dv.permute({2, 1, 0}));
    (at::cat({heads.q_thd, heads.k_thd}, 1).mul(at::cat({dq, dk}, 1)).sum() + turned.sum()).backward();
    const Tensor again = x.detach().clone().requires_grad_(true);
    silu_reference(again).backward(at::cat({dq, dk, dv}, 1).view(x.sizes()));
    EXPECT_LT(relative_error(x.grad(), again.grad()), tolerance) << type;
  }
}

TEST(SiluHeads, UnusedPartsGetNoGradient) {
  const Tensor x = random_tensor({5, 12}, 1).requires_grad_(true);
  silu_heads(x, 2, 1, 3).k_thd.sum().backward();
  EXPECT_TRUE(x.grad().narrow(1, 0, 6).eq(0).all().item<bool>());
  EXPECT_TRUE(x.grad().narrow(1, 6, 3).ne(0).all().item<bool>());
  EXPECT_TRUE(x.grad().narrow(1, 9, 3).eq(0).all().item<bool>());
}

TEST(Activations, EdgeCases) {
  EXPECT_EQ(swiglu(at::zeros({0, 8})).sizes(), at::IntArrayRef({0, 4}));
  const Tensor sink = at::zeros({8}), none = at::zeros({0, 8}).requires_grad_(true);
  bias_gelu(none, at::zeros({8}), sink).sum().backward();
  EXPECT_TRUE(sink.eq(0).all().item<bool>());
  EXPECT_EQ(silu_heads(at::zeros({0, 8}), 2, 1, 2).v_thd.sizes(), at::IntArrayRef({0, 1, 2}));
  EXPECT_THROW(swiglu(at::zeros({3, 5})), Error);
  EXPECT_THROW(swiglu(at::zeros({3, 4}, at::kLong)), Error);
  EXPECT_THROW(silu_heads(at::zeros({3, 4}, at::kHalf), 2, 1, 1), Error);
  EXPECT_THROW(silu_heads(at::zeros({3, 9}), 2, 1, 2), Error);
  EXPECT_THROW(bias_gelu(at::zeros({3, 4}), at::zeros({5}), at::zeros({5})), Error);
}

TEST(Activations, SameForEveryNumberOfThreads) {
  const Tensor x = random_tensor({1100, 256}, 1, at::kFloat), bias = random_tensor({256}, 2, at::kFloat);
  expect_same_for_all_threads([&] {
    const Tensor sink = at::zeros({256});
    auto results = run([&](const Tensor& in) { return bias_gelu(in, bias, sink); }, x);
    for (const auto& op : {swiglu, whole_silu}) {
      for (const Tensor& each : run(op, x)) results.push_back(each);
    }
    results.push_back(sink);
    return results;
  });
}

}  // namespace
}  // namespace longhaul::kernels::activation_test
