// The small products of every instruction set of this machine, and the AMX kernel on emulated tiles, against
// plain loops: awkward sizes, strides, poisoned results, guards around every buffer.
#include "kernels/gemm/block.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>

#include <fmt/format.h>

#include "base/error.h"
#include "kernels/gemm/amx_kernel.h"
#include "kernels/gemm/sets.h"
#include "kernels/tile_emulation.h"

namespace longhaul::kernels::block_test {
namespace {

using longhaul::testing::EmulatedTiles;

float widened(uint16_t bits) {
  const uint32_t wide = uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}
float widened(float value) { return value; }

template <class Element>
Element narrowed(float value) {
  if constexpr (std::is_same_v<Element, float>) {
    return value;
  } else {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    return static_cast<uint16_t>(bits >> 16);
  }
}
// A bf16 or fp32 NaN: whatever reads it shows it.
template <class Element>
constexpr Element kPoison = std::is_same_v<Element, float> ? std::numeric_limits<Element>::quiet_NaN()
                                                           : static_cast<Element>(0x7fff);

// rows × columns inside poison: between the columns and the stride, and 64 elements before and behind.
template <class Element>
class Guarded {
 public:
  Guarded(int64_t rows, int64_t columns, int64_t stride)
      : rows_(rows),
        columns_(columns),
        stride_(stride),
        data_(static_cast<size_t>(rows * stride + 2 * kGuard), kPoison<Element>) {}
  Element* data() { return data_.data() + kGuard; }
  Element& at(int64_t i, int64_t j) { return data()[i * stride_ + j]; }
  int64_t stride() const { return stride_; }
  void fill(std::mt19937& random) {
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < rows_; ++i) {
      for (int64_t j = 0; j < columns_; ++j) at(i, j) = narrowed<Element>(normal(random));
    }
  }
  // Counts the elements outside rows × columns that were written.
  int64_t broken() {
    int64_t count = 0;
    for (int64_t x = -kGuard; x < rows_ * stride_ + kGuard; ++x) {
      const bool inside = x >= 0 && x < rows_ * stride_ && x % stride_ < columns_;
      if (!inside && std::memcmp(data() + x, &kPoison<Element>, sizeof(Element)) != 0) ++count;
    }
    return count;
  }

