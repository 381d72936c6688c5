// linear and grouped_linear against plain ATen under autograd; the weights' gradients arrive in their sinks.
#include "kernels/linear/op.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "kernels/dispatch.h"
#include "kernels/linear/raw.h"
#include "kernels/postponed.h"
#include "support/tensors.h"

namespace longhaul::kernels::linear_test {
namespace {

using namespace longhaul::testing;

struct LinearResult {
  Tensor y, dx, dw, db;
};

ScalarType sink_type(ScalarType type) { return type == at::kDouble ? at::kDouble : at::kFloat; }

Tensor linear_leaf(const Tensor& value) { return value.detach().clone().requires_grad_(true); }

LinearResult run_linear(const Tensor& x_in, const Tensor& w_in, const Tensor& b_in, const Tensor& dy) {
  const Tensor x = linear_leaf(x_in), w = linear_leaf(w_in),
               b = b_in.defined() ? linear_leaf(b_in) : Tensor();
  const auto wide = w.options().dtype(sink_type(w.scalar_type())).requires_grad(false);
  const Tensor dw = at::zeros(w.sizes(), wide), db = b.defined() ? at::zeros(b.sizes(), wide) : Tensor();
  const Tensor y = linear(x, w, b, {.weight = dw, .bias = db});
  y.backward(dy);
  EXPECT_FALSE(w.grad().defined()) << "the gradient goes to the sink only";
  return {y.detach(), x.grad(), dw, db};
}

LinearResult run_plain(const Tensor& x_in, const Tensor& w_in, const Tensor& b_in, const Tensor& dy) {
  const Tensor x = linear_leaf(x_in.to(at::kDouble)), w = linear_leaf(w_in.to(at::kDouble)),
               b = b_in.defined() ? linear_leaf(b_in.to(at::kDouble)) : Tensor();
  Tensor y = at::mm(x, w.t());
  if (b.defined()) y = y + b;
  y.backward(dy.to(at::kDouble));
  return {y.detach(), x.grad(), w.grad(), b.defined() ? b.grad() : Tensor()};
}

// fp32: sums of about 40 products; bf16: inputs are exact, every result is rounded once (2^-8) relative to
// the largest.
const std::pair<at::ScalarType, double> kLinearTypes[] = {
    {at::kDouble, 1e-12}, {at::kFloat, 1e-5}, {at::kBFloat16, 8e-3}};

TEST(Linear, EqualsPlainProducts) {
  const PoisonFreshMemory poison;
  for (const auto& [type, tolerance] : kLinearTypes) {
    for (const bool bias : {false, true}) {
      const Tensor x = random_tensor({37, 12}, 1, type), w = random_tensor({9, 12}, 2, type),
                   dy = random_tensor({37, 9}, 4, type);
      const Tensor b = bias ? random_tensor({9}, 3, type) : Tensor();
      const LinearResult fast = run_linear(x, w, b, dy), plain = run_plain(x, w, b, dy);
      EXPECT_EQ(fast.y.scalar_type(), type);
      EXPECT_EQ(fast.dw.scalar_type(), sink_type(type));
      EXPECT_LT(relative_error(fast.y, plain.y), tolerance) << type;
      EXPECT_LT(relative_error(fast.dx, plain.dx), tolerance) << type;
      EXPECT_LT(relative_error(fast.dw, plain.dw), tolerance) << type;
      if (bias) {
        EXPECT_LT(relative_error(fast.db, plain.db), tolerance) << type;
      }
    }
  }
}

TEST(Linear, GradientOfTheInput) {
  const Tensor w = random_tensor({5, 8}, 2), mix = random_tensor({6, 5}, 3);
  check_gradients(
      [&](const std::vector<Tensor>& in) {
        return linear(in[0], w, Tensor(), {.weight = at::zeros_like(w)}).mul(mix).sum();
      },
      {random_tensor({6, 8}, 1)});
}

TEST(Linear, MicroBatchesAddUpInTheSink) {
  const Tensor x = random_tensor({20, 8}, 1), w = linear_leaf(random_tensor({5, 8}, 2)),
               dy = random_tensor({20, 5}, 3);
  const Tensor sink = at::ones({5, 8}, at::kDouble);
  for (const int64_t begin : {0, 10})
    linear(x.narrow(0, begin, 10), w, Tensor(), {.weight = sink}).backward(dy.narrow(0, begin, 10));
  EXPECT_LT(relative_error(sink - 1, at::mm(dy.t(), x)), 1e-13);
}

// bf16 products add up in the sink's fp32: rounded to bf16 first, each micro-batch would bring an error of
// 2e-3.
TEST(Linear, TheSinkGetsUnroundedProducts) {
  const Tensor x = random_tensor({300, 24}, 1, at::kBFloat16),
               dy = random_tensor({300, 16}, 2, at::kBFloat16);
  const Tensor expected = at::mm(dy.to(at::kDouble).t(), x.to(at::kDouble));
  const Tensor packed = at::zeros({16, 24}, at::kFloat), strided = at::zeros({24, 16}, at::kFloat).t();
  add_weight_gradient(packed, dy, x);
  EXPECT_EQ(Dispatcher::last("linear_weight_gradient").chosen, "packed");
  add_weight_gradient(strided, dy, x);
  EXPECT_EQ(Dispatcher::last("linear_weight_gradient").chosen, "libtorch");
  EXPECT_LT(relative_error(packed, expected), 1e-6);
  EXPECT_LT(relative_error(strided, expected), 1e-6);
}

TEST(Linear, PostponedProductsRunWhenCalled) {
  const Tensor x = linear_leaf(random_tensor({20, 8}, 1)), w = linear_leaf(random_tensor({5, 8}, 2)),
               b = linear_leaf(random_tensor({5}, 4)), dy = random_tensor({20, 5}, 3);
  const Tensor sink = at::zeros({5, 8}, at::kDouble), bias_sink = at::zeros({5}, at::kDouble);
  PostponedProducts later;
  linear(x, w, b, {.weight = later.to(sink), .bias = later.to(bias_sink)}).backward(dy);
  EXPECT_TRUE(x.grad().defined()) << "the input's gradient is not postponed";
  ASSERT_EQ(later.queue().size(), 1u);
  EXPECT_TRUE(sink.eq(0).all().item<bool>());
  later.run();
  EXPECT_LT(relative_error(sink, at::mm(dy.t(), x.detach())), 1e-13);
  EXPECT_LT(relative_error(bias_sink, dy.sum(0)), 1e-13);
}

// Frozen weights: no product for them, now or later; the input's gradient is the same.
TEST(Linear, WithoutSinksOnlyTheInputHasAGradient) {
  const Tensor w = random_tensor({5, 8}, 2), b = random_tensor({5}, 4), dy = random_tensor({20, 5}, 3),
               x = linear_leaf(random_tensor({20, 8}, 1));
  PostponedProducts later;
  linear(x, w, b, {.weight = later.to({})}).backward(dy);
  EXPECT_TRUE(later.queue().empty());
  EXPECT_LT(relative_error(x.grad(), at::mm(dy, w)), 1e-13);
  const Tensor bias_sink = at::ones({5}, at::kDouble);
  // a bias without its weight
  linear(random_tensor({20, 8}, 1), w, linear_leaf(b), {.bias = bias_sink}).backward(dy);
  EXPECT_LT(relative_error(bias_sink - 1, dy.sum(0)), 1e-13);
}

// More rows than are widened at once.
TEST(LinearWide, KeepsTheSumsOfRoundedProducts) {
  const PoisonFreshMemory poison;
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const Tensor x = random_tensor({3, 24}, 1, type), w = random_tensor({1500, 24}, 2, type);
    const Tensor y = linear_wide(x, w);
    EXPECT_EQ(y.scalar_type(), sink_type(type));
    EXPECT_LT(relative_error(y, at::mm(x.to(at::kDouble), w.to(at::kDouble).t())),
              type == at::kDouble ? 1e-14 : 1e-6)
        << type;
  }
  EXPECT_THROW(linear_wide(random_tensor({3, 7}, 1), random_tensor({5, 8}, 2)), Error);
}

TEST(Linear, RefusesShapes) {
  const Tensor w = random_tensor({5, 8}, 2);
  EXPECT_THROW(linear(random_tensor({3, 7}, 1), w, Tensor(), {.weight = w}), Error);
  EXPECT_THROW(linear(random_tensor({3, 8}, 1, at::kFloat), w, Tensor(), {.weight = w}), Error);
}

// Expert 1 and the last one get no rows.
TEST(GroupedLinear, EqualsOneProductPerExpert) {
  const PoisonFreshMemory poison;
  const std::vector<int64_t> rows = {5, 0, 1, 12, 0};
  for (const auto& [type, tolerance] : kLinearTypes) {
    const Tensor x = linear_leaf(random_tensor({18, 7}, 1, type)),
                 w = linear_leaf(random_tensor({5, 6, 7}, 2, type)), dy = random_tensor({18, 6}, 3, type);
    const Tensor sink = at::zeros({5, 6, 7}, at::TensorOptions().dtype(sink_type(type)));
    const Tensor y = grouped_linear(x, rows, w, sink);
    y.backward(dy);
    int64_t begin = 0;
    for (int64_t e = 0; e < 5; ++e) {
      const int64_t count = rows[static_cast<size_t>(e)];
      if (count == 0) {
        EXPECT_TRUE(sink[e].eq(0).all().item<bool>());
        continue;
      }
      const LinearResult plain =
          run_plain(x.narrow(0, begin, count), w.detach()[e], Tensor(), dy.narrow(0, begin, count));
      EXPECT_LT(relative_error(y.narrow(0, begin, count), plain.y), tolerance) << type << " expert " << e;
      EXPECT_LT(relative_error(x.grad().narrow(0, begin, count), plain.dx), tolerance)
          << type << " expert " << e;
      EXPECT_LT(relative_error(sink[e], plain.dw), tolerance) << type << " expert " << e;
      begin += count;
    }
  }
}

TEST(GroupedLinear, GradientOfTheInput) {
  const Tensor w = random_tensor({3, 5, 8}, 2), mix = random_tensor({6, 5}, 3);
  check_gradients(
      [&](const std::vector<Tensor>& in) {
        return grouped_linear(in[0], {4, 0, 2}, w, at::zeros_like(w)).mul(mix).sum();
      },
      {random_tensor({6, 8}, 1)});
}

// The product alone, with and without copies that are kept: dy W of each expert, a row by its own row alone.
TEST(GroupedLinear, InputGradientAtTheRawLevel) {
  const std::vector<int64_t> rows = {5, 0, 1, 12};
  for (const auto& [type, tolerance] : kLinearTypes) {
    const Tensor dy = random_tensor({18, 6}, 1, type), w = random_tensor({4, 6, 7}, 2, type);
    PackedWeight kept;
    const Tensor plain = grouped_linear_input_gradient(dy, rows, w),
                 packed = grouped_linear_input_gradient(dy, rows, w, {&kept, 1});
    const Tensor alone = grouped_linear_input_gradient(dy.narrow(0, 8, 1), {0, 0, 0, 1}, w, {&kept, 1});
    int64_t begin = 0;
    for (int64_t e = 0; e < 4; ++e) {
      const int64_t count = rows[static_cast<size_t>(e)];
      if (count == 0) continue;
      const Tensor expected = at::mm(dy.narrow(0, begin, count).to(at::kDouble), w[e].to(at::kDouble));
      EXPECT_LT(relative_error(plain.narrow(0, begin, count), expected), tolerance)
          << type << " expert " << e;
      EXPECT_LT(relative_error(packed.narrow(0, begin, count), expected), tolerance)
          << type << " expert " << e;
      begin += count;
    }
    if (type != at::kDouble) {
      EXPECT_EQ(kept.packings(), 1) << type;
      EXPECT_TRUE(alone[0].equal(packed[8])) << type;
    }
  }
  const Tensor w = random_tensor({2, 5, 8}, 2);
  EXPECT_THROW(grouped_linear_input_gradient(random_tensor({3, 8}, 1), {1, 2}, w), Error)
      << "dy as wide as x";
  EXPECT_THROW(grouped_linear_input_gradient(random_tensor({3, 5}, 1), {1, 1}, w), Error)
      << "rows do not add up";
  EXPECT_THROW(grouped_linear_input_gradient(random_tensor({3, 5}, 1), {3}, w), Error)
      << "experts do not match";
}

TEST(GroupedLinear, EdgeCases) {
  const Tensor w = random_tensor({2, 5, 8}, 2);
  EXPECT_EQ(grouped_linear(random_tensor({0, 8}, 1), {0, 0}, w, w).sizes(), at::IntArrayRef({0, 5}));
  EXPECT_THROW(grouped_linear(random_tensor({3, 8}, 1), {1, 1}, w, w), Error) << "rows do not add up";
  EXPECT_THROW(grouped_linear(random_tensor({3, 8}, 1), {3}, w, w), Error) << "experts do not match";
}

}  // namespace
}  // namespace longhaul::kernels::linear_test
