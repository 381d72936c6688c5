// Weights clipped for rounding by groups: the clip with the smallest error of all that are tried, worked out
// weight by weight, and never a larger error than without.
#include "kernels/spikes/calibration.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/spikes/group_weight.h"
#include "support/tensors.h"

namespace longhaul::kernels::calibration_test {
namespace {

using namespace longhaul::testing;

// Of one group, in fp32 as the operator computes, but summed in fp64: the error of rounding with the scale
// that the clip gives.
double error_of(const std::vector<float>& weights, const std::vector<double>& squares, float bound) {
  const float scale = bound / 127;
  double error = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const float kept = std::clamp(weights[i], -bound, bound);
    const double off =
        static_cast<double>(weights[i]) - static_cast<double>(std::nearbyint(kept / scale) * scale);
    error += squares[i] * off * off;
  }
  return error;
}

Tensor rounded(const Tensor& weight) { return rounded_in_groups(weight); }
double error_of(const Tensor& weight, const Tensor& seen, const Tensor& square) {
  return weight.sub(rounded(seen)).to(at::kDouble).square().mul(square).sum().item<double>();
}

TEST(SpikeCalibration, TakesTheClipWithTheSmallestError) {
  constexpr int64_t kIn = 128;
  Tensor weight = random_tensor({3, kIn}, 1).clamp(-1.5, 1.5).to(at::kFloat);
  weight.index_put_({0, 5}, 4.0F);  // stands out, and its input is nearly silent
  Tensor square = random_tensor({kIn}, 2).square().add(0.1);
  square.index_put_({5}, 1e-9);
  const Tensor seen = clipped_by_groups(weight, square);
  for (int64_t row = 0; row < 3; ++row) {
    std::vector<float> values(kIn);
    std::vector<double> squares(kIn);
    float largest = 0;
    for (int64_t i = 0; i < kIn; ++i) {
      values[static_cast<size_t>(i)] = weight[row][i].item<float>();
      squares[static_cast<size_t>(i)] = square[i].item<double>();
      largest = std::max(largest, std::abs(values[static_cast<size_t>(i)]));
    }
    double least = std::numeric_limits<double>::infinity();
    for (int tried = 0; tried < 26; ++tried)
      least = std::min(least, error_of(values, squares, static_cast<float>(largest * (1 - 0.02 * tried))));
    const Tensor own = seen.narrow(0, row, 1);
    EXPECT_NEAR(error_of(weight.narrow(0, row, 1), own, square), least, 1e-5 * least) << row;
  }
  EXPECT_LT(seen[0].abs().max().item<double>(), 3.0) << "what stands out is clipped";
  EXPECT_LT(error_of(weight.narrow(0, 0, 1), seen.narrow(0, 0, 1), square),
            0.5 * error_of(weight.narrow(0, 0, 1), weight.narrow(0, 0, 1), square));
}

// Groups at an edge, and rows beyond those that are tried at once; silent inputs leave everything as it is.
TEST(SpikeCalibration, NeverMakesItWorse) {
  const Tensor weight = random_tensor({37, 300}, 3).to(at::kFloat), square = random_tensor({300}, 4).square();
  const Tensor seen = clipped_by_groups(weight, square);
  for (int64_t row = 0; row < 37; ++row) {
    EXPECT_LE(error_of(weight[row].unsqueeze(0), seen[row].unsqueeze(0), square),
              error_of(weight[row].unsqueeze(0), weight[row].unsqueeze(0), square) * (1 + 1e-6))
        << row;
  }
  EXPECT_TRUE(clipped_by_groups(weight, at::zeros({300}, at::kDouble)).equal(weight));
  EXPECT_TRUE(clipped_by_groups(at::zeros({2, 130}), at::ones({130})).equal(at::zeros({2, 130})));
}

}  // namespace
}  // namespace longhaul::kernels::calibration_test
