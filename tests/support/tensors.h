// Shared by tests that compute: seeded tensors, gradient checks against finite differences, poisoned fresh
// memory.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tensor/cpu_allocator.h"

namespace longhaul::testing {

using at::Tensor;

inline Tensor random_tensor(at::IntArrayRef sizes, uint64_t seed, at::ScalarType type = at::kDouble) {
  auto generator = at::detail::createCPUGenerator(seed);
  return at::randn(sizes, generator, at::TensorOptions().dtype(at::kDouble)).to(type);
}

// Largest |a − b| relative to the largest |b|.
inline double relative_error(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.sizes(), b.sizes());
  if (a.numel() == 0) return 0;
  const Tensor wide_a = a.detach().to(at::kDouble), wide_b = b.detach().to(at::kDouble);
  const double scale = std::max(wide_b.abs().max().item<double>(), 1e-30);
  const double difference = (wide_a - wide_b).abs().max().item<double>();
  return std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference / scale;
}

// ‖a − b‖ / ‖b‖; NaN or infinity anywhere gives infinity.
inline double rms_error(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.sizes(), b.sizes());
  const Tensor wide_a = a.detach().to(at::kDouble), wide_b = b.detach().to(at::kDouble);
  const double difference = (wide_a - wide_b).norm().item<double>(), size = wide_b.norm().item<double>();
  if (!std::isfinite(difference)) return INFINITY;
  return difference == 0 ? 0 : difference / std::max(size, 1e-30);
}

// f maps the inputs (fp64, requiring gradients) to a scalar. Compares ⟨gradient, direction⟩ of each input
// with a central difference along two random directions; the tolerance is the error of the difference
// quotient itself, about h² + eps/h.
inline void check_gradients(const std::function<Tensor(const std::vector<Tensor>&)>& f,
                            const std::vector<Tensor>& values, double tolerance = 1e-6) {
  std::vector<Tensor> inputs;
  for (const Tensor& value : values) inputs.push_back(value.detach().clone().requires_grad_(true));
  f(inputs).backward();
  for (size_t i = 0; i < inputs.size(); ++i) {
    ASSERT_TRUE(inputs[i].grad().defined()) << "input " << i << " got no gradient";
    for (uint64_t trial = 0; trial < 2; ++trial) {
      const Tensor direction = random_tensor(inputs[i].sizes(), 900 + trial + 10 * i);
      const double h = 1e-5;
      const auto moved = [&](double step) {
        std::vector<Tensor> at_point;
        for (size_t j = 0; j < values.size(); ++j) at_point.push_back(values[j].detach().clone());
        at_point[i].add_(direction, step);
        at::NoGradGuard guard;
        return f(at_point).item<double>();
      };
      const double numeric = (moved(h) - moved(-h)) / (2 * h);
      const double analytic = inputs[i].grad().mul(direction).sum().item<double>();
      EXPECT_NEAR(analytic, numeric, tolerance * std::max(1.0, std::abs(numeric))) << "input " << i;
    }
  }
}

// While an object of this class lives, memory that LibTorch allocates is NaN until it is written, freed
// memory is NaN again, and a write past a tensor's end fails the test.
class PoisonFreshMemory {
 public:
  PoisonFreshMemory() { set_memory_poison(true); }
  ~PoisonFreshMemory() {
    set_memory_poison(false);
    EXPECT_NO_THROW(check_memory_guards());
  }
};

}  // namespace longhaul::testing
