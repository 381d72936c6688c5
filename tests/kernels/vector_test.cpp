// The vector helpers that the memory-bound operators share: rounding to bf16, tails, exponential and sigmoid,
// per instruction set.
#include "kernels/vector/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/vector_test.cpp"
#include <hwy/foreach_target.h>
#include "kernels/vector/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels {
namespace HWY_NAMESPACE {

template <class T>
void exponentials(const T* x, T* y, int64_t n) {
  const hn::ScalableTag<T> d;
  walk(d, n, [&](auto at) LONGHAUL_VECTOR { store(d, exponential(d, load(d, x, at)), y, at); });
}
template <class T>
void sigmoids(const T* x, T* y, int64_t n) {
  const hn::ScalableTag<T> d;
  walk(d, n, [&](auto at) LONGHAUL_VECTOR { store(d, sigmoid(d, load(d, x, at)), y, at); });
}

void exponentials_fp32(const float* x, float* y, int64_t n) { exponentials(x, y, n); }
void exponentials_fp64(const double* x, double* y, int64_t n) { exponentials(x, y, n); }
void sigmoids_fp32(const float* x, float* y, int64_t n) { sigmoids(x, y, n); }
void sigmoids_fp64(const double* x, double* y, int64_t n) { sigmoids(x, y, n); }
void to_bf16(const float* x, uint16_t* y, int64_t n) {
  const hn::ScalableTag<float> d;
  walk(d, n, [&](auto at) LONGHAUL_VECTOR { store(d, load(d, x, at), y, at); });
}
void from_bf16(const uint16_t* x, float* y, int64_t n) {
  const hn::ScalableTag<float> d;
  walk(d, n, [&](auto at) LONGHAUL_VECTOR { store(d, load(d, x, at), y, at); });
}
// Sum of (x + 1) over n elements: lanes outside must not count.
float sum_of_successors(const uint16_t* x, int64_t n) {
  const hn::ScalableTag<float> d;
  auto sum = hn::Zero(d);
  walk(d, n, [&](auto at) LONGHAUL_VECTOR {
    sum = hn::Add(sum, only(d, hn::Add(as_stored<uint16_t>(d, load(d, x, at)), hn::Set(d, 1.0f)), at));
  });
  return sum_of_lanes(d, sum);
}

}  // namespace HWY_NAMESPACE
}  // namespace longhaul::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "support/instruction_sets.h"

namespace longhaul::kernels {
namespace {

using namespace longhaul::testing;

template <class T>
std::vector<T> spread(double largest) {
  std::vector<T> x;
  for (double v = -largest; v <= largest; v += largest / 20011) x.push_back(static_cast<T>(v));
  for (const double v : {0.0, 1e-30, -1e-30, 1e-3, -1e-3, 0.34657359, 0.34657360})
    x.push_back(static_cast<T>(v));
  return x;
}

template <class T, class Function, class Exact>
void expect_close(const Function& function, const Exact& exact, double largest, double bound) {
  const std::vector<T> x = spread<T>(largest);
  std::vector<T> y(x.size(), std::numeric_limits<T>::quiet_NaN());
  function(x.data(), y.data(), static_cast<int64_t>(x.size()));
  long double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const long double expected = exact(static_cast<long double>(x[i]));
    worst = std::max(worst, std::abs((static_cast<long double>(y[i]) - expected) / expected));
    ASSERT_FALSE(std::isnan(y[i])) << x[i];
  }
  EXPECT_LT(static_cast<double>(worst), bound);
}

// The bounds that vector-inl.h states.
TEST(VectorMath, ExponentialAndSigmoidErrors) {
  const auto exact_exp = [](long double x) { return std::exp(x); };
  const auto exact_sigmoid = [](long double x) { return 1 / (1 + std::exp(-x)); };
  for_each_instruction_set([&] {
    expect_close<float>(
        [](auto... a) {
          LONGHAUL_CHOOSE(exponentials_fp32)
          (a...);
        },
        exact_exp, 87, std::exp2(-23));
    expect_close<double>(
        [](auto... a) {
          LONGHAUL_CHOOSE(exponentials_fp64)
          (a...);
        },
        exact_exp, 700, std::exp2(-51));
    expect_close<float>(
        [](auto... a) {
          LONGHAUL_CHOOSE(sigmoids_fp32)
          (a...);
        },
        exact_sigmoid, 87, std::exp2(-21));
    expect_close<double>(
        [](auto... a) {
          LONGHAUL_CHOOSE(sigmoids_fp64)
          (a...);
        },
        exact_sigmoid, 700, std::exp2(-50));
  });
}

TEST(VectorMath, BeyondTheRangeItSaturatesAndNansStay) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const float x[5] = {infinity, -infinity, nan, 1000, -1000};
  for_each_instruction_set([&] {
    float y[5];
    LONGHAUL_CHOOSE(sigmoids_fp32)(x, y, 5);
    EXPECT_EQ(y[0], 1);
    EXPECT_LT(y[1], 1e-37f);
    EXPECT_TRUE(std::isnan(y[2]));
    EXPECT_EQ(y[3], 1);
    EXPECT_LT(y[4], 1e-37f);
    LONGHAUL_CHOOSE(exponentials_fp32)(x, y, 5);
    EXPECT_TRUE(std::isnan(y[2]));
    EXPECT_TRUE(std::isfinite(y[0]));
  });
}

