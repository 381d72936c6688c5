// feed_forward: fused against composed bit by bit, both against fp64, by every instruction set of this
// machine.
#include "kernels/linear/feed_forward.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/error.h"
#include "kernels/activation/op.h"
#include "kernels/dispatch.h"
#include "kernels/postponed.h"
#include "support/instruction_sets.h"
#include "support/threads.h"

namespace longhaul::kernels::feed_forward_test {
namespace {

using namespace longhaul::testing;

struct FeedForwardSize {
  int64_t tokens, in, width, out;
};
struct Inputs {
  Activation activation = Activation::kGelu;
  std::vector<int64_t> rows;  // of each expert; empty: dense
  Tensor x, up, up_bias, down, down_bias, dy;
};
struct Result {
  Tensor y, dx, d_up, d_down, d_up_bias, d_down_bias;
  std::vector<Tensor> of_products() const { return {y, dx, d_up, d_down}; }
};

Inputs inputs_of(Activation activation, const FeedForwardSize& size, ScalarType type, bool bias) {
  const int64_t columns = size.width * (activation == Activation::kSwiglu ? 2 : 1);
  const auto scaled = [&](int64_t out, int64_t in, uint64_t seed) {
    return random_tensor({out, in}, seed).div(std::sqrt(static_cast<double>(in))).to(type);
  };
  Inputs inputs{activation,
                {},
                random_tensor({size.tokens, size.in}, 1, type),
                scaled(columns, size.in, 2),
                Tensor(),
                scaled(size.out, size.width, 3),
                Tensor(),
                random_tensor({size.tokens, size.out}, 4, type)};
  if (bias) {
    inputs.up_bias = random_tensor({columns}, 5, type);
    inputs.down_bias = random_tensor({size.out}, 6, type);
  }
  return inputs;
}

Inputs grouped(const std::vector<int64_t>& rows, int64_t in, int64_t width, int64_t out, ScalarType type) {
  int64_t total = 0;
  for (const int64_t count : rows) total += count;
  const auto experts = static_cast<int64_t>(rows.size());
  return {Activation::kSwiglu,
          rows,
          random_tensor({total, in}, 1, type),
          random_tensor({experts, 2 * width, in}, 2).mul(0.1).to(type),
          Tensor(),
          random_tensor({experts, out, width}, 3).mul(0.1).to(type),
          Tensor(),
          random_tensor({total, out}, 4, type)};
}

struct Weights {  // with sinks that hold 1 before
  explicit Weights(const Tensor& weight, const Tensor& bias) {
    const auto sink_of = [](const Tensor& t) {
      return at::ones(t.sizes(),
                      at::TensorOptions().dtype(t.scalar_type() == at::kDouble ? at::kDouble : at::kFloat));
    };
    layer = {.weight = weight,
             .bias = bias,
             .sinks = {.weight = sink_of(weight), .bias = bias.defined() ? sink_of(bias) : Tensor()},
             .kept = {&copies, 1}};
  }
  void postpone(PostponedProducts& later) {
    layer.sinks = {later.to(layer.sinks.weight.buffer()), later.to(layer.sinks.bias.buffer())};
  }
  PackedWeight copies;
  LinearWeights layer;
};

Tensor call(const Inputs& in, const Tensor& x, const LinearWeights& up, const LinearWeights& down) {
  return in.rows.empty() ? feed_forward(x, in.activation, up, down)
                         : grouped_feed_forward(x, in.rows, in.activation, up, down);
}

Result run(const Inputs& in, const std::string& implementation) {
  const std::string op = in.rows.empty() ? "feed_forward" : "grouped_feed_forward";
  Weights up(in.up, in.up_bias), down(in.down, in.down_bias);
  const Tensor x = in.x.detach().requires_grad_(true);
  Dispatcher::force(op, implementation);
  const Tensor y = call(in, x, up.layer, down.layer);
  Dispatcher::force(op, std::nullopt);
  EXPECT_EQ(Dispatcher::last(op).chosen, implementation);
  y.backward(in.dy);
  const auto gained = [](const GradientSink& sink) { return sink.wanted() ? sink.buffer() - 1 : Tensor(); };
  return {y.detach(),
          x.grad(),
          gained(up.layer.sinks.weight),
          gained(down.layer.sinks.weight),
          gained(up.layer.sinks.bias),
          gained(down.layer.sinks.bias)};
}

// Plain ATen in fp64, expert by expert.
Result plain(const Inputs& in) {
  const auto leaf = [](const Tensor& t) {
    return t.defined() ? t.detach().to(at::kDouble, false, true).requires_grad_(true) : Tensor();
  };
  const Tensor x = leaf(in.x), up = leaf(in.up), down = leaf(in.down), up_bias = leaf(in.up_bias),
               down_bias = leaf(in.down_bias);
  const auto one = [&](const Tensor& rows, const Tensor& w1, const Tensor& w2) {
    Tensor z = at::mm(rows, w1.t());
    if (up_bias.defined()) z = z + up_bias;
    const Tensor y =
        at::mm(in.activation == Activation::kSwiglu ? swiglu_reference(z) : bias_gelu_reference(z, Tensor()),
               w2.t());
    return down_bias.defined() ? y + down_bias : y;
  };
  Tensor y;
  if (in.rows.empty()) {
    y = one(x, up, down);
  } else {
    std::vector<Tensor> parts;
    int64_t begin = 0;
    for (size_t e = 0; e < in.rows.size(); ++e) {
      parts.push_back(
          one(x.narrow(0, begin, in.rows[e]), up[static_cast<int64_t>(e)], down[static_cast<int64_t>(e)]));
      begin += in.rows[e];
    }
    y = at::cat(parts);
  }
  y.backward(in.dy.to(at::kDouble));
  const auto gradient = [](const Tensor& t) { return t.defined() ? t.grad() : Tensor(); };
  return {y.detach(), gradient(x), gradient(up), gradient(down), gradient(up_bias), gradient(down_bias)};
}

// fp32: sums of up to 600 products twice. bf16: z, its activation and each result are rounded, 2^-9 each; the
// gradients see dz rounded too.
void expect_close(const Result& found, const Result& exact, ScalarType type) {
  const double tolerance = type == at::kBFloat16 ? 1.5e-2 : type == at::kFloat ? 1e-5 : 1e-12;
  const std::vector<Tensor> a = found.of_products(), b = exact.of_products();
  for (size_t i = 0; i < a.size(); ++i) EXPECT_LT(relative_error(a[i], b[i]), tolerance) << "result " << i;
  EXPECT_EQ(found.d_up_bias.defined(), exact.d_up_bias.defined());
  if (!found.d_up_bias.defined()) return;
  EXPECT_LT(relative_error(found.d_up_bias, exact.d_up_bias), tolerance);
  EXPECT_LT(relative_error(found.d_down_bias, exact.d_down_bias), tolerance);
}

void expect_fused_is_composed(const Inputs& in) {
  const Result composed = run(in, "composed"), exact = plain(in);
  expect_close(composed, exact, in.x.scalar_type());
  for_each_instruction_set([&] {
    const Result fused = run(in, "fused"), same_set = run(in, "composed");
    expect_close(fused, exact, in.x.scalar_type());
    const std::vector<Tensor> a = fused.of_products(), b = same_set.of_products();
    for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].equal(b[i])) << "result " << i;
  });
}

