// rms_norm, layer_norm and join_norm against their definitions in ATen operators.
#include "kernels/norm/op.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "support/instruction_sets.h"
#include "support/threads.h"

namespace longhaul::kernels::norm_test {
namespace {

using namespace longhaul::testing;

constexpr double kEps = 1e-5;

struct NormTolerance {
  at::ScalarType type;
  double output, gradient;
};
// bf16: the reference rounds as often, so outputs differ by one unit (2^-8) at most; autograd's gradients
// round more often. fp32: sums of up to 200 terms in another order.
const NormTolerance kNormTolerances[] = {
    {at::kDouble, 1e-12, 1e-12}, {at::kFloat, 1e-5, 1e-5}, {at::kBFloat16, 4e-3, 1.2e-2}};
// One vector, less, more, and tails of every instruction set's width; one row, a whole block of rows, one
// more.
const std::vector<std::vector<int64_t>> kNormShapes = {{1, 3},  {5, 7},   {8, 16},
                                                       {9, 17}, {64, 33}, {130, 200}};

at::ScalarType norm_wide(at::ScalarType type) { return type == at::kDouble ? at::kDouble : at::kFloat; }

// Values and the gradients of all inputs, with a random gradient for each output.
using Inputs = std::vector<Tensor>;
template <class Op>
Inputs run(const Op& op, const Inputs& values) {
  Inputs leaves;
  for (const Tensor& value : values) leaves.push_back(value.detach().clone().requires_grad_(true));
  const Inputs outputs = op(leaves);
  Inputs results, seeds;
  for (size_t i = 0; i < outputs.size(); ++i) {
    results.push_back(outputs[i].detach());
    seeds.push_back(random_tensor(outputs[i].sizes(), 7 + i, outputs[i].scalar_type()));
  }
  Tensor total = at::zeros({}, at::kDouble);
  for (size_t i = 0; i < outputs.size(); ++i)
    total = total + outputs[i].to(at::kDouble).mul(seeds[i].to(at::kDouble)).sum();
  total.backward();
  for (const Tensor& leaf : leaves) results.push_back(leaf.grad());
  return results;
}

template <class Fast, class Reference>
void expect_equal(const Fast& fast, const Reference& reference, const Inputs& values, size_t outputs,
                  const NormTolerance& tolerance) {
  const Inputs found = run(fast, values), expected = run(reference, values);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].scalar_type(), expected[i].scalar_type());
    EXPECT_LT(relative_error(found[i], expected[i]), i < outputs ? tolerance.output : tolerance.gradient)
        << tolerance.type << " " << values[0].sizes()
        << (i < outputs ? " output " : " gradient, with outputs before, ") << i;
  }
}

struct Operands {
  Tensor x, other, weight, bias;
};
Operands operands(const std::vector<int64_t>& sizes, at::ScalarType type) {
  return {random_tensor(sizes, 1, type).mul(3).add(0.5), random_tensor(sizes, 3, type).mul(2),
          random_tensor({sizes[1]}, 2, norm_wide(type)), random_tensor({sizes[1]}, 4, norm_wide(type))};
}

TEST(RmsNorm, EqualsReference) {
  const PoisonFreshMemory poison;
  for_each_instruction_set([&] {
    for (const NormTolerance& tolerance : kNormTolerances) {
      for (const auto& sizes : kNormShapes) {
        const Operands in = operands(sizes, tolerance.type);
        expect_equal([](const Inputs& v) { return Inputs{rms_norm(v[0], v[1], kEps)}; },
                     [](const Inputs& v) { return Inputs{rms_norm_reference(v[0], v[1], kEps)}; },
                     {in.x, in.weight}, 1, tolerance);
        expect_equal([](const Inputs& v) { return Inputs{rms_norm(v[0], v[2], kEps, v[1])}; },
                     [](const Inputs& v) { return Inputs{rms_norm_reference(v[0], v[2], kEps, v[1])}; },
                     {in.x, in.other, in.weight}, 1, tolerance);
      }
    }
  });
}

