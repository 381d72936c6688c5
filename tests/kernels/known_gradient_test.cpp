// Gradients whose value the host knows: nobody reads the tensor, and another one is read. ctest: label=fast
#include "kernels/known_gradient.h"

#include <gtest/gtest.h>

#include "kernels/linear_cross_entropy/op.h"
#include "support/tensors.h"

namespace longhaul::kernels {
namespace {

using longhaul::testing::random_tensor;

TEST(KnownGradient, IsNotRead) {
  const Tensor loss = at::zeros({}, at::kFloat);
  Tensor kept;
  {
    const KnownGradient half(loss, 0.5);
    EXPECT_EQ(half.tensor().item<double>(), 0.5);
    EXPECT_EQ(half.tensor().scalar_type(), at::kFloat);
    half.tensor().fill_(7);  // what a device would tell
    EXPECT_EQ(value_of_gradient(half.tensor()), 0.5);
    EXPECT_EQ(value_of_gradient(half.tensor().clone()), 7);
    kept = half.tensor();
  }
  EXPECT_EQ(value_of_gradient(kept), 7);
}

// Autograd hands the very tensor on: the loss takes the value that it was told, and not what stands there.
TEST(KnownGradient, ReachesTheLoss) {
  const Tensor weight = random_tensor({5, 4}, 2), labels = at::tensor(std::vector<int64_t>{0, 4, 2});
  const auto gradient = [&](const auto& backward) {
    const Tensor hidden = random_tensor({3, 4}, 1).requires_grad_(true);
    backward(linear_cross_entropy_sum(hidden, weight, labels, Tensor()));
    return hidden.grad();
  };
  const Tensor expected = gradient([](const Tensor& loss) { loss.backward(at::full({}, 3.0, at::kDouble)); });
  const Tensor found = gradient([](const Tensor& loss) {
    const KnownGradient three(loss, 3);
    three.tensor().fill_(-1);
    loss.backward(three.tensor());
  });
  EXPECT_TRUE(found.equal(expected));
}

}  // namespace
}  // namespace longhaul::kernels
