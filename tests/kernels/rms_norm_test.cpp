#include "kernels/rms_norm/op.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/threads.h"

namespace longhaul::kernels {
namespace {

using namespace longhaul::testing;

constexpr double kEps = 1e-5;

struct Result {
  Tensor y, dx, dw;
};

template <class Op>
Result run(const Op& op, const Tensor& x_in, const Tensor& w_in) {
  const Tensor x = x_in.detach().clone().requires_grad_(true), w = w_in.detach().clone().requires_grad_(true);
  const Tensor y = op(x, w, kEps);
  y.backward(random_tensor(y.sizes(), 7, y.scalar_type()));
  return {y.detach(), x.grad(), w.grad()};
}

// bf16: the reference rounds once as well, so outputs differ by one unit (2^-8) at most; autograd's gradients round more often.
TEST(RmsNorm, EqualsReference) {
  const PoisonFreshMemory poison;
  const std::tuple<at::ScalarType, double, double> types[] = {{at::kDouble, 1e-12, 1e-12}, {at::kFloat, 1e-5, 1e-5}, {at::kBFloat16, 4e-3, 1e-2}};
  for (const auto& [type, output, gradient] : types) {
    for (const auto& sizes : {std::vector<int64_t>{1, 1}, {5, 3}, {64, 17}, {65, 32}, {130, 200}}) {
      const Tensor x = random_tensor(sizes, 1, type).mul(3), w = random_tensor({sizes[1]}, 2, type == at::kDouble ? at::kDouble : at::kFloat);
      const Result fast = run(rms_norm, x, w), reference = run(rms_norm_reference, x, w);
      EXPECT_EQ(fast.y.scalar_type(), type);
      EXPECT_LT(relative_error(fast.y, reference.y), output) << type << " " << sizes[0];
      EXPECT_LT(relative_error(fast.dw, reference.dw), gradient) << type << " " << sizes[0];
      if (sizes[1] > 1) {  // one channel: dx is a difference of equals
        EXPECT_LT(relative_error(fast.dx, reference.dx), gradient) << type << " " << sizes[0];
      }
    }
  }
}

TEST(RmsNorm, Gradients) {
  const Tensor mix = random_tensor({7, 9}, 3);
  check_gradients([&](const std::vector<Tensor>& in) { return rms_norm(in[0], in[1], kEps).mul(mix).sum(); }, {random_tensor({7, 9}, 1), random_tensor({9}, 2)});
}

TEST(RmsNorm, EdgeCases) {
  const Tensor w = random_tensor({4}, 2);
  EXPECT_EQ(rms_norm(at::zeros({0, 4}, at::kDouble), w, kEps).sizes(), at::IntArrayRef({0, 4}));
  EXPECT_TRUE(rms_norm(at::zeros({3, 4}, at::kDouble), w, kEps).eq(0).all().item<bool>()) << "eps keeps zero rows finite";
  const Tensor strided = random_tensor({4, 6}, 1).t();  // [6, 4], not contiguous
  EXPECT_LT(relative_error(rms_norm(strided, w, kEps), rms_norm_reference(strided, w, kEps)), 1e-12);
  EXPECT_THROW(rms_norm(at::zeros({3, 5}, at::kDouble), w, kEps), Error);
  EXPECT_THROW(rms_norm(at::zeros({3, 4}, at::kBFloat16), w.to(at::kBFloat16), kEps), Error) << "weights are fp32";
}

TEST(RmsNorm, SameForEveryNumberOfThreads) {
  const Tensor x = random_tensor({700, 96}, 1, at::kFloat), w = random_tensor({96}, 2, at::kFloat);
  expect_same_for_all_threads([&] {
    const Result result = run(rms_norm, x, w);
    return std::vector<Tensor>{result.y, result.dx, result.dw};
  });
}

}  // namespace
}  // namespace longhaul::kernels
