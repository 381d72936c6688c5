#include "kernels/gradient_sink.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "kernels/by_device.h"
#include "kernels/linear/op.h"
#include "kernels/postponed.h"
#include "support/tensors.h"

namespace longhaul::kernels::gradient_sink_test {
namespace {

using namespace longhaul::testing;  // NOLINT: this test's own helpers

struct Counted {  // a weight whose "ready" is counted
  explicit Counted(const BackwardPhase& phase) {
    flow.phase = &phase;
    flow.on_ready = [this] { ++ready; };
  }
  GradientFlow flow;
  int ready = 0;
};

Tensor leaf(const Tensor& t) { return t.detach().requires_grad_(true); }

TEST(GradientSink, AnAbsentOneDropsProducts) {
  GradientSink().add([](const Tensor&) { FAIL() << "nobody wants it"; });
  const Tensor buffer = at::zeros({2});
  GradientSink(buffer).add([](const Tensor& to) { to.add_(3); });
  EXPECT_TRUE(buffer.eq(3).all().item<bool>());
}

// A tied embedding: two uses in one forward pass, two micro-batches. It is whole when the fourth product has
// come.
TEST(GradientSink, IsReadyOnceWithTheLastProductOfTheStep) {
  BackwardPhase phase;
  Counted weight(phase);
  const Tensor w = random_tensor({4, 4}, 1), sink = at::zeros({4, 4}, at::kDouble),
               x = random_tensor({3, 4}, 2);
  const auto forward = [&] {
    const Tensor h = linear(leaf(x), leaf(w), {}, {.weight = {sink, &weight.flow}});
    return linear(h, leaf(w), {}, {.weight = {sink, &weight.flow}}).sum();
  };
  weight.flow.begin_step();
  forward().backward();
  EXPECT_EQ(weight.ready, 0) << "another forward pass is to come";
  const Tensor second = forward();
  phase.all_announced = true;
  second.backward();
  EXPECT_EQ(weight.ready, 1);

  const Tensor plain = leaf(w);
  at::mm(at::mm(x, plain.t()), plain.t()).sum().mul(2).backward();
  EXPECT_LT(relative_error(sink, plain.grad()), 1e-13);
  EXPECT_THROW(forward().backward(), Error) << "a product after the gradient was called whole";

  weight.flow.begin_step();
  phase.all_announced = false;
  const Tensor again = forward();
  phase.all_announced = true;
  again.backward();
  EXPECT_EQ(weight.ready, 2);
}

TEST(GradientSink, PostponedProductsMakeItReadyWhenTheyRun) {
  std::vector<std::function<void()>> queue;
  BackwardPhase phase{.postponed = &queue};
  Counted weight(phase), bias(phase);
  const Tensor x = random_tensor({5, 3}, 1), w = leaf(random_tensor({2, 3}, 2)),
               b = leaf(random_tensor({2}, 3));
  const Tensor sink = at::zeros({2, 3}, at::kDouble), bias_sink = at::zeros({2}, at::kDouble);
  const Tensor y = linear(x, w, b, {.weight = {sink, &weight.flow}, .bias = {bias_sink, &bias.flow}});
  phase.all_announced = true;
  y.sum().backward();
  EXPECT_EQ(weight.ready + bias.ready, 0);
  ASSERT_EQ(queue.size(), 1u);
  queue[0]();
  EXPECT_EQ(weight.ready, 1);
  EXPECT_EQ(bias.ready, 1);
  EXPECT_LT(relative_error(bias_sink, at::full({2}, 5.0, at::kDouble)), 1e-15);
}

// What records nothing announces nothing: evaluation between forward and backward passes changes no count.
TEST(GradientSink, ForwardPassesWithoutGradientAreNotAwaited) {
  BackwardPhase phase;
  Counted weight(phase);
  const Tensor w = random_tensor({3}, 1), sink = at::zeros({3}, at::kDouble);
  weight.flow.begin_step();
  const Tensor used = with_gradient_to(w, {sink, &weight.flow});
  {
    const at::NoGradGuard no_gradient;
    with_gradient_to(w, {sink, &weight.flow});
    linear(random_tensor({5, 3}, 1), leaf(random_tensor({1, 3}, 2)), {}, {.weight = {sink, &weight.flow}});
  }
  phase.all_announced = true;
  used.sum().backward();
  EXPECT_EQ(weight.ready, 1);
  EXPECT_TRUE(sink.eq(1).all().item<bool>());
}

}  // namespace
}  // namespace longhaul::kernels::gradient_sink_test
