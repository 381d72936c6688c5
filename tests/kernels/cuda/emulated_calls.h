// What tests of the glue between tensors and the CUDA kernels share (cuda_emulated_calls_test.cpp).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/dispatch.h"
#include "on_emulated_gpu.h"

namespace longhaul::kernels::cuda_calls_test {

using namespace longhaul::testing;
constexpr auto kBf16 = at::kBFloat16;

inline void expect_cuda(const std::string& op) { EXPECT_EQ(Dispatcher::last(op).chosen, "cuda") << op; }

// ‖a − b‖ / ‖b‖ of everything that came out, against the same run in fp64 by the loops of the CPU. One
// rounding to bf16 is 1.7e-3 in the mean; what is kept in bf16 on the way (normed rows, probabilities) is
// rounded once more: 5e-3 bounds both.
constexpr double kEmulatedTolerance = 5e-3;
using Run = std::function<std::vector<Tensor>(at::ScalarType)>;
inline void expect_like_fp64(const std::vector<std::string>& ops, const Run& run,
                             double tolerance = kEmulatedTolerance) {
  std::vector<Tensor> found;
  {
    const OnEmulatedGpu gpu;
    found = run(kBf16);
    for (const std::string& op : ops) expect_cuda(op);
  }
  const auto expected = run(at::kDouble);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_TRUE(found[i].defined()) << i;
    EXPECT_LT(rms_error(found[i], expected[i]), tolerance)
        << (ops.empty() ? "libraries" : ops[0]) << " " << i;
  }
}

// The same values in every type: rounded to bf16 first.
inline Tensor rounded(at::IntArrayRef sizes, uint64_t seed, at::ScalarType type) {
  return random_tensor(sizes, seed, kBf16).to(type);
}
inline Tensor emulated_leaf(at::IntArrayRef sizes, uint64_t seed, at::ScalarType type) {
  return rounded(sizes, seed, type).requires_grad_(true);
}
inline at::ScalarType emulated_wide(at::ScalarType type) {
  return type == at::kDouble ? at::kDouble : at::kFloat;
}
inline Tensor wide_leaf(at::IntArrayRef sizes, uint64_t seed, at::ScalarType type) {
  return emulated_leaf(sizes, seed, emulated_wide(type));
}
inline Tensor full(at::IntArrayRef sizes, double value, at::ScalarType type) {
  return at::full(sizes, value, at::TensorOptions().dtype(type));
}
// Every other element of wider rows.
inline Tensor strided(const Tensor& x) { return at::stack({x, x.mul(3)}, -1).select(-1, 0); }

}  // namespace longhaul::kernels::cuda_calls_test