 private:
  static constexpr int64_t kGuard = 64;
  int64_t rows_, columns_, stride_;
  std::vector<Element> data_;
};

struct Size {
  int64_t m, n, k;
};
// Edges of every blocking: 1, 6 and 16 rows, 16 and 64 columns, pairs and 32s of k; and none at all.
const std::vector<Size> kSizes = {{1, 1, 1},    {1, 16, 2},    {6, 64, 32},   {7, 65, 33}, {13, 17, 31},
                                  {16, 16, 32}, {17, 33, 65},  {32, 32, 64},  {33, 31, 1}, {5, 80, 100},
                                  {48, 48, 96}, {64, 128, 70}, {31, 95, 257}, {0, 16, 32}, {4, 0, 32},
                                  {20, 40, 0},  {70, 600, 20}, {35, 40, 1030}};

using Kernels = BlockKernels;

template <class Element>
void check(const Kernels& kernels,
           const std::function<void(const Element*, int64_t, const Element*, int64_t, int64_t, int64_t,
                                    float*, int64_t, bool)>& multiply) {
  std::mt19937 random(7);
  for (const Size& size : kSizes) {
    for (const bool transposed : {false, true}) {
      for (const bool accumulate : {false, true}) {
        const auto [m, n, k] = size;
        SCOPED_TRACE(fmt::format("{} m {} n {} k {} transposed {} accumulate {}", kernels.name, m, n, k,
                                 transposed, accumulate));
        Guarded<Element> a(m, k, k + 3), b(transposed ? n : k, transposed ? k : n, (transposed ? k : n) + 5);
        const int64_t packed = packed_size<Element>(k, n);
        Guarded<Element> panels(1, packed, std::max<int64_t>(packed, 1));
        Guarded<float> c(m, n, n + 2);
        a.fill(random);
        b.fill(random);
        if (accumulate) c.fill(random);
        Guarded<float> before = c;
        if constexpr (std::is_same_v<Element, float>)
          kernels.pack_fp32(b.data(), b.stride(), transposed, k, n, panels.data());
        else
          kernels.pack_bf16(b.data(), b.stride(), transposed, k, n, panels.data());
        multiply(a.data(), a.stride(), panels.data(), m, n, k, c.data(), c.stride(), accumulate);
        EXPECT_EQ(a.broken() + b.broken() + panels.broken() + c.broken(), 0);
        for (int64_t i = 0; i < m; ++i) {
          for (int64_t j = 0; j < n; ++j) {
            double exact = accumulate ? before.at(i, j) : 0, size_of_terms = std::abs(exact);
            for (int64_t x = 0; x < k; ++x) {
              const double term = double{widened(a.at(i, x))} * widened(transposed ? b.at(j, x) : b.at(x, j));
              exact += term;
              size_of_terms += std::abs(term);
            }
            // Each of k + 1 sums rounds once, by at most 2^-24 of a partial sum.
            ASSERT_NEAR(c.at(i, j), exact, 6e-8 * static_cast<double>(k + 1) * size_of_terms + 1e-30)
                << "row " << i << " column " << j;
          }
        }
      }
    }
  }
}

TEST(BlockKernels, Bf16EqualsPlainLoops) {
  for (const Kernels* kernels : usable_block_kernels()) {
    force_block_kernels(kernels->name);
    const BlockScope scope;
    check<uint16_t>(*kernels, scope->multiply_bf16);
  }
  force_block_kernels(std::nullopt);
}

TEST(BlockKernels, Fp32EqualsPlainLoops) {
  for (const Kernels* kernels : usable_block_kernels()) {
    force_block_kernels(kernels->name);
    const BlockScope scope;
    check<float>(*kernels, scope->multiply_fp32);
  }
  force_block_kernels(std::nullopt);
}

TEST(BlockKernels, TilesOfAmxEqualPlainLoops) {
  Kernels kernels = block_kernels();
  kernels.name = "amx on emulated tiles";
  EmulatedTiles::configure();
  check<uint16_t>(kernels, TileProduct<EmulatedTiles>::multiply);
  EXPECT_GT(EmulatedTiles::products, 0);
  EXPECT_EQ(EmulatedTiles::mistakes, 0);
  EmulatedTiles::release();
}

// Rows of A a multiple of 2 KiB apart are copied for a large B: the same sums in the same order. A small B is
// loaded into the nearest cache.
TEST(BlockKernels, TilesOfAmxTakeRowsThatShareTheirPlacesInTheCache) {
  constexpr int64_t kM = 70, kK = 136;
  std::mt19937 random(11);
  EmulatedTiles::configure();
  for (const int64_t n : {80, 160}) {
    Guarded<uint16_t> near(kM, kK, kK + 1), far(kM, kK, 1024), b(kK, n, n),
        panels(1, packed_size<uint16_t>(kK, n), packed_size<uint16_t>(kK, n));
    near.fill(random);
    b.fill(random);
    for (int64_t i = 0; i < kM; ++i) std::copy_n(&near.at(i, 0), kK, &far.at(i, 0));
    block_kernels().pack_bf16(b.data(), n, false, kK, n, panels.data());
    Guarded<float> expected(kM, n, n), found(kM, n, n);
    TileProduct<EmulatedTiles>::multiply(near.data(), near.stride(), panels.data(), kM, n, kK,
                                         expected.data(), n, false);
    EmulatedTiles::past = 0;
    TileProduct<EmulatedTiles>::multiply(far.data(), far.stride(), panels.data(), kM, n, kK, found.data(), n,
                                         false);
    EXPECT_EQ(EmulatedTiles::past > 0, n == 160);
    for (int64_t i = 0; i < kM; ++i) {
      for (int64_t j = 0; j < n; ++j)
        ASSERT_EQ(found.at(i, j), expected.at(i, j)) << "row " << i << " column " << j;
    }
    EXPECT_EQ(found.broken(), 0);
  }
  EmulatedTiles::release();
}

// Every set packs the same bytes, zeros included.
TEST(BlockKernels, PackAlike) {
  std::mt19937 random(3);
  const Kernels& plain = *usable_block_kernels().back();
  for (const Kernels* kernels : usable_block_kernels()) {
    for (const auto& [m, n, k] : kSizes) {
      for (const bool transposed : {false, true}) {
        Guarded<uint16_t> b(transposed ? n : k, transposed ? k : n, (transposed ? k : n) + 1);
        b.fill(random);
        std::vector<uint16_t> one(static_cast<size_t>(packed_size<uint16_t>(k, n)), 0x7fff), two = one;
        plain.pack_bf16(b.data(), b.stride(), transposed, k, n, one.data());
        kernels->pack_bf16(b.data(), b.stride(), transposed, k, n, two.data());
        EXPECT_EQ(one, two) << kernels->name << " k " << k << " n " << n;
        for (int64_t i = 0; i < packed_k(k); ++i) {
          for (int64_t j = 0; j < packed_n(n); ++j) {
            const uint16_t expected = i < k && j < n ? (transposed ? b.at(j, i) : b.at(i, j)) : uint16_t{0};
            const int64_t place = j / 16 * 16 * packed_k(k) + i / 2 * 32 + j % 16 * 2 + i % 2;
            ASSERT_EQ(one[static_cast<size_t>(place)], expected)
                << "k " << i << " of " << k << " n " << j << " of " << n;
          }
        }
      }
    }
  }
}

template <class Element, class Transpose>
void check_transposing(const Transpose& transpose, const char* name) {
  std::mt19937 random(5);
  for (const auto& [rows, columns, unused] : kSizes) {
    Guarded<Element> a(rows, columns, columns + 3), out(columns, rows, rows + 1);
    a.fill(random);
    transpose(a.data(), a.stride(), rows, columns, out.data(), out.stride());
    EXPECT_EQ(a.broken() + out.broken(), 0);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j)
        ASSERT_EQ(out.at(j, i), a.at(i, j)) << name << " " << rows << "x" << columns;
    }
  }
}

