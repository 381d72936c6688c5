// The short convolution against LibTorch's conv1d, document by document in fp64, and by finite differences.
#include "kernels/short_convolution/op.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/instruction_sets.h"
#include "support/threads.h"
#include "tensor/to_tensor.h"

namespace longhaul::kernels::short_convolution_test {
namespace {

using namespace longhaul::testing;

struct ConvolutionCase {
  std::vector<int64_t> offsets;
  int64_t channels, width;
  bool bias, state, silu;
};

// Documents shorter than the taps, empty ones, channels of less than a vector and of one and a half, a width
// of one.
const ConvolutionCase kConvolutionCases[] = {{{0, 9}, 5, 4, true, true, true},
                                             {{0, 1, 3, 3, 6, 29}, 24, 4, true, true, false},
                                             {{0, 1, 3, 3, 6, 29}, 3, 4, false, false, true},
                                             {{0, 2, 40}, 17, 1, true, false, true},
                                             {{0, 0, 1}, 8, 3, false, true, true},
                                             {{0, 300}, 40, 7, true, false, true}};

struct ConvolutionInputs {
  std::vector<Tensor> of;  // x, weight, bias, state
  Tensor offsets;
};

ConvolutionInputs convolution_inputs(const ConvolutionCase& c, at::ScalarType type) {
  const int64_t tokens = c.offsets.back(), documents = static_cast<int64_t>(c.offsets.size()) - 1;
  const at::ScalarType wide = type == at::kDouble ? at::kDouble : at::kFloat;
  return {{random_tensor({tokens, c.channels}, 1, type), random_tensor({c.channels, c.width}, 2, wide),
           c.bias ? random_tensor({c.channels}, 3, wide) : Tensor(),
           c.state ? random_tensor({documents, c.width - 1, c.channels}, 4, type) : Tensor()},
          to_tensor(c.offsets)};
}

// y and the final states in fp64, by conv1d of each document behind its state.
std::vector<Tensor> by_conv1d(const ConvolutionCase& c, const std::vector<Tensor>& in) {
  std::vector<Tensor> ys, states;
  for (size_t n = 0; n + 1 < c.offsets.size(); ++n) {
    const int64_t begin = c.offsets[n], length = c.offsets[n + 1] - begin;
    const Tensor before =
        c.state ? in[3][static_cast<int64_t>(n)] : at::zeros({c.width - 1, c.channels}, at::kDouble);
    const Tensor rows = at::cat({before, in[0].narrow(0, begin, length)});
    states.push_back(rows.narrow(0, length, c.width - 1));
    if (length == 0) continue;
    const Tensor z = at::conv1d(rows.t().unsqueeze(0), in[1].unsqueeze(1), in[2], at::IntArrayRef{1},
                                at::IntArrayRef{0}, at::IntArrayRef{1}, c.channels)[0]
                         .t();
    ys.push_back(c.silu ? z * z.sigmoid() : z);
  }
  return {at::cat(ys), at::stack(states)};
}

std::vector<Tensor> convolution_leaves(const std::vector<Tensor>& from,
                                       std::optional<at::ScalarType> type = {}) {
  std::vector<Tensor> to;
  for (const Tensor& each : from) {
    to.push_back(each.defined() ? each.to(type.value_or(each.scalar_type())).clone().requires_grad_(true)
                                : Tensor());
  }
  return to;
}

using ConvolutionForm = ShortConvolutionResult (*)(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                                   const Tensor&, const ShortConvolutionOptions&);

void expect_equal_to_conv1d(ConvolutionForm form, const ConvolutionCase& c, at::ScalarType type,
                            double tolerance) {
  const ConvolutionInputs inputs = convolution_inputs(c, type);
  const std::vector<Tensor> in = convolution_leaves(inputs.of),
                            again = convolution_leaves(inputs.of, at::kDouble);
  const auto result = form(in[0], in[1], in[2], inputs.offsets, in[3], {.silu = c.silu});
  const std::vector<Tensor> expected = by_conv1d(c, again);
  EXPECT_LT(relative_error(result.y_tc, expected[0]), tolerance);
  EXPECT_TRUE(result.final_state_nwc.to(at::kDouble).equal(expected[1])) << "states are copies";
  const Tensor mix = random_tensor(expected[0].sizes(), 5), mix_state = random_tensor(expected[1].sizes(), 6);
  (result.y_tc.to(at::kDouble).mul(mix).sum() + result.final_state_nwc.to(at::kDouble).mul(mix_state).sum())
      .backward();
  (expected[0].mul(mix).sum() + expected[1].mul(mix_state).sum()).backward();
  for (size_t i = 0; i < in.size(); ++i) {
    if (!in[i].defined()) continue;
    EXPECT_LT(relative_error(in[i].grad(), again[i].grad()), tolerance) << "gradient " << i;
  }
}

TEST(ShortConvolution, EqualsConv1dOfEachDocument) {
  const PoisonFreshMemory poison;
  for_each_instruction_set([&] {
    // bf16: inputs are exact, y and dx are rounded once to 8 bits; dy is rounded before.
    const std::pair<at::ScalarType, double> types[] = {
        {at::kDouble, 1e-13}, {at::kFloat, 2e-6}, {at::kBFloat16, 1e-2}};
    for (const auto& [type, tolerance] : types) {
      for (const ConvolutionCase& c : kConvolutionCases) {
        SCOPED_TRACE(::testing::Message() << type << ", " << c.channels << " channels, width " << c.width);
        expect_equal_to_conv1d(short_convolution, c, type, tolerance);
      }
    }
  });
}

TEST(ShortConvolution, AtenFormEqualsConv1d) {
  for (const ConvolutionCase& c : kConvolutionCases)
    expect_equal_to_conv1d(short_convolution_aten, c, at::kDouble, 1e-13);
}

TEST(ShortConvolution, Gradients) {
  const Tensor offsets = to_tensor(std::vector<int64_t>{0, 2, 9}), mix = random_tensor({9, 5}, 7),
               mix_state = random_tensor({2, 3, 5}, 8);
  check_gradients(
      [&](const std::vector<Tensor>& in) {
        const auto result = short_convolution(in[0], in[1], in[2], offsets, in[3], {.silu = true});
        return result.y_tc.mul(mix).sum() + result.final_state_nwc.mul(mix_state).sum();
      },
      {random_tensor({9, 5}, 1), random_tensor({5, 4}, 2), random_tensor({5}, 3),
       random_tensor({2, 3, 5}, 4)});
}

// Token by token from the states equals the whole, to the bit; other sequences' states stay.
TEST(ShortConvolution, ContinuesToTheBit) {
  const Tensor x = random_tensor({11, 20}, 1, at::kBFloat16), weight = random_tensor({20, 4}, 2, at::kFloat);
  const Tensor whole = short_convolution(x, weight, {}, {}, {}, {.silu = true}).y_tc;
  const Tensor states = at::zeros({3, 3, 20}, at::kBFloat16);
  states[0].fill_(7);
  const std::vector<int64_t> rows{2};
  for (const auto& [begin, length] : {std::pair<int64_t, int64_t>{0, 5}, {5, 1}, {6, 2}, {8, 3}}) {
    const Tensor y = short_convolution_continued(x.narrow(0, begin, length), weight, {}, {states, rows}, {},
                                                 {.silu = true});
    EXPECT_TRUE(y.equal(whole.narrow(0, begin, length))) << begin;
  }
  EXPECT_TRUE(states[0].eq(7).all().item<bool>());
}

// Columns of a wider matrix are read where they lie; results are the same for every number of threads.
TEST(ShortConvolution, ColumnsOfAWiderMatrixAndThreads) {
  const Tensor wide = random_tensor({700, 96}, 1, at::kFloat), weight = random_tensor({32, 4}, 2, at::kFloat);
  const auto run = [&]() -> std::vector<Tensor> {
    const Tensor x = wide.clone().requires_grad_(true), w = weight.clone().requires_grad_(true);
    const Tensor y = short_convolution(x.narrow(1, 40, 32), w, {}, {}, {}, {.silu = true}).y_tc;
    y.square().sum().backward();
    return {y.detach(), x.grad(), w.grad()};
  };
  expect_same_for_all_threads(run);
  EXPECT_TRUE(run()[0].equal(
      short_convolution(wide.narrow(1, 40, 32).contiguous(), weight, {}, {}, {}, {.silu = true}).y_tc));
}

TEST(ShortConvolution, RefusesWhatDoesNotFit) {
  const Tensor x = at::zeros({4, 6}), weight = at::zeros({6, 4});
  EXPECT_THROW(short_convolution(x.view({4, 6, 1}), weight, {}, {}, {}), Error);
  EXPECT_THROW(short_convolution(x, at::zeros({5, 4}), {}, {}, {}), Error);
  EXPECT_THROW(short_convolution(x, at::zeros({6, 17}), {}, {}, {}), Error);
  EXPECT_THROW(short_convolution(x, weight, at::zeros({5}), {}, {}), Error);
  EXPECT_THROW(short_convolution(x, weight, {}, {}, at::zeros({1, 4, 6})), Error);
  EXPECT_THROW(short_convolution(x, weight, {}, to_tensor(std::vector<int64_t>{0, 3}), {}), Error);
}

TEST(ShortConvolution, OnMetaHasShapesOnly) {
  const Tensor x = at::empty({4, 6}, at::TensorOptions().device(at::kMeta)).requires_grad_(true);
  const Tensor weight = at::empty({6, 4}, at::TensorOptions().device(at::kMeta));
  const auto result = short_convolution(x, weight, {}, {}, {});
  EXPECT_EQ(result.y_tc.sizes(), x.sizes());
  EXPECT_EQ(result.final_state_nwc.sizes(), at::IntArrayRef({1, 3, 6}));
  result.y_tc.sum().backward();
  EXPECT_TRUE(x.grad().defined());
}

}  // namespace
}  // namespace longhaul::kernels::short_convolution_test