TEST(LayerNorm, EqualsReference) {
  const PoisonFreshMemory poison;
  for_each_instruction_set([&] {
    for (const NormTolerance& tolerance : kNormTolerances) {
      for (const auto& sizes : kNormShapes) {
        const Operands in = operands(sizes, tolerance.type);
        expect_equal([](const Inputs& v) { return Inputs{layer_norm(v[0], v[1], v[2], kEps)}; },
                     [](const Inputs& v) { return Inputs{layer_norm_reference(v[0], v[1], v[2], kEps)}; },
                     {in.x, in.weight, in.bias}, 1, tolerance);
        expect_equal([](const Inputs& v) { return Inputs{layer_norm(v[0], v[1], Tensor(), kEps)}; },
                     [](const Inputs& v) { return Inputs{layer_norm_reference(v[0], v[1], Tensor(), kEps)}; },
                     {in.x, in.weight}, 1, tolerance);
      }
    }
  });
}

TEST(JoinNorm, EqualsReference) {
  const PoisonFreshMemory poison;
  for_each_instruction_set([&] {
    for (const NormTolerance& tolerance : kNormTolerances) {
      for (const auto& sizes : kNormShapes) {
        const Operands in = operands(sizes, tolerance.type);
        for (const auto& [alpha, beta] : {std::pair{1.0, 1.0}, {1.75, 0.5}}) {
          for (const NormKind kind : {NormKind::kRms, NormKind::kLayer}) {
            const bool biased = kind == NormKind::kLayer;
            const auto call = [&, a = alpha, b = beta](const auto& op, const Inputs& v) {
              const JoinedNorm result = op(kind, v[0], v[1], a, b, v[2], biased ? v[3] : Tensor(), kEps);
              return Inputs{result.joined_tc, result.normed_tc};
            };
            expect_equal(
                [&](const Inputs& v) { return call(join_norm, v); },
                [&](const Inputs& v) { return call(join_norm_reference, v); },
                biased ? Inputs{in.x, in.other, in.weight, in.bias} : Inputs{in.x, in.other, in.weight}, 2,
                tolerance);
          }
        }
      }
    }
  });
}

// Post-norm wiring reads y alone, the last join of a pre-norm model might be read before its norm only.
TEST(JoinNorm, EitherResultMayBeUnused) {
  const Operands in = operands({9, 17}, at::kDouble);
  for (const size_t used : {0, 1}) {
    const auto call = [&](const auto& op, const Inputs& v) {
      const JoinedNorm result = op(NormKind::kRms, v[0], v[1], 1.5, 0.5, v[2], Tensor(), kEps);
      return Inputs{used == 0 ? result.joined_tc * 1 : result.normed_tc};
    };
    if (used == 0) {
      const Inputs found =
          run([&](const Inputs& v) { return call(join_norm, v); }, {in.x, in.other, in.weight});
      const Tensor seed = random_tensor(in.x.sizes(), 7);
      EXPECT_LT(relative_error(found[1], seed.mul(1.5)), 1e-15);
      EXPECT_LT(relative_error(found[2], seed.mul(0.5)), 1e-15);
    } else {
      expect_equal([&](const Inputs& v) { return call(join_norm, v); },
                   [&](const Inputs& v) { return call(join_norm_reference, v); }, {in.x, in.other, in.weight},
                   1, kNormTolerances[0]);
    }
  }
}

TEST(RmsNorm, Gradients) {
  const Tensor mix = random_tensor({7, 9}, 3);
  check_gradients([&](const std::vector<Tensor>& in) { return rms_norm(in[0], in[1], kEps).mul(mix).sum(); },
                  {random_tensor({7, 9}, 1), random_tensor({9}, 2)});
  check_gradients(
      [&](const std::vector<Tensor>& in) { return rms_norm(in[0], in[1], kEps, in[2]).mul(mix).sum(); },
      {random_tensor({7, 9}, 1), random_tensor({9}, 2), random_tensor({7, 9}, 4)});
}

TEST(LayerNorm, Gradients) {
  const Tensor mix = random_tensor({7, 9}, 3);
  check_gradients(
      [&](const std::vector<Tensor>& in) { return layer_norm(in[0], in[1], in[2], kEps).mul(mix).sum(); },
      {random_tensor({7, 9}, 1), random_tensor({9}, 2), random_tensor({9}, 4)});
}