// Below, at and beyond a panel, a block of rows, a block of columns and a chunk of k.
TEST(FeedForward, FusedIsComposedAndRight) {
  const PoisonFreshMemory poison;
  for (const auto& size :
       {FeedForwardSize{1, 20, 16, 17}, FeedForwardSize{37, 12, 48, 9}, FeedForwardSize{200, 33, 80, 70},
        FeedForwardSize{46, 600, 144, 130}, FeedForwardSize{230, 20, 528, 24}}) {
    for (const auto activation : {Activation::kGelu, Activation::kSwiglu}) {
      for (const ScalarType type : {at::kBFloat16, at::kFloat}) {
        SCOPED_TRACE(fmt::format("{} {} {} {} {} {}", size.tokens, size.in, size.width, size.out,
                                 static_cast<int>(activation), name_of(type)));
        expect_fused_is_composed(inputs_of(activation, size, type, size.in % 2 == 0));
      }
    }
  }
  // a width that ends inside a panel
  expect_fused_is_composed(inputs_of(Activation::kGelu, {50, 20, 45, 31}, at::kBFloat16, true));
}

TEST(FeedForward, GroupedIsComposedAndRight) {
  const PoisonFreshMemory poison;
  for (const auto& rows :
       std::vector<std::vector<int64_t>>{{5, 0, 1, 12, 0}, {0, 0}, {300, 7, 0, 231}, {1}}) {
    for (const ScalarType type : {at::kBFloat16, at::kFloat})
      expect_fused_is_composed(grouped(rows, 40, 96, 24, type));
  }
}

