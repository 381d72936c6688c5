// Weights in eight bits: what is kept by a plain reference and by hand; products against fp64 with the
// numbers that are kept, and against the packed product of these numbers bit by bit, by every instruction set
// of this machine.
#include "kernels/linear/int8_feed_forward.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "kernels/activation/op.h"
#include "kernels/dispatch.h"
#include "kernels/linear/feed_forward.h"
#include "support/instruction_sets.h"
#include "support/threads.h"

namespace longhaul::kernels::int8_feed_forward_test {
namespace {

using namespace longhaul::testing;

// scale · round(w / scale) in plain words; half way goes to the even number.
struct Plain {
  std::vector<int> q;
  std::vector<float> scales;
};
Plain plain_of(const Tensor& rows) {
  Plain plain;
  const Tensor wide = rows.to(at::kFloat).contiguous();
  const float* w = wide.const_data_ptr<float>();
  for (int64_t o = 0; o < wide.size(0); ++o, w += wide.size(1)) {
    float largest = 0;
    for (int64_t i = 0; i < wide.size(1); ++i) largest = std::max(largest, std::abs(w[i]));
    const float scale = largest / 127.0f;
    plain.scales.push_back(scale);
    for (int64_t i = 0; i < wide.size(1); ++i)
      plain.q.push_back(scale == 0 ? 0 : static_cast<int>(std::nearbyint(w[i] / scale)));
  }
  return plain;
}

Int8Weight weight_of(const Tensor& weights_eoi) {
  Int8Weight weight(weights_eoi.size(0), weights_eoi.size(1), weights_eoi.size(2), at::kCPU);
  for (int64_t e = 0; e < weights_eoi.size(0); ++e) weight.write(e, 0, weights_eoi[e], "w");
  return weight;
}
Tensor q_of(const Int8Weight& weight) {  // [experts, out, in]
  std::vector<Tensor> all;
  for (int64_t e = 0; e < weight.experts(); ++e) all.push_back(weight.values(e));
  return at::stack(all);
}
Tensor wide_of(const Int8Weight& weight) {  // in fp64, exact
  return q_of(weight).to(at::kDouble).mul(weight.scale_eo().to(at::kDouble).unsqueeze(2));
}

TEST(Int8Weight, ByHand) {
  const Tensor rows = at::tensor({127.0, -64.0, 0.4, 0.5, 1.5, 2.5, -127.0, -0.6,  // scale 1
                                  // scale 2: 63.5 and 1.5 are half way, 2.5 too
                                  -254.0, 127.0, 3.0, 1.0, 5.0, -1.0, 100.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0,
                                  0.0, 0.0, 0.0,  // nothing
                                  // its scale would be denormal
                                  1e-38, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1e-38})
                          .view({4, 8});
  for (const ScalarType type : {at::kFloat, at::kDouble}) {
    const Int8Weight weight = weight_of(rows.to(type).unsqueeze(0));
    EXPECT_TRUE(weight.scale_eo().equal(at::tensor({1.0f, 2.0f, 0.0f, 0.0f}).view({1, 4})));
    EXPECT_TRUE(weight.values(0).equal(at::tensor({127,  -64, 0, 0, 2, 2, -127, -1,  //
                                                   -127, 64,  2, 0, 2, 0, 50,   0,   //
                                                   0,    0,   0, 0, 0, 0, 0,    0,   //
                                                   0,    0,   0, 0, 0, 0, 0,    0},
                                                  at::kChar)
                                           .view({4, 8})))
        << weight.values(0);
  }
}

// Rows that begin and end inside a panel, several chunks of k, and less than any of them.
TEST(Int8Weight, HoldsThePlainNumbersWithinHalfAScale) {
  const PoisonFreshMemory poison;
  for (const auto& [out, in, parts] :
       std::vector<std::tuple<int64_t, int64_t, std::vector<int64_t>>>{{1, 1, {1}},
                                                                       {48, 20, {24, 24}},
                                                                       {50, 600, {7, 9, 16, 18}},
                                                                       {130, 1100, {130}},
                                                                       {33, 33, {0, 16, 17}},
                                                                       {4, 0, {4}},
                                                                       {0, 4, {}}}) {
    for (const ScalarType type : {at::kFloat, at::kBFloat16, at::kDouble}) {
      SCOPED_TRACE(fmt::format("{} {} {}", out, in, name_of(type)));
      const Tensor all = random_tensor({2, out, in}, 3).mul(0.1).to(type);
      Int8Weight weight(2, out, in, at::kCPU);
      for (int64_t e = 0; e < 2; ++e) {
        int64_t first = 0;
        for (const int64_t rows : parts) {
          weight.write(e, first, all[e].narrow(0, first, rows), "w");
          first += rows;
        }
        const Plain plain = plain_of(all[e]);
        const Tensor q = weight.values(e);
        for (int64_t i = 0; i < out * in; ++i)
          ASSERT_EQ(q.const_data_ptr<int8_t>()[i], plain.q[static_cast<size_t>(i)]) << i;
        for (int64_t o = 0; o < out; ++o)
          ASSERT_EQ(weight.scale_eo()[e][o].item<float>(), plain.scales[static_cast<size_t>(o)]) << o;
      }
      const Tensor error = (wide_of(weight) - all.to(at::kDouble)).abs();
      const Tensor half = weight.scale_eo().to(at::kDouble).unsqueeze(2).mul(0.5 * (1 + 1e-4));
      EXPECT_TRUE(error.le(half).all().item<bool>());
      if (out * in > 500) {
        EXPECT_GT(error.div(half).max().item<double>(), 0.9) << "the bound is one that is reached";
      }
    }
  }
}

TEST(Int8Weight, AByteAWeightAndOneScaleARow) {
  const Int8Weight weight(3, 64, 96, at::kCPU);
  EXPECT_EQ(weight.bytes(), 3 * (64 * 96 + 64 * 4));
}

TEST(Int8Weight, RefusesWhatIsNotFiniteByItsName) {
  Int8Weight weight(1, 4, 5, at::kCPU);
  for (const double wrong : {std::nan(""), static_cast<double>(INFINITY), 1e200}) {
    const Tensor rows = random_tensor({4, 5}, 1);
    rows[2][3] = wrong;
    try {
      weight.write(0, 0, rows, "layers.3.experts.7.up.weight");
      ADD_FAILURE() << "taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kCheckpoint);
      EXPECT_THAT(error.what(), ::testing::HasSubstr("layers.3.experts.7.up.weight"));
    }
  }
}

struct Case {
  std::vector<int64_t> rows;
  int64_t in, out;
};
const Case kInt8Cases[] = {{{5, 0, 1, 12, 0}, 40, 96}, {{0, 0}, 20, 16},
                           {{300, 7, 0, 231}, 33, 70}, {{1}, 1, 1},
                           {{2, 1}, 600, 130},         {{0, 1, 3}, 1100, 33}};

Tensor x_of(const Case& of, ScalarType type) {
  int64_t total = 0;
  for (const int64_t count : of.rows) total += count;
  return random_tensor({total, of.in}, 1, type);
}
Int8Weight weight_of(const Case& of, uint64_t seed = 2) {
  return weight_of(random_tensor({static_cast<int64_t>(of.rows.size()), of.out, of.in}, seed).mul(0.1));
}

// Plain fp64: each row by the numbers of its expert.
Tensor plain_linear(const Tensor& x, const std::vector<int64_t>& rows, const Int8Weight& weight) {
  const Tensor wide = wide_of(weight);
  std::vector<Tensor> parts;
  int64_t begin = 0;
  for (size_t e = 0; e < rows.size(); ++e) {
    parts.push_back(at::mm(x.to(at::kDouble).narrow(0, begin, rows[e]), wide[static_cast<int64_t>(e)].t()));
    begin += rows[e];
  }
  return at::cat(parts);
}

Tensor forced(const char* op, const char* implementation, const std::function<Tensor()>& run) {
  Dispatcher::force(op, implementation);
  Tensor y = run();
  Dispatcher::force(op, std::nullopt);
  EXPECT_EQ(Dispatcher::last(op).chosen, implementation);
  return y;
}

// bf16: one rounding of the result, relative to the largest.
const std::pair<ScalarType, double> kTypes[] = {
    {at::kDouble, 1e-13}, {at::kFloat, 3e-6}, {at::kBFloat16, 4e-3}};

TEST(Int8GroupedLinear, EqualsThePlainProduct) {
  const PoisonFreshMemory poison;
  for (const Case& each : kInt8Cases) {
    const Int8Weight weight = weight_of(each);
    for (const auto& [type, tolerance] : kTypes) {
      SCOPED_TRACE(fmt::format("{} {} {}", each.in, each.out, name_of(type)));
      const Tensor x = x_of(each, type), plain = plain_linear(x, each.rows, weight);
      const auto run = [&] { return int8_grouped_linear(x, each.rows, weight); };
      const Tensor by_torch = forced("int8_grouped_linear", "libtorch", run);
      EXPECT_EQ(by_torch.scalar_type(), type);
      EXPECT_LT(relative_error(by_torch, plain), tolerance);
      if (type == at::kDouble) continue;
      for_each_instruction_set([&, tolerance = tolerance] {
        const Tensor y = forced("int8_grouped_linear", "packed", run);
        EXPECT_LT(relative_error(y, plain), tolerance);
      });
    }
  }
}

// The sums are those of the packed product with the same numbers as bf16 or fp32 weights, to the bit.
TEST(Int8GroupedLinear, SumsAreThoseOfAWideWeightBitForBit) {
  const PoisonFreshMemory poison;
  for (const Case& each : kInt8Cases) {
    const Int8Weight weight = weight_of(each);
    for (const ScalarType type : {at::kFloat, at::kBFloat16}) {
      SCOPED_TRACE(fmt::format("{} {} {}", each.in, each.out, name_of(type)));
      const Tensor x = x_of(each, type);
      for_each_instruction_set([&] {
        std::vector<Tensor> expected;
        int64_t begin = 0;
        for (size_t e = 0; e < each.rows.size(); ++e) {
          const auto expert = static_cast<int64_t>(e);
          PackedWeight copies;
          const Tensor sums =
              linear_wide(x.narrow(0, begin, each.rows[e]), weight.values(expert).to(type), {&copies, 1});
          EXPECT_EQ(Dispatcher::last("linear_wide").chosen, "packed");
          expected.push_back(sums.mul(weight.scale_eo()[expert]).to(type));
          begin += each.rows[e];
        }
        EXPECT_TRUE(int8_grouped_linear(x, each.rows, weight).equal(at::cat(expected)));
        EXPECT_EQ(Dispatcher::last("int8_grouped_linear").chosen, "packed");
      });
    }
  }
}

TEST(Int8GroupedLinear, ARowHasTheBitsThatItHasAlone) {
  const Case of{{40, 0, 200, 1}, 600, 130};
  const Int8Weight weight = weight_of(of);
  for (const ScalarType type : {at::kFloat, at::kBFloat16}) {
    const Tensor x = x_of(of, type), together = int8_grouped_linear(x, of.rows, weight);
    for (const auto& [row, expert] :
         std::vector<std::pair<int64_t, size_t>>{{0, 0}, {39, 0}, {40, 2}, {133, 2}, {240, 3}}) {
      std::vector<int64_t> rows(4, 0);
      rows[expert] = 1;
      EXPECT_TRUE(int8_grouped_linear(x.narrow(0, row, 1), rows, weight).equal(together.narrow(0, row, 1)))
          << row;
    }
  }
}

TEST(Int8GroupedLinear, TakesRowsApart) {
  const Case of{{3, 20}, 60, 30};
  const Int8Weight weight = weight_of(of);
  const Tensor x = random_tensor({23, 90}, 1, at::kFloat).narrow(1, 7, 60);
  EXPECT_TRUE(
      int8_grouped_linear(x, of.rows, weight).equal(int8_grouped_linear(x.contiguous(), of.rows, weight)));
  EXPECT_EQ(Dispatcher::last("int8_grouped_linear").chosen, "packed");
}

struct Layer {
  std::vector<int64_t> rows;
  Tensor x;
  Int8Weight up, down;
};
Layer layer_of(const std::vector<int64_t>& rows, int64_t in, int64_t width, int64_t out, ScalarType type) {
  return {rows, x_of({rows, in, 0}, type), weight_of({rows, in, 2 * width}, 2),
          weight_of({rows, width, out}, 3)};
}
Tensor run(const Layer& layer, const char* form) {
  return forced("int8_grouped_feed_forward", form,
                [&] { return int8_grouped_feed_forward(layer.x, layer.rows, layer.up, layer.down); });
}

TEST(Int8FeedForward, FusedIsComposedAndRight) {
  const PoisonFreshMemory poison;
  for (const auto& rows :
       std::vector<std::vector<int64_t>>{{5, 0, 1, 12, 0}, {0, 0}, {300, 7, 0, 231}, {1}, {0, 1}}) {
    for (const auto& [type, tolerance] : kTypes) {
      SCOPED_TRACE(fmt::format("{} experts, {} rows first, {}", rows.size(), rows[0], name_of(type)));
      const Layer layer = layer_of(rows, 40, 96, 24, type);
      const Tensor plain =
          plain_linear(swiglu_reference(plain_linear(layer.x, rows, layer.up)), rows, layer.down);
      if (type == at::kDouble) {
        EXPECT_LT(relative_error(run(layer, "composed"), plain), tolerance);
        continue;
      }
      for_each_instruction_set([&, type = type] {
        const Tensor fused = run(layer, "fused");
        // bf16: z and its activation are rounded as well.
        EXPECT_LT(relative_error(fused, plain), type == at::kBFloat16 ? 1.5e-2 : 1e-5);
        EXPECT_TRUE(fused.equal(run(layer, "composed")));
      });
    }
  }
}

TEST(Int8FeedForward, SameForEveryNumberOfThreads) {
  const Layer layer = layer_of({300, 0, 1, 149}, 520, 336, 70, at::kBFloat16);
  expect_same_for_all_threads([&] { return std::vector<Tensor>{run(layer, "fused")}; });
}

TEST(Int8FeedForward, ComposedSaysWhy) {
  const auto reason_of = [](const Layer& layer) {
    int8_grouped_feed_forward(layer.x, layer.rows, layer.up, layer.down);
    const Choice& choice = Dispatcher::last("int8_grouped_feed_forward");
    return choice.chosen == "composed" ? choice.refusals.at(0).second : "";
  };
  EXPECT_EQ(reason_of(layer_of({5, 2}, 8, 16, 6, at::kFloat)), "");
  EXPECT_THAT(reason_of(layer_of({5, 2}, 8, 24, 6, at::kFloat)), ::testing::HasSubstr("share a panel"));
  EXPECT_THAT(reason_of(layer_of({5, 2}, 8, 16, 6, at::kDouble)), ::testing::HasSubstr("bf16 and fp32"));
  const Layer odd = layer_of({5, 2}, 8, 24, 6, at::kFloat);
  EXPECT_LT(relative_error(
                run(odd, "composed"),
                plain_linear(swiglu_reference(plain_linear(odd.x, odd.rows, odd.up)), odd.rows, odd.down)),
            1e-5);
}

TEST(Int8FeedForward, RefusesTrainingAndWrongArguments) {
  const Layer layer = layer_of({5, 2}, 8, 16, 6, at::kFloat);
  const auto call = [&](const Tensor& x, const std::vector<int64_t>& rows) {
    return int8_grouped_feed_forward(x, rows, layer.up, layer.down);
  };
  const Tensor wants = layer.x.detach().clone().requires_grad_(true);
  try {
    call(wants, layer.rows);
    ADD_FAILURE() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("do not train"));
  }
  {
    const at::NoGradGuard guard;
    EXPECT_NO_THROW(call(wants, layer.rows));
  }
  EXPECT_THROW(call(layer.x, {7}), Error) << "one expert's rows";
  EXPECT_THROW(call(layer.x, {5, 1}), Error) << "rows left over";
  EXPECT_THROW(call(layer.x.narrow(1, 0, 7), layer.rows), Error);
  EXPECT_THROW(int8_grouped_feed_forward(layer.x, layer.rows, layer.up, layer.up), Error)
      << "down is no half as wide";
}

}  // namespace
}  // namespace longhaul::kernels::int8_feed_forward_test