TEST(JoinNorm, Gradients) {
  const Tensor mix = random_tensor({7, 9}, 3), joined_mix = random_tensor({7, 9}, 5);
  for (const NormKind kind : {NormKind::kRms, NormKind::kLayer}) {
    check_gradients(
        [&](const std::vector<Tensor>& in) {
          const JoinedNorm result = join_norm(kind, in[0], in[1], 1.3, 0.7, in[2], Tensor(), kEps);
          return result.normed_tc.mul(mix).sum() + result.joined_tc.mul(joined_mix).sum();
        },
        {random_tensor({7, 9}, 1), random_tensor({7, 9}, 4), random_tensor({9}, 2)});
  }
}

TEST(RmsNorm, EdgeCases) {
  const Tensor w = random_tensor({4}, 2);
  EXPECT_EQ(rms_norm(at::zeros({0, 4}, at::kDouble), w, kEps).sizes(), at::IntArrayRef({0, 4}));
  const Tensor empty = at::zeros({0, 4}, at::kDouble).requires_grad_(true),
               weight = w.clone().requires_grad_(true);
  rms_norm(empty, weight, kEps).sum().backward();
  EXPECT_TRUE(weight.grad().eq(0).all().item<bool>()) << "no rows, no gradient";
  EXPECT_TRUE(rms_norm(at::zeros({3, 4}, at::kDouble), w, kEps).eq(0).all().item<bool>())
      << "eps keeps zero rows finite";
  const Tensor strided = random_tensor({4, 6}, 1).t();  // [6, 4], not contiguous
  EXPECT_LT(relative_error(rms_norm(strided, w, kEps), rms_norm_reference(strided, w, kEps)), 1e-12);
  EXPECT_THROW(rms_norm(at::zeros({3, 5}, at::kDouble), w, kEps), Error);
  EXPECT_THROW(rms_norm(at::zeros({3, 4}, at::kBFloat16), w.to(at::kBFloat16), kEps), Error)
      << "weights are fp32";
  EXPECT_THROW(rms_norm(at::zeros({3, 4}, at::kDouble), w, kEps, at::zeros({3, 5}, at::kDouble)), Error);
  EXPECT_THROW(layer_norm(at::zeros({3, 4}, at::kDouble), w, w.to(at::kFloat), kEps), Error);
  EXPECT_THROW(
      join_norm(NormKind::kRms, at::zeros({3, 4}, at::kDouble), at::zeros({3, 4}), 1, 1, w, Tensor(), kEps),
      Error);
  EXPECT_THROW(join_norm(NormKind::kRms, at::zeros({3, 4}, at::kDouble), at::zeros({3, 4}, at::kDouble), 1, 1,
                         w, w, kEps),
               Error);
}

// A NaN anywhere in a row, or in its gate, is not hidden; other rows do not see it.
TEST(RmsNorm, NansStayInTheirRow) {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const Tensor x = random_tensor({3, 40}, 1, type), gate = random_tensor({3, 40}, 2, type),
                 w = random_tensor({40}, 3, at::kFloat);
    gate[1][37] = std::nan("");
    const Tensor y = rms_norm(x, w, kEps, gate);
    EXPECT_EQ(y.isnan().sum().item<int64_t>(), 1) << type;
    EXPECT_TRUE(y[1][37].isnan().item<bool>()) << type;
    x[2][0] = std::nan("");
    EXPECT_EQ(rms_norm(x, w, kEps).isnan().sum().item<int64_t>(), 40) << type;
  }
}

TEST(JoinNorm, SameForEveryNumberOfThreads) {
  const Tensor x = random_tensor({1700, 96}, 1, at::kFloat),
               branch = random_tensor({1700, 96}, 2, at::kFloat), w = random_tensor({96}, 3, at::kFloat);
  expect_same_for_all_threads([&] {
    return run(
        [](const Inputs& v) {
          const JoinedNorm result = join_norm(NormKind::kLayer, v[0], v[1], 1.5, 0.5, v[2], v[2], kEps);
          return Inputs{result.joined_tc, result.normed_tc, rms_norm(v[0], v[2], kEps, v[1])};
        },
        {x, branch, w});
  });
}

}  // namespace
}  // namespace longhaul::kernels::norm_test