// Every bf16 number, and the numbers halfway to the next one and beside that: nearest, ties to even.
TEST(Bf16, RoundsToNearestEven) {
  std::vector<float> x;
  std::vector<uint16_t> expected;
  for (uint32_t high = 0; high < 0x10000; ++high) {
    if ((high & 0x7fff) > 0x7f80) continue;  // NaNs below
    const auto add = [&](uint32_t low, uint32_t result) {
      x.push_back(std::bit_cast<float>(high << 16 | low));
      expected.push_back(static_cast<uint16_t>(result));
    };
    add(0, high);
    if ((high & 0x7fff) == 0x7f80) continue;  // infinities have no neighbours
    add(0x7fff, high);
    add(0x8000, high + (high & 1));
    add(0x8001, high + 1);
    add(0xffff, high + 1);
  }
  for (const uint32_t nan : {0x7f800001u, 0x7fffffffu, 0xff800001u, 0xffffffffu}) {
    x.push_back(std::bit_cast<float>(nan));
    expected.push_back(0x7fc0);
  }
  for_each_instruction_set([&] {
    std::vector<uint16_t> found(x.size(), 0xdead);
    LONGHAUL_CHOOSE(to_bf16)(x.data(), found.data(), static_cast<int64_t>(x.size()));
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(found[i], expected[i]) << std::hex << std::bit_cast<uint32_t>(x[i]);
    std::vector<float> back(x.size());
    LONGHAUL_CHOOSE(from_bf16)(found.data(), back.data(), static_cast<int64_t>(x.size()));
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(std::bit_cast<uint32_t>(back[i]), static_cast<uint32_t>(found[i]) << 16);
  });
}

// Every length up to three of the longest vectors: nothing outside is read into a sum or written.
TEST(Walk, TouchesNothingOutside) {
  for_each_instruction_set([] {
    for (int64_t n = 0; n <= 50; ++n) {
      // NaN behind the end
      std::vector<uint16_t> x(static_cast<size_t>(n) + 40, 0x7fc0), y(x.size(), 0xbeef);
      std::fill_n(x.begin(), n, static_cast<uint16_t>(0x4000));  // 2
      EXPECT_EQ(LONGHAUL_CHOOSE(sum_of_successors)(x.data(), n), 3.0f * static_cast<float>(n));
      std::vector<float> wide(x.size(), -7.0f);
      LONGHAUL_CHOOSE(from_bf16)(x.data(), wide.data(), n);
      LONGHAUL_CHOOSE(to_bf16)(wide.data(), y.data(), n);
      for (size_t i = 0; i < x.size(); ++i) {
        const bool inside = i < static_cast<size_t>(n);
        ASSERT_EQ(wide[i], inside ? 2.0f : -7.0f) << n << " " << i;
        ASSERT_EQ(y[i], inside ? 0x4000 : 0xbeef) << n << " " << i;
      }
    }
  });
}

}  // namespace
}  // namespace longhaul::kernels
#endif