TEST(FeedForward, SameForEveryNumberOfThreads) {
  for (const auto activation : {Activation::kGelu, Activation::kSwiglu}) {
    const Inputs in = inputs_of(activation, {450, 520, 336, 70}, at::kBFloat16, true);
    expect_same_for_all_threads([&] {
      const Result result = run(in, "fused");
      return std::vector<Tensor>{result.y,      result.dx,        result.d_up,
                                 result.d_down, result.d_up_bias, result.d_down_bias};
    });
  }
}

TEST(FeedForward, WithoutGradientNothingIsKept) {
  const PoisonFreshMemory poison;
  for (const auto activation : {Activation::kGelu, Activation::kSwiglu}) {
    const Inputs in = inputs_of(activation, {230, 20, 528, 24}, at::kBFloat16, true);
    Weights up(in.up, in.up_bias), down(in.down, in.down_bias);
    up.layer.sinks = down.layer.sinks = {};  // inference has none
    const Tensor composed = run(in, "composed").y;
    const at::NoGradGuard guard;
    const Tensor y = feed_forward(in.x, activation, up.layer, down.layer);
    EXPECT_EQ(Dispatcher::last("feed_forward").chosen, "fused");
    EXPECT_TRUE(y.equal(composed) && !y.requires_grad());
  }
}

TEST(FeedForward, TakesRowsApartAndPostpones) {
  Inputs in = inputs_of(Activation::kGelu, {50, 60, 64, 30}, at::kFloat, true);
  in.x = random_tensor({50, 90}, 1, at::kFloat).narrow(1, 7, 60);
  in.dy = random_tensor({50, 80}, 3, at::kFloat).narrow(1, 5, 30);
  const Result at_once = run(in, "fused");
  expect_close(at_once, plain(in), at::kFloat);
  PostponedProducts later;
  Weights up(in.up, in.up_bias), down(in.down, in.down_bias);
  up.postpone(later), down.postpone(later);
  feed_forward(in.x.detach().requires_grad_(true), in.activation, up.layer, down.layer).backward(in.dy);
  const LinearSinks &of_up = up.layer.sinks, &of_down = down.layer.sinks;
  EXPECT_TRUE(of_up.weight.buffer().eq(1).all().item<bool>() &&
              of_down.bias.buffer().eq(1).all().item<bool>());
  EXPECT_EQ(later.queue().size(), 2u);
  later.run();
  EXPECT_TRUE((of_up.weight.buffer() - 1).equal(at_once.d_up) &&
              (of_down.weight.buffer() - 1).equal(at_once.d_down));
  EXPECT_TRUE((of_up.bias.buffer() - 1).equal(at_once.d_up_bias) &&
              (of_down.bias.buffer() - 1).equal(at_once.d_down_bias));
}

TEST(FeedForward, ComposedSaysWhy) {
  const auto reason_of = [](const Inputs& in, bool kept) {
    Weights up(in.up, in.up_bias), down(in.down, in.down_bias);
    if (!kept) up.layer.kept = {};
    feed_forward(in.x, in.activation, up.layer, down.layer);
    const Choice& choice = Dispatcher::last("feed_forward");
    return choice.chosen == "composed" ? choice.refusals.at(0).second : "";
  };
  const FeedForwardSize size{5, 8, 16, 6};
  EXPECT_EQ(reason_of(inputs_of(Activation::kSwiglu, size, at::kFloat, false), true), "");
  EXPECT_THAT(reason_of(inputs_of(Activation::kSwiglu, size, at::kFloat, false), false),
              ::testing::HasSubstr("not kept packed"));
  EXPECT_THAT(reason_of(inputs_of(Activation::kSwiglu, {5, 8, 24, 6}, at::kFloat, false), true),
              ::testing::HasSubstr("share a panel"));
  EXPECT_THAT(reason_of(inputs_of(Activation::kGelu, size, at::kDouble, true), true),
              ::testing::HasSubstr("bf16 and fp32"));
  // fp64: LibTorch's products and the reference's activations
  for (const auto activation : {Activation::kGelu, Activation::kSwiglu}) {
    const Inputs in = inputs_of(activation, {37, 12, 45, 9}, at::kDouble, true);
    expect_close(run(in, "composed"), plain(in), at::kDouble);
  }
}

