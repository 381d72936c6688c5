// features and gated by their "cuda" entries, where CPU tensors count as on a GPU and the kernels are
// emulated (support/cuda_emulation), beside the same by LibTorch's operators in fp64. Fresh memory is NaN,
// inputs are columns of wider rows. ctest: label=fast timeout=120
#include <gtest/gtest.h>

#include <functional>

#include "kernels/feature_maps/op.h"
#include "on_emulated_gpu.h"

namespace longhaul::kernels::cuda_features_test {
namespace {

using namespace longhaul::testing;

constexpr FeatureMap kEveryMap[] = {FeatureMap::kNone, FeatureMap::kSilu, FeatureMap::kRelu,
                                    FeatureMap::kSigmoid};

// Results and gradients of `run` on leaves that hold `values`: in bf16 (tables in fp32) on the emulated GPU,
// and in fp64.
using FeatureRun = std::function<Tensor(const std::vector<Tensor>&, bool on_gpu)>;
void expect_like_reference(const char* op, const std::vector<Tensor>& values, const FeatureRun& run) {
  const auto evaluate = [&](bool on_gpu) {
    std::vector<Tensor> leaves, found;
    for (const Tensor& value : values)
      leaves.push_back((on_gpu ? value : value.to(at::kDouble)).clone().requires_grad_(true));
    const Tensor y = run(leaves, on_gpu);
    y.to(at::kDouble).mul(random_tensor(y.sizes(), 9, at::kBFloat16).to(at::kDouble)).sum().backward();
    found.push_back(y.detach());
    for (const Tensor& leaf : leaves) found.push_back(leaf.grad());
    return found;
  };
  std::vector<Tensor> found;
  {
    const OnEmulatedGpu gpu;
    found = evaluate(true);
    EXPECT_EQ(Dispatcher::last(op).chosen, "cuda");
  }
  const std::vector<Tensor> expected = evaluate(false);
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_LT(relative_error(found[i], expected[i]), 1e-2) << op << " " << i;
}

TEST(CudaFeatures, EqualTheReferenceWithLearnedAngles) {
  for (const Turn turn : {Turn::kNone, Turn::kCosine, Turn::kRotary}) {
    for (const FeatureMap map : kEveryMap) {
      for (const bool shared : {false, true}) {
        std::vector<Tensor> values{random_tensor({13, 3 * 20 + 4}, 1, at::kBFloat16)};
        if (turn != Turn::kNone) {
          const int64_t angles = (shared ? 20 : 60) / (turn == Turn::kRotary ? 2 : 1);
          values.push_back(random_tensor({13, angles}, 2, at::kFloat));
          values.push_back(random_tensor({13, angles}, 3, at::kFloat));
        }
        expect_like_reference("features", values, [&](const std::vector<Tensor>& in, bool on_gpu) {
          const TurnTable table = in.size() > 1 ? TurnTable{in[1], in[2]} : TurnTable{};
          return (on_gpu ? features : features_reference)(in[0].narrow(1, 3, 60), 3, map, turn, table);
        });
      }
    }
  }
}

TEST(CudaFeatures, GatesEqualTheReference) {
  for (const FeatureMap map : kEveryMap) {
    expect_like_reference(
        "gated", {random_tensor({11, 40}, 1, at::kBFloat16), random_tensor({11, 44}, 2, at::kBFloat16)},
        [&](const std::vector<Tensor>& in, bool on_gpu) {
          return (on_gpu ? gated : gated_reference)(in[0].narrow(1, 0, 32), in[1].narrow(1, 8, 32), map);
        });
  }
}

}  // namespace
}  // namespace longhaul::kernels::cuda_features_test
