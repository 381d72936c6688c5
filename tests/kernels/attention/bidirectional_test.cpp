// Attention without an order against sums over all tokens, head by head in fp64; encodings of grids against
// the place of every token.
#include "kernels/bidirectional/op.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "kernels/linear_recurrence/op.h"
#include "kernels/scan/op.h"
#include "kernels/toeplitz/grid.h"
#include "kernels/toeplitz/op.h"
#include "support/instruction_sets.h"
#include "support/threads.h"
#include "tensor/to_tensor.h"

namespace longhaul::kernels {
namespace {

using namespace longhaul::testing;

// Equal ones side by side, an empty one, one of a token, one of more than a block.
const std::vector<int64_t> kSets = {0, 4, 8, 8, 12, 13, 340};

// Weight of s for i is Σ_c q_ic e^{x_sc} / Σ_s' e^{x_s'c}: a matrix of all pairs.
Tensor set_by_pairs(const Tensor& q, const Tensor& x, const Tensor& v, const std::vector<int64_t>& offsets) {
  std::vector<Tensor> rows{v.narrow(0, 0, 0)};
  for (size_t n = 0; n + 1 < offsets.size(); ++n) {
    const auto part = [&](const Tensor& of) { return of.narrow(0, offsets[n], offsets[n + 1] - offsets[n]); };
    if (offsets[n] == offsets[n + 1]) continue;
    const Tensor grown = part(x).exp(), keys = grown / grown.sum(0, /*keepdim=*/true);
    std::vector<Tensor> heads;
    for (int64_t h = 0; h < q.size(1); ++h) {
      const auto of_head = [&](const Tensor& of) { return part(of).select(1, h); };
      const Tensor weights = (of_head(q).unsqueeze(1) * keys.select(1, h).unsqueeze(0)).sum(2);  // [i, s]
      heads.push_back((weights.unsqueeze(2) * of_head(v).unsqueeze(0)).sum(1));
    }
    rows.push_back(at::stack(heads, 1));
  }
  return at::cat(rows);
}

Tensor set_attention(const Tensor& q, const Tensor& x, const Tensor& v, const Tensor& offsets) {
  return bidirectional_attention(q, segment_softmax(x.flatten(1), offsets).view_as(x), v, offsets);
}

TEST(Bidirectional, EqualsTheMatrixOfAllPairs) {
  const Tensor offsets = to_tensor(kSets);
  for (const auto& [type, tolerance] :
       {std::pair{at::kDouble, 1e-12}, {at::kFloat, 1e-5}, {at::kBFloat16, 1.5e-2}}) {
    std::vector<Tensor> in, again;
    for (const auto& sizes : {std::vector<int64_t>{340, 3, 5}, {340, 3, 5}, {340, 3, 17}}) {
      in.push_back(random_tensor(sizes, 1 + in.size(), type).requires_grad_(true));
      again.push_back(in.back().detach().to(at::kDouble).clone().requires_grad_(true));
    }
    const Tensor found = set_attention(in[0], in[1], in[2], offsets),
                 wanted = set_by_pairs(again[0], again[1], again[2], kSets);
    EXPECT_LT(relative_error(found, wanted), tolerance);
    const Tensor mix = random_tensor(found.sizes(), 9);
    found.to(at::kDouble).mul(mix).sum().backward();
    wanted.mul(mix).sum().backward();
    for (size_t i = 0; i < 3; ++i)
      EXPECT_LT(relative_error(in[i].grad(), again[i].grad()), 2 * tolerance) << i;
  }
}

TEST(Bidirectional, OnEveryInstructionSetAndDeviceTheSame) {
  const Tensor offsets = to_tensor(kSets);
  const auto run = [&](at::ScalarType type) {
    std::vector<Tensor> in;
    for (const auto& sizes : {std::vector<int64_t>{340, 2, 70}, {340, 2, 70}, {340, 2, 36}})
      in.push_back(random_tensor(sizes, 1 + in.size(), at::kFloat).to(type).requires_grad_(true));
    const Tensor o = set_attention(in[0], in[1], in[2], offsets);
    o.mul(random_tensor(o.sizes(), 9, at::kFloat).to(type)).sum().backward();
    return std::vector<Tensor>{o.detach(), in[0].grad(), in[1].grad(), in[2].grad()};
  };
  const std::vector<Tensor> wanted = run(at::kDouble);  // by LibTorch's operators
  const PoisonFreshMemory poison;
  for_each_instruction_set([&] {
    for (const auto& [type, tolerance] : {std::pair{at::kFloat, 1e-5}, {at::kBFloat16, 2e-2}}) {
      const auto found = run(type);
      for (size_t i = 0; i < found.size(); ++i)
        EXPECT_LT(relative_error(found[i], wanted[i]), tolerance) << i << " " << name_of(type);
    }
  });
  expect_same_for_all_threads([&] { return run(at::kBFloat16); });
}

TEST(Bidirectional, Gradients) {
  const Tensor offsets = to_tensor(std::vector<int64_t>{0, 3, 6, 10}), mix = random_tensor({10, 2, 4}, 5);
  check_gradients(
      [&](const std::vector<Tensor>& in) {
        return set_attention(in[0], in[1], in[2], offsets).mul(mix).sum();
      },
      {random_tensor({10, 2, 3}, 1), random_tensor({10, 2, 3}, 2), random_tensor({10, 2, 4}, 3)});
}

// The last token of a causal pass has read everything: there both forms of the additive recurrence agree.
TEST(Bidirectional, TheLastTokenIsThatOfTheCausalForm) {
  const Tensor q = random_tensor({30, 2, 4}, 1), x = random_tensor({30, 2, 4}, 2),
               v = random_tensor({30, 2, 6}, 3);
  const CumulativeSoftmax causal = cumulative_softmax(x.flatten(1), {}, {});
  const Tensor o =
      linear_recurrence(q, causal.k_tc.view_as(x), v, causal.log_decay_tc.view_as(x), {}, {}).o_thd;
  EXPECT_LT(relative_error(set_attention(q, x, v, {})[29], o[29]), 1e-12);
}

TEST(Bidirectional, OrderDoesNotMatterAndLogitsMayBeLarge) {
  const Tensor q = random_tensor({12, 2, 4}, 1), x = random_tensor({12, 2, 4}, 2).mul(1e4),
               v = random_tensor({12, 2, 6}, 3);
  const Tensor order = at::tensor(std::vector<int64_t>{3, 0, 11, 7, 1, 2, 9, 10, 4, 5, 8, 6});
  const Tensor o = set_attention(q, x, v, {}),
               mixed = set_attention(q.index_select(0, order), x.index_select(0, order),
                                     v.index_select(0, order), {});
  EXPECT_TRUE(o.isfinite().all().item<bool>());
  EXPECT_LT(relative_error(mixed, o.index_select(0, order)), 1e-12);
}

TEST(Bidirectional, RefusesWhatDoesNotFit) {
  const Tensor q = at::zeros({4, 2, 3}), v = at::zeros({4, 2, 5});
  EXPECT_THROW(bidirectional_attention(q, at::zeros({4, 2, 4}), v, {}), Error);
  EXPECT_THROW(bidirectional_attention(q, q, at::zeros({3, 2, 5}), {}), Error);
  EXPECT_THROW(segment_softmax(q, {}), Error);
}

// ---- grids

const std::vector<GridSizes> kGridSizes = {{3, 4}, {3, 4}, {5, 1}, {2, 6}};

// Token by token: what stands in its line, along each axis, before it.
Tensor grids_by_place(const Tensor& x, const std::vector<GridSizes>& grids,
                      const std::vector<ToeplitzAxis>& axes) {
  std::vector<Tensor> rows;
  int64_t begin = 0;
  for (const GridSizes& grid : grids) {
    for (int64_t i = 0; i < grid[0]; ++i) {
      for (int64_t j = 0; j < grid[1]; ++j) {
        Tensor y = at::zeros({x.size(1)}, at::kDouble);
        const auto add = [&](const ToeplitzAxis& axis, int64_t apart, int64_t from) {
          const Tensor kernel =
              at::mv(axis.coefficient_de, (axis.log_decay_e * static_cast<double>(apart)).exp());
          y = y + kernel * x[begin + from];
        };
        for (int64_t s = 0; s <= i; ++s) add(axes[0], i - s, s * grid[1] + j);
        for (int64_t s = 0; s <= j; ++s) add(axes[1], j - s, i * grid[1] + s);
        rows.push_back(y);
      }
    }
    begin += grid[0] * grid[1];
  }
  return at::stack(rows);
}

TEST(Grids, ToeplitzRunsAlongEveryAxis) {
  const int64_t tokens = 12 + 12 + 5 + 12;
  const auto run = [&](bool by_place) {
    std::vector<Tensor> in{random_tensor({tokens, 3}, 1)};
    for (size_t a = 0; a < 2; ++a)
      in.insert(in.end(), {random_tensor({3, 2}, 2 + a), random_tensor({2}, 4 + a)});
    for (Tensor& each : in) each.requires_grad_(true);
    const std::vector<ToeplitzAxis> axes{{in[1], in[2].exp().neg()}, {in[3], in[4].exp().neg()}};
    const Tensor y =
        by_place ? grids_by_place(in[0], kGridSizes, axes) : toeplitz_of_grids(in[0], kGridSizes, axes);
    y.mul(random_tensor({tokens, 3}, 9)).sum().backward();
    std::vector<Tensor> all{y.detach()};
    for (const Tensor& each : in) all.push_back(each.grad());
    return all;
  };
  const auto found = run(false), wanted = run(true);
  for (size_t i = 0; i < found.size(); ++i) EXPECT_LT(relative_error(found[i], wanted[i]), 1e-12) << i;
}

// A line of one axis is text.
TEST(Grids, OneAxisIsTheEncodingOfASequence) {
  const Tensor x = random_tensor({9, 3}, 1), b = random_tensor({3, 2}, 2),
               l = random_tensor({2}, 3).exp().neg();
  const std::vector<GridSizes> grids{{4}, {5}};
  const std::vector<ToeplitzAxis> axes{{b, l}};
  EXPECT_TRUE(toeplitz_of_grids(x, grids, axes)
                  .equal(toeplitz(x, b, l, to_tensor(std::vector<int64_t>{0, 4, 9}), {}).y_td));
}

// Two axes, three angles: the first has two of them, the second the one that is left. A head of 6 in rotary
// form.
TEST(Grids, TurnsByHand) {
  const std::vector<GridSizes> grids{{2, 3}};
  const TurnTable turns = turns_of_grids(grids, 3, 6, 100, at::kDouble, at::kCPU, /*plain=*/1);
  const double second = std::pow(100, -2.0 / 6);
  for (int64_t t = 0; t < 7; ++t) {
    const double i = t == 0 ? 0 : static_cast<double>((t - 1) / 3),
                 j = t == 0 ? 0 : static_cast<double>((t - 1) % 3);
    const std::vector<double> angles{i, i * second, j};
    for (int64_t a = 0; a < 3; ++a) {
      EXPECT_NEAR(turns.cos_tr[t][a].item<double>(), std::cos(angles[static_cast<size_t>(a)]), 1e-15)
          << t << a;
      EXPECT_NEAR(turns.sin_tr[t][a].item<double>(), std::sin(angles[static_cast<size_t>(a)]), 1e-15)
          << t << a;
    }
  }
}

// What the turns are for: products of turned queries and keys know how far apart two tokens are along each
// axis, and nothing else of where they are.
TEST(Grids, TurnedProductsKnowDistancesOnly) {
  const std::vector<GridSizes> grids{{4, 5}};
  const TurnTable turns = turns_of_grids(grids, 4, 4, 10000, at::kDouble, at::kCPU);
  const Tensor q = random_tensor({4}, 1), k = random_tensor({4}, 2);
  const auto turned = [&](const Tensor& x) {
    return features(x.unsqueeze(0).expand({20, 4}).contiguous(), 1, FeatureMap::kNone, Turn::kCosine, turns)
        .squeeze(1);
  };
  const Tensor products = at::mm(turned(q), turned(k).t()).view({4, 5, 4, 5});
  EXPECT_NEAR(products[0][1][2][3].item<double>(), products[1][2][3][4].item<double>(), 1e-12);
  EXPECT_GT(std::abs(products[0][1][2][3].item<double>() - products[0][1][3][3].item<double>()), 1e-3);
}

TEST(Grids, RefusesWhatDoesNotFit) {
  const std::vector<GridSizes> grids{{2, 3}};
  const ToeplitzAxis axis{at::zeros({4, 2}), at::zeros({2})};
  EXPECT_THROW(toeplitz_of_grids(at::zeros({6, 4}), grids, std::vector<ToeplitzAxis>{axis}), Error);
  EXPECT_THROW(toeplitz_of_grids(at::zeros({5, 4}), grids, std::vector<ToeplitzAxis>{axis, axis}), Error);
}

}  // namespace
}  // namespace longhaul::kernels