TEST(BlockKernels, Transpose) {
  for (const Kernels* kernels : usable_block_kernels()) {
    check_transposing<uint16_t>(kernels->transpose_bf16, kernels->name);
    check_transposing<float>(kernels->transpose_fp32, kernels->name);
  }
}

TEST(BlockKernels, RoundToNearestEven) {
  const float infinity = std::numeric_limits<float>::infinity();
  // 1 + 2^-8 lies between two bf16 numbers: to the even one; a little more: up.
  const std::vector<std::pair<float, uint16_t>> values = {
      {1.0f, 0x3f80},        {1.00390625f, 0x3f80},  {1.01171875f, 0x3f82},
      {1.00390637f, 0x3f81}, {-1.00390637f, 0xbf81}, {3.4e38f, 0x7f80},
      {infinity, 0x7f80},    {-infinity, 0xff80},    {0.0f, 0},
      {-0.0f, 0x8000},       {1e-40f, 0x0001}};
  for (const Kernels* kernels : usable_block_kernels()) {
    for (const auto& [rows, columns, unused] : kSizes) {
      Guarded<float> c(rows, columns, columns + 3);
      Guarded<uint16_t> out(rows, columns, columns + 1);
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < columns; ++j)
          c.at(i, j) = values[static_cast<size_t>(i + j) % values.size()].first;
      }
      // a NaN that rounding would carry over into −0
      if (rows > 0 && columns > 0) c.at(0, 0) = std::bit_cast<float>(0x7fffffffu);
      kernels->round_bf16(c.data(), c.stride(), rows, columns, out.data(), out.stride());
      EXPECT_EQ(out.broken(), 0);
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < columns; ++j) {
          if (i + j == 0) {
            EXPECT_TRUE(std::isnan(widened(out.at(0, 0))));
          } else {
            ASSERT_EQ(out.at(i, j), values[static_cast<size_t>(i + j) % values.size()].second)
                << kernels->name;
          }
        }
      }
    }
  }
}

