// Where products of warp groups find their operands: descriptors as the emulation reads them against the layouts of the PTX ISA, and the
// panels that kernels fill against their descriptors, value by value.
#include <gtest/gtest.h>

#include <set>

#include "kernels/cuda/wgmma.h"

namespace longhaul::kernels::cuda {
namespace {

// PTX ISA 9.0, 9.7.15.5.1.2: the canonical layouts, written in units of 16 bytes (8 bf16) as the manual draws them. A pattern is 8 rows of
// `bytes`; in it, unit j of row r stands at place j ^ (r · bytes / 128) modulo the units of a row.
TEST(CudaEmulatedWgmma, EmulatedDescriptorsAreThoseOfThePtxManual) {
  for (int mode = 1; mode <= 3; ++mode) {
    const int units = 16 >> mode, pattern = 8 * units;
    const auto place = [&](int row, int unit) { return row * units + (unit ^ (row * units / 8 % units)); };
    const uint64_t start = 3 * 1024, leading = 5 * 1024, stride = 2 * 1024;
    const uint64_t descriptor = start >> 4 | (leading >> 4) << 16 | (stride >> 4) << 32 | static_cast<uint64_t>(mode) << 62;
    for (int row = 0; row < 128; ++row) {
      for (int k = 0; k < 16; ++k) {
        const auto at = [&](int64_t unit, int value) { return static_cast<int64_t>(start) + unit * 16 + value * 2; };
        const int64_t k_major = at(row / 8 * (2 * 1024 / 16) + place(row % 8, k / 8), k % 8);
        EXPECT_EQ(emulation::matrix_address(descriptor, true, row, k), k_major);
        const int unit = row / 8;
        const int64_t mn_major = at(unit / units * (5 * 1024 / 16) + k / 8 * (2 * 1024 / 16) + place(k % 8, unit % units), row % 8);
        EXPECT_EQ(emulation::matrix_address(descriptor, false, row, k), mn_major);
      }
    }
    EXPECT_LE(pattern * 16, 1024);
  }
  EXPECT_LT(emulation::matrix_address(3 * 64, true, 0, 0), 0);                                 // no swizzle: not emulated
  EXPECT_LT(emulation::matrix_address(uint64_t{1} << 62 | uint64_t{1} << 49, true, 0, 0), 0);  // nor a base offset
}

// Every value of the panels, where copies put it, is where the product finds it: as an operand of rows, at each k, and of columns.
template <int kRows, int kWidth>
void expect_panels_and_descriptors_agree(int) {
  LONGHAUL_SHARED(shared);
  const Panels<kRows, kWidth> panels{reinterpret_cast<Bf16*>(aligned_to_pattern(shared))};
  EXPECT_EQ(shared_address(panels.data) % 1024, 0u);
  EXPECT_LT(reinterpret_cast<unsigned char*>(panels.data) - shared, 1024);
  if (threadIdx.x != 0) return;
  std::set<const Bf16*> seen;
  for (int row = 0; row < kRows; ++row) {
    for (int col = 0; col < kWidth; ++col) {
      const Bf16* at = panels.at(row, col);
      seen.insert(at);
      EXPECT_TRUE(at >= panels.data && at < panels.data + kRows * kWidth);
      const auto address = static_cast<int64_t>(shared_address(at));
      EXPECT_EQ(emulation::matrix_address(panels.of_rows(row / 8 * 8, col / 16 * 16), true, row % 8, col % 16), address);
      EXPECT_EQ(emulation::matrix_address(panels.of_rows(row / 64 * 64, col / 16 * 16), true, row % 64, col % 16), address);
      EXPECT_EQ(emulation::matrix_address(panels.of_columns(row / 16 * 16), false, col, row % 16), address);
    }
  }
  EXPECT_EQ(seen.size(), static_cast<size_t>(kRows * kWidth));
}
TEST(CudaEmulatedWgmma, PanelsAreWhatTheirDescriptorsSay) {
  launch("panels", expect_panels_and_descriptors_agree<128, 64>, 1, 32, 1024 + 128 * 64 * 2, nullptr, 0);
  launch("panels", expect_panels_and_descriptors_agree<128, 128>, 1, 32, 1024 + 128 * 128 * 2, nullptr, 0);
}

}  // namespace
}  // namespace longhaul::kernels::cuda