TEST(FeedForward, RefusesWrongArguments) {
  const Inputs in = inputs_of(Activation::kSwiglu, {5, 8, 16, 6}, at::kFloat, true);
  Weights up(in.up, in.up_bias), down(in.down, in.down_bias);
  EXPECT_THROW(feed_forward(in.x, Activation::kGelu, up.layer, down.layer), Error) << "up is twice too wide";
  EXPECT_THROW(feed_forward(in.x.narrow(1, 0, 4), Activation::kSwiglu, up.layer, down.layer), Error);
  EXPECT_THROW(feed_forward(in.x.to(at::kBFloat16), Activation::kSwiglu, up.layer, down.layer), Error);
  EXPECT_THROW(grouped_feed_forward(in.x, {5}, Activation::kSwiglu, up.layer, down.layer), Error)
      << "no experts";
  Weights other(in.up, in.down_bias);
  EXPECT_THROW(feed_forward(in.x, Activation::kSwiglu, other.layer, down.layer), Error)
      << "a bias of another length";
  const Inputs experts = grouped({2, 3}, 8, 16, 6, at::kFloat);
  Weights expert_up(experts.up, Tensor()), expert_down(experts.down, Tensor());
  EXPECT_THROW(
      grouped_feed_forward(experts.x, {2, 2}, Activation::kSwiglu, expert_up.layer, expert_down.layer), Error)
      << "rows left over";
  EXPECT_THROW(grouped_feed_forward(experts.x, {5}, Activation::kSwiglu, expert_up.layer, expert_down.layer),
               Error)
      << "one expert's rows";
}

// Frozen weights: the gradients of the input and of what trains stay the same, and nothing is computed for
// the rest.
TEST(FeedForward, FrozenWeightsGetNothing) {
  const Inputs dense = inputs_of(Activation::kGelu, {20, 32, 48, 32}, at::kFloat, true),
               experts = grouped({7, 0, 13}, 32, 64, 32, at::kFloat);
  for (const Inputs* in : {&dense, &experts}) {
    for (const char* implementation : {"fused", "composed"}) {
      const Result all = run(*in, implementation);
      for (const int frozen : {1, 2, 3}) {  // up, down, both
        SCOPED_TRACE(fmt::format("{} experts, {}, frozen {}", in->rows.size(), implementation, frozen));
        Weights up(in->up, in->up_bias), down(in->down, in->down_bias);
        PostponedProducts later;
        up.postpone(later), down.postpone(later);
        if (frozen & 1) up.layer.sinks = {};
        if (frozen & 2) down.layer.sinks = {};
        const Tensor x = in->x.detach().requires_grad_(true);
        const std::string op = in->rows.empty() ? "feed_forward" : "grouped_feed_forward";
        Dispatcher::force(op, implementation);
        call(*in, x, up.layer, down.layer).backward(in->dy);
        Dispatcher::force(op, std::nullopt);
        EXPECT_EQ(Dispatcher::last(op).chosen, implementation);
        EXPECT_TRUE(x.grad().equal(all.dx));
        EXPECT_EQ(later.queue().empty(), frozen == 3);
        later.run();
        if (frozen == 1) {
          EXPECT_TRUE(down.layer.sinks.weight.buffer().sub(1).equal(all.d_down));
        } else if (frozen == 2) {
          EXPECT_TRUE(up.layer.sinks.weight.buffer().sub(1).equal(all.d_up));
        }
      }
    }
  }
}

}  // namespace
}  // namespace longhaul::kernels::feed_forward_test