// A row's result is the same whatever stands around it: blocks may be cut anywhere.
TEST(BlockKernels, RowsAndColumnsDoNotSeeTheirNeighbours) {
  constexpr int64_t m = 45, n = 100, k = 77;
  std::mt19937 random(11);
  Guarded<uint16_t> a(m, k, k), b(k, n, n);
  Guarded<float> wide_a(m, k, k), wide_b(k, n, n);
  for (auto* each : {&a, &b}) each->fill(random);
  for (auto* each : {&wide_a, &wide_b}) each->fill(random);
  for (const Kernels* kernels : usable_block_kernels()) {
    force_block_kernels(kernels->name);
    const BlockScope scope;
    std::vector<uint16_t> panels(static_cast<size_t>(packed_size<uint16_t>(k, n)));
    std::vector<float> wide_panels(static_cast<size_t>(packed_size<float>(k, n)));
    kernels->pack_bf16(b.data(), n, false, k, n, panels.data());
    kernels->pack_fp32(wide_b.data(), n, false, k, n, wide_panels.data());
    std::vector<float> whole(m * n), wide_whole(m * n), part(n), wide_part(n);
    scope->multiply_bf16(a.data(), k, panels.data(), m, n, k, whole.data(), n, false);
    scope->multiply_fp32(wide_a.data(), k, wide_panels.data(), m, n, k, wide_whole.data(), n, false);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; j += 16) {
        const int64_t columns = std::min<int64_t>(16, n - j);
        scope->multiply_bf16(a.data() + i * k, k, panels.data() + j * packed_k(k), 1, columns, k,
                             part.data() + j, n, false);
        scope->multiply_fp32(wide_a.data() + i * k, k, wide_panels.data() + j * k, 1, columns, k,
                             wide_part.data() + j, n, false);
      }
      ASSERT_EQ(std::memcmp(part.data(), whole.data() + i * n, n * 4), 0) << kernels->name << " row " << i;
      ASSERT_EQ(std::memcmp(wide_part.data(), wide_whole.data() + i * n, n * 4), 0)
          << kernels->name << " row " << i;
    }
  }
  force_block_kernels(std::nullopt);
}

// What AMX is asked before it is used, asked of all, and of products with a wrong element or a swapped pair.
TEST(BlockKernels, ExactProductsAreToldFromWrongOnes) {
  for (const BlockKernels* kernels : usable_block_kernels())
    EXPECT_TRUE(multiplies_exactly(*kernels)) << kernels->name;
  BlockKernels emulated = kPortableBlockKernels, wrong = emulated;
  emulated.multiply_bf16 = [](const uint16_t* a, int64_t lda, const uint16_t* panels, int64_t m, int64_t n,
                              int64_t k, float* c, int64_t ldc, bool add) {
    TileProduct<EmulatedTiles>::multiply(a, lda, panels, m, n, k, c, ldc, add);
  };
  EXPECT_TRUE(multiplies_exactly(emulated));
  wrong.multiply_bf16 = [](const uint16_t* a, int64_t lda, const uint16_t* panels, int64_t m, int64_t n,
                           int64_t k, float* c, int64_t ldc, bool add) {
    kPortableBlockKernels.multiply_bf16(a, lda, panels, m, n, k, c, ldc, add);
    c[(m - 1) * ldc + n - 1] += 1;
  };
  EXPECT_FALSE(multiplies_exactly(wrong));
  wrong.multiply_bf16 = [](const uint16_t* a, int64_t lda, const uint16_t* panels, int64_t m, int64_t n,
                           int64_t k, float* c, int64_t ldc, bool add) {
    kPortableBlockKernels.multiply_bf16(a + 1, lda, panels, m - 1, n, k, c, ldc, add);
  };
  EXPECT_FALSE(multiplies_exactly(wrong));
}

TEST(BlockKernels, AreChosenByName) {
  EXPECT_STREQ(usable_block_kernels().back()->name, "portable");
  for (const Kernels* kernels : usable_block_kernels()) {
    force_block_kernels(kernels->name);
    EXPECT_STREQ(block_kernels().name, kernels->name);
  }
  force_block_kernels(std::nullopt);
  EXPECT_THROW(force_block_kernels("avx1024"), Error);
  bool amx = false;
  for (const Kernels* kernels : usable_block_kernels()) amx = amx || std::string(kernels->name) == "amx";
  if (!amx) {
    EXPECT_THROW(force_block_kernels("amx"), Error) << "this CPU has none";
  }
}

TEST(BlockKernels, MultiplyOnlyInsideAScope) {
  float x = 1;
  EXPECT_THROW(block_kernels().multiply_fp32(&x, 1, &x, 0, 0, 0, &x, 1, false), Error);
  const BlockScope scope;
  { const BlockScope inner; }
  EXPECT_NO_THROW(scope->multiply_fp32(&x, 1, &x, 0, 0, 0, &x, 1, false));
  EXPECT_THROW(force_block_kernels("portable"), Error);
}

}  // namespace
}  // namespace longhaul::kernels::block_test
