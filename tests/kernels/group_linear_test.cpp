// Products with weights in eight bits by groups of 128: against fp64 with numbers that are rounded here in
// plain words, at awkward sizes, by every instruction set of this machine; and that a row is what it is
// whatever stands beside it.
#include "kernels/group_linear/op.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "kernels/group_linear/loops.h"
#include "support/instruction_sets.h"
#include "support/refused.h"
#include "support/threads.h"

namespace longhaul::kernels::group_linear_test {
namespace {

using namespace longhaul::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

// scale · round(w / scale) of each 128 inputs of a row, in fp64 from fp32 numbers.
Tensor plain_rounded(const Tensor& weight_oi) {
  const Tensor narrow = weight_oi.to(at::kFloat).contiguous(), wide = at::zeros(narrow.sizes(), at::kDouble);
  const int64_t out = narrow.size(0), in = narrow.size(1);
  for (int64_t o = 0; o < out; ++o) {
    const float* const w = narrow.const_data_ptr<float>() + o * in;
    double* const to = wide.mutable_data_ptr<double>() + o * in;
    for (int64_t begin = 0; begin < in; begin += 128) {
      float largest = 0;
      for (int64_t i = begin; i < std::min(begin + 128, in); ++i) largest = std::max(largest, std::abs(w[i]));
      const float scale = largest / 127.0f;
      for (int64_t i = begin; i < std::min(begin + 128, in); ++i)
        to[i] = scale == 0 ? 0 : static_cast<double>(scale) * std::nearbyint(w[i] / scale);
    }
  }
  return wide;
}

GroupWeight kept(const Tensor& weights_eoi) {
  GroupWeight weight(weights_eoi.size(0), weights_eoi.size(1), weights_eoi.size(2));
  for (int64_t e = 0; e < weights_eoi.size(0); ++e) weight.write(e, 0, weights_eoi[e], "w");
  return weight;
}

// Groups of very different size, so that a scale of the neighbour's would show.
Tensor uneven_weight(int64_t out, int64_t in, uint64_t seed) {
  const Tensor size = at::arange(in, at::kDouble).div(128, "floor").add(1).reciprocal();
  return random_tensor({out, in}, seed).mul(size).mul(0.1);
}

struct Shape {
  int64_t out, in, tokens;
};
const std::vector<Shape> kGroupShapes = {
    {1, 1, 1},    {16, 128, 3}, {17, 129, 5}, {50, 600, 9}, {130, 1100, 70}, {33, 33, 1},  {200, 256, 1},
    {72, 384, 2}, {4, 0, 2},    {0, 4, 3},    {64, 256, 0}, {31, 127, 13},   {96, 130, 4}, {256, 300, 133}};

// |y − expected| ≤ share · Σ |x w|, and half a last place of the type's.
void expect_sums(const Tensor& y, const Tensor& x, const Tensor& wide_oi, const Tensor& bias, double last) {
  const Tensor wide_x = x.to(at::kDouble);
  Tensor expected = at::mm(wide_x, wide_oi.t()), sizes = at::mm(wide_x.abs(), wide_oi.abs().t());
  if (bias.defined()) expected = expected + bias.to(at::kDouble), sizes = sizes + bias.to(at::kDouble).abs();
  const Tensor bound = sizes.mul(2e-6).add(expected.abs().mul(last)).add(1e-30);
  EXPECT_TRUE((y.to(at::kDouble) - expected).abs().le(bound).all().item<bool>())
      << (y.to(at::kDouble) - expected).abs().div(bound).max().item<double>();
}

TEST(GroupLinear, IsTheProductWithTheNumbersThatAreKept) {
  const PoisonFreshMemory poison;
  for_each_instruction_set([&] {
    for (const Shape& s : kGroupShapes) {
      const Tensor weight = uneven_weight(s.out, s.in, 3), wide = plain_rounded(weight);
      const GroupWeight narrow = kept(weight.unsqueeze(0));
      for (const ScalarType type : {at::kFloat, at::kBFloat16}) {
        SCOPED_TRACE(fmt::format("{} x {}, {} tokens, {}", s.out, s.in, s.tokens, name_of(type)));
        // rows of more: what lies beside them is nobody's
        const Tensor more = at::full({s.tokens, s.in + 7}, NAN, at::kDouble).to(type);
        more.narrow(1, 3, s.in).copy_(random_tensor({s.tokens, s.in}, 4));
        const Tensor x = more.narrow(1, 3, s.in), bias = random_tensor({s.out}, 5).to(type);
        const double last = type == at::kFloat ? 0 : std::exp2(-8);
        const Tensor y = group_linear(x, narrow);
        EXPECT_EQ(y.scalar_type(), type);
        expect_sums(y, x, wide, {}, last);
        expect_sums(group_linear(x, narrow, bias), x, wide, bias, last);
        const Tensor logits = group_linear_wide(x, narrow);
        EXPECT_EQ(logits.scalar_type(), at::kFloat);
        expect_sums(logits, x, wide, {}, 0);
      }
    }
  });
}

TEST(GroupLinear, EveryNumberOfEightBitsIsExact) {
  Tensor all = at::arange(-127, 128, at::kDouble);
  all = at::cat({all, at::tensor({127.0}, at::kDouble)}).view({2, 128});  // scale 1 in each row
  const GroupWeight narrow = kept(all.unsqueeze(0));
  for_each_instruction_set([&] {
    for (const ScalarType type : {at::kFloat, at::kBFloat16})
      EXPECT_TRUE(
          group_linear_wide(at::eye(128, at::kDouble).to(type), narrow).equal(all.t().to(at::kFloat)));
  });
}

TEST(GroupLinear, ARowDoesNotDependOnItsNeighbours) {
  const GroupWeight narrow = kept(uneven_weight(90, 390, 3).unsqueeze(0));
  for_each_instruction_set([&] {
    for (const ScalarType type : {at::kFloat, at::kBFloat16}) {
      const Tensor x = random_tensor({150, 390}, 4).to(type), together = group_linear_wide(x, narrow);
      for (const int64_t rows : {1, 2, 3, 4, 5, 7, 8, 9, 15, 64, 65}) {
        for (int64_t begin = 0; begin < 150; begin += rows) {
          const int64_t count = std::min(rows, 150 - begin);
          EXPECT_TRUE(
              group_linear_wide(x.narrow(0, begin, count), narrow).equal(together.narrow(0, begin, count)))
              << rows << " rows from " << begin;
        }
      }
      expect_same_for_all_threads([&] { return std::vector<Tensor>{group_linear(x, narrow)}; });
    }
  });
}

TEST(GroupLinear, ExpertsHaveTheirOwnRows) {
  const Tensor weights = random_tensor({4, 40, 200}, 3).mul(0.1);
  const GroupWeight narrow = kept(weights);
  const std::vector<int64_t> rows = {3, 0, 17, 1};
  for (const ScalarType type : {at::kFloat, at::kBFloat16}) {
    const Tensor x = random_tensor({21, 200}, 4).to(type), y = group_grouped_linear(x, rows, narrow);
    int64_t begin = 0;
    for (size_t e = 0; e < rows.size(); ++e) {
      const GroupWeight own = kept(weights.narrow(0, static_cast<int64_t>(e), 1));
      EXPECT_TRUE(y.narrow(0, begin, rows[e]).equal(group_linear(x.narrow(0, begin, rows[e]), own))) << e;
      begin += rows[e];
    }
  }
}

TEST(GroupLinear, RowsOfAnEmbedding) {
  const Tensor table = uneven_weight(50, 300, 3), wide = plain_rounded(table);
  const GroupWeight narrow = kept(table.unsqueeze(0));
  const Tensor ids = at::tensor({0, 49, 17, 17, 16, 15}, at::kLong);
  for (const ScalarType type : {at::kFloat, at::kBFloat16})
    EXPECT_TRUE(group_rows(narrow, ids, type).equal(wide.index_select(0, ids).to(at::kFloat).to(type)));
  EXPECT_THAT(refused([&] { group_rows(narrow, at::tensor({50}, at::kLong), at::kFloat); }),
              HasSubstr("0 to 49"));
}

TEST(GroupLinear, RefusesWhatItCannotMultiply) {
  const GroupWeight narrow = kept(random_tensor({1, 8, 20}, 3));
  EXPECT_THAT(refused([&] { group_linear(random_tensor({2, 20}, 1), narrow); }), HasSubstr("bf16 or fp32"));
  const Tensor wider = random_tensor({2, 21}, 1).to(at::kFloat), x = random_tensor({2, 20}, 1).to(at::kFloat);
  EXPECT_THAT(refused([&] { group_linear(wider, narrow); }), HasSubstr("[2, 20]"));
  EXPECT_THAT(refused([&] { group_grouped_linear(x, {1, 1}, narrow); }), HasSubstr("1 experts"));
  EXPECT_THAT(refused([&] { group_linear(x.requires_grad_(), narrow); }),
              AllOf(HasSubstr("do not train"), HasSubstr("--weights int8")));
}

}  // namespace
}  // namespace longhaul::kernels::group_linear_test
