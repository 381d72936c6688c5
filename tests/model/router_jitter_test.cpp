// Jitter of a router's input in training: its numbers, whatever the layout, and who reads what is jittered.
#include "model/experts/router_jitter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "router_of_one_layer.h"

namespace longhaul::model {
namespace {

using namespace longhaul::testing;

constexpr double kJitter = 0.25;

Tensor factors(const layout::SequenceView& view, int64_t hidden, int64_t first_sequence,
               const std::string& name = "a router") {
  return jittered(at::ones({view.own.length, hidden}, at::kDouble), kJitter, RandomStream(5, name), view,
                  first_sequence);
}

// By the definition: 1 + ε (2 w / 2³² − 1), four numbers a block, blocks of a sequence 2⁴⁰ apart.
TEST(RouterJitter, NumbersFollowFromSequenceTokenAndChannel) {
  constexpr int64_t kHidden = 6, kSequence = 5;
  const Tensor found = factors(layout::make_batch(3, kSequence), kHidden, 7);
  const RandomStream stream(5, "a router");
  for (int64_t row = 0; row < 3 * kSequence; ++row) {
    for (int64_t c = 0; c < kHidden; ++c) {
      const auto block = (static_cast<uint64_t>(7 + row / kSequence) << 40) +
                         static_cast<uint64_t>(row % kSequence * 2 + c / 4);
      const double u = std::ldexp(static_cast<double>(stream.block(block)[static_cast<size_t>(c % 4)]), -32);
      EXPECT_DOUBLE_EQ(found[row][c].item<double>(), 1 + kJitter * (2 * u - 1));
    }
  }
}

TEST(RouterJitter, IsUniformAroundOne) {
  const Tensor x = factors(layout::make_single(400), 50, 0);
  EXPECT_GE(x.min().item<double>(), 1 - kJitter);
  EXPECT_LT(x.max().item<double>(), 1 + kJitter);
  EXPECT_NEAR(x.mean().item<double>(), 1, 5 * kJitter / std::sqrt(3.0 * 20000));
  EXPECT_NEAR(x.var().item<double>(), kJitter * kJitter / 3, 0.03 * kJitter * kJitter);
  EXPECT_GT(relative_error(factors(layout::make_single(400), 50, 0, "another"), x), 0.1);
  EXPECT_GT(relative_error(factors(layout::make_single(400), 50, 1), x), 0.1);
}

// However sequences are cut into micro-batches, and over ranks.
TEST(RouterJitter, IsThatOfTheWholeInEveryLayout) {
  constexpr int64_t kHidden = 7, kSequence = 10;
  const Tensor all = factors(layout::make_batch(4, kSequence), kHidden, 0);
  for (int64_t s = 0; s < 4; ++s) {
    const Tensor own = all.narrow(0, s * kSequence, kSequence);
    EXPECT_TRUE(factors(layout::make_single(kSequence), kHidden, s).equal(own));
    for (const auto split : {layout::ContextSplit::kContiguous, layout::ContextSplit::kZigzag}) {
      for (int64_t rank = 0; rank < 4; ++rank) {
        const layout::SequenceView view(layout::make_single(kSequence), {.context_ranks = 2,
                                                                         .context_rank = rank / 2,
                                                                         .tensor_ranks = 2,
                                                                         .tensor_rank = rank % 2,
                                                                         .split = split});
        const Tensor found = factors(view, kHidden, s);
        for (int64_t i = 0; i < view.own.length; ++i)
          EXPECT_TRUE(found[i].equal(own[view.token_index[static_cast<size_t>(view.own.begin + i)]]));
      }
    }
  }
}

TEST(RouterJitter, GradientHasTheSameNumbers) {
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const Tensor x = random_tensor({6, 5}, 2, type).requires_grad_(true);
    const Tensor y = jittered(x, kJitter, RandomStream(5, "a router"), layout::make_single(6), 0);
    EXPECT_EQ(y.scalar_type(), type == at::kDouble ? at::kDouble : at::kFloat);
    const Tensor factor = factors(layout::make_single(6), 5, 0).to(y.scalar_type());
    EXPECT_TRUE(y.detach().equal(x.detach().to(y.scalar_type()).mul(factor)));
    const Tensor dy = random_tensor({6, 5}, 3, y.scalar_type());
    y.backward(dy);
    EXPECT_TRUE(x.grad().equal(dy.mul(factor).to(type)));
  }
}

// The router reads what is jittered, the experts what is not; nothing of it in evaluation.
TEST(RouterJitter, IsOfWhatTheRouterReadsInTraining) {
  recipe::ModelConfig config = router_config();
  config.router.jitter = 0.5;
  RouterOfOneLayer layer(config);
  const Tensor x = random_tensor({12, config.hidden}, 4);
  const at::NoGradGuard guard;
  layer.context.micro_batch = 3;
  const layout::SequenceLayout layout = layout::make_batch(2, 6);
  const Tensor noisy = jittered(x, 0.5, RandomStream(11, "router_jitter/layers.0.experts/4"), layout, 6);
  const auto expected = [&](const Tensor& seen) {
    std::vector<Tensor> rows;
    for (int64_t t = 0; t < x.size(0); ++t) {
      const Tensor logits = at::mv(layer.matrix("router"), seen[t]);
      const auto [best, which] = logits.topk(2);
      const Tensor weight = best.softmax(0);
      rows.push_back(weight[0] * layer.expert(x[t], which[0].item<int64_t>()) +
                     weight[1] * layer.expert(x[t], which[1].item<int64_t>()));
    }
    return at::stack(rows);
  };
  EXPECT_LT(relative_error(layer.experts.forward(layer.context, x, layout), expected(noisy)), 1e-12);
  EXPECT_GT(relative_error(expected(noisy), expected(x)), 1e-3);
  layer.context.training = false;
  EXPECT_LT(relative_error(layer.experts.forward(layer.context, x, layout), expected(x)), 1e-12);
}

}  // namespace
}  // namespace longhaul::model
