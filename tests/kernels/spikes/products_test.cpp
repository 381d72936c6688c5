// Products with counts of spikes: weights by groups beside plain numbers, whole numbers beside the simulated
// product in fp64, events beside whole numbers, and gradients that pass straight through.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "kernels/linear/op.h"
#include "kernels/spikes/codings.h"
#include "kernels/spikes/counts.h"
#include "kernels/spikes/event_product.h"
#include "kernels/spikes/integer_product.h"
#include "support/instruction_sets.h"
#include "support/refused.h"
#include "support/tensors.h"
#include "support/threads.h"

namespace longhaul::kernels::spike_products_test {
namespace {

using namespace longhaul::testing;
using ::testing::HasSubstr;

GroupWeight group_weight(const Tensor& weights_eoi) {
  GroupWeight weight(weights_eoi.size(0), weights_eoi.size(1), weights_eoi.size(2));
  for (int64_t e = 0; e < weights_eoi.size(0); ++e) weight.write(e, 0, weights_eoi[e], "w");
  return weight;
}

// scale · round(w / scale) of each 128 numbers of a row, in plain words.
Tensor plain_groups(const Tensor& rows) {
  const Tensor wide = rows.to(at::kFloat).contiguous();
  Tensor made = at::empty(wide.sizes(), at::kDouble);
  const float* w = wide.const_data_ptr<float>();
  auto* to = made.mutable_data_ptr<double>();
  for (int64_t o = 0; o < wide.size(0); ++o) {
    for (int64_t begin = 0; begin < wide.size(1); begin += 128) {
      const int64_t end = std::min<int64_t>(begin + 128, wide.size(1));
      float largest = 0;
      for (int64_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(w[o * wide.size(1) + i]));
      const float scale = largest / 127.0f;
      for (int64_t i = begin; i < end; ++i) {
        const float q = scale == 0 ? 0 : std::nearbyint(w[o * wide.size(1) + i] / scale);
        to[o * wide.size(1) + i] = static_cast<double>(scale) * static_cast<double>(q);
      }
    }
  }
  return made;
}

TEST(GroupWeight, HoldsThePlainNumbers) {
  const PoisonFreshMemory poison;
  for (const auto& [out, in, parts] :
       std::vector<std::tuple<int64_t, int64_t, std::vector<int64_t>>>{{1, 1, {1}},
                                                                       {48, 20, {24, 24}},
                                                                       {50, 600, {7, 9, 16, 18}},
                                                                       {33, 128, {0, 16, 17}},
                                                                       {3, 257, {3}}}) {
    SCOPED_TRACE(fmt::format("{} {}", out, in));
    const Tensor all = random_tensor({2, out, in}, 3, at::kFloat).mul(0.1);
    all[0][0].fill_(0);
    GroupWeight weight(2, out, in);
    for (int64_t e = 0; e < 2; ++e) {
      int64_t first = 0;
      for (const int64_t rows : parts) {
        weight.write(e, first, all[e].narrow(0, first, rows), "w");
        first += rows;
      }
      const Tensor plain = plain_groups(all[e]);
      EXPECT_LT(relative_error(weight.wide(e), plain), 1e-7);
      EXPECT_LT(relative_error(rounded_in_groups(all[e]), plain), 1e-7);
    }
    EXPECT_LT(relative_error(rounded_in_groups(all), at::stack({plain_groups(all[0]), plain_groups(all[1])})),
              1e-7);
  }
  const GroupWeight bytes(3, 64, 256);
  EXPECT_EQ(bytes.bytes(), 3 * (64 * 256 + 2 * 64 * (4 + 4))) << "a byte a weight, scale and sum a group";
}

TEST(GroupWeight, RefusesWhatIsNotFinite) {
  GroupWeight weight(1, 4, 5);
  const Tensor rows = random_tensor({4, 5}, 1, at::kFloat);
  rows[2][3] = std::nan("");
  EXPECT_THAT(refused([&] { weight.write(0, 0, rows, "layers.3.mixer.query.weight"); }),
              HasSubstr("layers.3.mixer.query.weight"));
}

// Some numbers are so large that their counts do not fit into a byte.
Tensor with_outliers(const Tensor& x) {
  const Tensor changed = x.clone();
  if (x.size(1) > 200) {
    changed[0][3].mul_(400);
    changed[0][x.size(1) - 1] = -300;
    changed[x.size(0) - 1][130] = 250;
  }
  return changed;
}

TEST(IntegerProduct, EqualsTheSimulatedOneForEveryInstructionSet) {
  for (const auto& [tokens, in, out] : std::vector<std::array<int64_t, 3>>{
           {1, 1, 1}, {3, 128, 16}, {9, 600, 50}, {13, 300, 33}, {300, 40, 17}}) {
    SCOPED_TRACE(fmt::format("{} {} {}", tokens, in, out));
    const Tensor x = with_outliers(random_tensor({tokens, in}, 1, at::kFloat));
    const Tensor w = random_tensor({1, out, in}, 2, at::kFloat).mul(0.1),
                 bias = random_tensor({out}, 3, at::kFloat);
    const GroupWeight weight = group_weight(w);
    const Tensor plain = plain_groups(w[0]);
    for (const double k : {1.0, 3.0, 20.0}) {
      const SpikeCounts counts = spike_counts(x, k);
      if (in > 200) {
        EXPECT_GT(counts.count_tc.abs().max().item<double>(), 127) << "there are outliers";
      }
      const Tensor expected = counts.count_tc.to(at::kDouble)
                                  .mul(counts.threshold_t.to(at::kDouble).unsqueeze(1))
                                  .matmul(plain.t());
      const Tensor first = integer_linear(x, k, weight);
      for_each_instruction_set([&] {
        const Tensor found = integer_linear(x, k, weight);
        EXPECT_LT(relative_error(found, expected), 1e-5);
        EXPECT_TRUE(found.equal(first)) << "the same bits";
        EXPECT_LT(relative_error(integer_linear(x, k, weight, bias), expected + bias), 1e-5);
        EXPECT_TRUE(
            integer_linear(x.narrow(0, tokens - 1, 1), k, weight).equal(found.narrow(0, tokens - 1, 1)));
      });
      const Tensor narrow = integer_linear(x.to(at::kBFloat16), k, weight, bias.to(at::kBFloat16));
      const SpikeCounts of_narrow = spike_counts(x.to(at::kBFloat16), k);
      const Tensor sums = of_narrow.count_tc.to(at::kDouble)
                              .mul(of_narrow.threshold_t.to(at::kDouble).unsqueeze(1))
                              .matmul(plain.t())
                              .add(bias.to(at::kBFloat16).to(at::kDouble));
      EXPECT_LT(relative_error(narrow, sums), 4e-3) << "rounded once to bf16";
    }
  }
}

TEST(IntegerProduct, OfExpertsIsThatOfEach) {
  const Tensor w = random_tensor({3, 20, 150}, 2, at::kFloat), x = random_tensor({9, 150}, 4, at::kFloat);
  const GroupWeight weight = group_weight(w);
  const Tensor found = integer_grouped_linear(x, {4, 0, 5}, 3, weight);
  EXPECT_TRUE(
      found.narrow(0, 0, 4).equal(integer_linear(x.narrow(0, 0, 4), 3, group_weight(w.narrow(0, 0, 1)))));
  EXPECT_TRUE(
      found.narrow(0, 4, 5).equal(integer_linear(x.narrow(0, 4, 5), 3, group_weight(w.narrow(0, 2, 1)))));
}

TEST(IntegerProduct, RefusesWhatIsNotFiniteAndGradients) {
  const GroupWeight weight = group_weight(random_tensor({1, 4, 5}, 1, at::kFloat));
  for (const double wrong : {std::nan(""), static_cast<double>(INFINITY)}) {
    const Tensor x = random_tensor({2, 5}, 1, at::kFloat);
    x[1][2] = wrong;
    EXPECT_THAT(refused([&] { integer_linear(x, 3, weight); }), HasSubstr("not finite"));
  }
  EXPECT_THAT(refused([&] {
                integer_linear(at::zeros({2, 5}, at::kFloat).requires_grad_(true), 3, weight);
              }),
              HasSubstr("do not train"));
  EXPECT_THAT(refused([&] { integer_linear(at::zeros({2, 5}, at::kDouble), 3, weight); }), HasSubstr("fp32"));
  EXPECT_THAT(refused([&] {
                integer_linear(at::zeros({2, 6}, at::kFloat), 3, weight);
              }),
              HasSubstr("[tokens, 5]"));
}

TEST(EventProduct, SkipsZerosAndEqualsWholeNumbers) {
  const Tensor x = with_outliers(random_tensor({5, 300}, 1, at::kFloat));
  const GroupWeight weight = group_weight(random_tensor({1, 530, 300}, 2, at::kFloat));
  const EventWeight by_input(weight);
  const Tensor counts = spike_counts(x, 2).count_tc, expected = integer_linear(x, 2, weight);
  for_each_instruction_set([&] {
    const EventResult by_counts = event_linear(x, 2, by_input, Events::kCounts),
                      by_spikes = event_linear(x, 2, by_input, Events::kSpikes);
    EXPECT_LT(relative_error(by_counts.y_to, expected), 1e-6);
    EXPECT_LT(relative_error(by_spikes.y_to, expected), 1e-6);
    EXPECT_EQ(by_counts.events, counts.ne(0).sum().item<int64_t>());
    EXPECT_EQ(by_spikes.events, spikes_of(counts, Coding::kSignedBits).sum().item<int64_t>());
  });
}

// y = x̂ Ŵᵀ + b, dx = dy Ŵ, dW = dyᵀ x̂, in fp64 from what the fp32 product saw.
TEST(SpikingLinear, GradientsPassStraightThrough) {
  const Tensor w = random_tensor({6, 140}, 2, at::kFloat), bias = random_tensor({6}, 3, at::kFloat);
  for (const bool rounded : {false, true}) {
    const Tensor x = random_tensor({9, 140}, 1, at::kFloat).requires_grad_(true);
    const Tensor dy = random_tensor({9, 6}, 5, at::kFloat);
    const Tensor dw = at::zeros({6, 140}, at::kFloat), db = at::zeros({6}, at::kFloat);
    PackedWeight packed;
    const Tensor y = linear(x, w, bias, {.weight = {dw}, .bias = {db}}, {.copies = &packed, .version = 1},
                            {.k = 3, .rounded_weight = rounded});
    y.backward(dy);
    const Tensor seen = spiked(x.detach(), 3).to(at::kDouble);
    const Tensor weight = rounded ? plain_groups(w) : w.to(at::kDouble), wide = dy.to(at::kDouble);
    EXPECT_LT(relative_error(y, seen.matmul(weight.t()).add(bias)), 2e-6);
    EXPECT_LT(relative_error(x.grad(), wide.matmul(weight)), 2e-6);
    EXPECT_LT(relative_error(dw, wide.t().matmul(seen)), 2e-6);
    EXPECT_LT(relative_error(db, wide.sum(0)), 2e-6);
    EXPECT_GT(relative_error(seen, x), 0.01) << "it is rounded";
  }
}

TEST(SpikingLinear, OfExperts) {
  const Tensor w = random_tensor({2, 6, 140}, 2, at::kFloat), dy = random_tensor({5, 6}, 5, at::kFloat);
  const Tensor x = random_tensor({5, 140}, 1, at::kFloat).requires_grad_(true);
  const Tensor dw = at::zeros({2, 6, 140}, at::kFloat);
  grouped_linear(x, {2, 3}, w, {dw}, {}, {.k = 2, .rounded_weight = true}).backward(dy);
  const Tensor seen = spiked(x.detach(), 2).to(at::kDouble), wide = dy.to(at::kDouble);
  EXPECT_LT(relative_error(dw[1], wide.narrow(0, 2, 3).t().matmul(seen.narrow(0, 2, 3))), 2e-6);
  EXPECT_LT(relative_error(x.grad().narrow(0, 0, 2), wide.narrow(0, 0, 2).matmul(plain_groups(w[0]))), 2e-6);
}

// Less rounding and fewer silent channels with every larger k.
TEST(SpikingLinear, ErrorAndSilenceFallWithK) {
  const Tensor x = random_tensor({50, 256}, 1, at::kFloat);
  double error = 1e9, silent = 1;
  for (const double k : {1.0, 2.0, 2.5, 3.0, 3.5, 4.0, 8.0}) {
    const double found = (spiked(x, k) - x).square().mean().item<double>();
    const double zeros = spike_counts(x, k).count_tc.eq(0).to(at::kDouble).mean().item<double>();
    EXPECT_LT(found, error) << k;
    EXPECT_LT(zeros, silent) << k;
    error = found, silent = zeros;
  }
}

}  // namespace
}  // namespace longhaul::kernels::spike_products_test
