// What an operator leaves behind where gradients are recorded, and where they are not.
// ctest: label=fast timeout=60
#include "kernels/differentiable.h"

#include <gtest/gtest.h>

namespace longhaul::kernels {
namespace {

// Twice x, and x itself.
std::vector<Tensor> twice_and_once(const Tensor& x) {
  return differentiable("twice", {x, Tensor()}, [&]() -> Recorded {
    return {.results = {x * 2, x}, .backward = [](const BackwardCall& call) {
              return std::vector<Tensor>{call.gradients[0] * 2 + call.gradients[1], Tensor()};
            }};
  });
}

TEST(Differentiable, RecordsWhereGradientsAreWanted) {
  const Tensor x = at::ones({3}).requires_grad_(true);
  const std::vector<Tensor> results = twice_and_once(x);
  EXPECT_TRUE(results[0].equal(at::full({3}, 2.0F)));
  (results[0].sum() + 5 * results[1].sum()).backward();
  EXPECT_TRUE(x.grad().equal(at::full({3}, 7.0F)));
}

TEST(Differentiable, LeavesNothingBehindInInference) {
  const Tensor x = at::ones({3}).requires_grad_(true);
  std::vector<Tensor> results;
  {
    const at::NoGradGuard guard;
    results = twice_and_once(x);
    EXPECT_THROW(differentiable("broken", {x}, []() -> Recorded { throw std::runtime_error("lost"); }),
                 std::runtime_error);
  }
  for (const Tensor& result : results) {
    EXPECT_FALSE(result.requires_grad());
    EXPECT_EQ(result.grad_fn(), nullptr);
  }
  EXPECT_TRUE(results[0].equal(at::full({3}, 2.0F)));
  EXPECT_FALSE(results[1].is_same(x))
      << "who changes what the result says of itself does not change the input";
  EXPECT_EQ(results[1].const_data_ptr(), x.const_data_ptr());
  EXPECT_TRUE(x.requires_grad());
}

}  // namespace
}  // namespace longhaul::kernels
