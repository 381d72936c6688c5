// Index arithmetic of the tensor-core kernels, for the device and for the host, where tests walk all of it.
//
// mma.m16n8k16 (bf16 × bf16 → fp32) spreads its matrices over the 32 lanes of a warp in fixed layouts: A
// 16×16 in 4 registers of two values, B 16×8 in 2, C 16×8 in 4 fp32 (PTX ISA, "Matrix Fragments for
// mma.m16n8k16 with floating point type"). Tiles in shared memory hold rows of 32, 64, 128 or 256 bf16; their
// 16-byte units are permuted within a row so that the eight rows of one ldmatrix step lie in eight different
// bank groups.
#pragma once

#if defined(__CUDACC__)
#define LONGHAUL_HD __host__ __device__ __forceinline__
#else
#define LONGHAUL_HD inline
#endif

#include <cstdint>

namespace longhaul::kernels::cuda {

struct Place {
  int row, col;
};

constexpr int kWarp = 32;
constexpr int kUnit = 8;  // bf16 values in 16 bytes

// Value `half` (0, 1) of register `reg` of `lane`.
LONGHAUL_HD Place a_place(int lane, int reg, int half) {
  return {lane / 4 + 8 * (reg & 1), 2 * (lane % 4) + half + 8 * (reg >> 1)};
}
LONGHAUL_HD Place b_place(int lane, int reg, int half) { return {2 * (lane % 4) + half + 8 * reg, lane / 4}; }
LONGHAUL_HD Place c_place(int lane, int index) {
  return {lane / 4 + 8 * (index >> 1), 2 * (lane % 4) + (index & 1)};
}

// The address that `lane` passes to ldmatrix.x4 so that the four 8×8 matrices arrive as the registers of a
// fragment, relative to its corner.
// A stored [m][k]
LONGHAUL_HD Place a_address(int lane) { return {(lane / 8 & 1) * 8 + lane % 8, (lane / 16) * 8}; }
// A stored [k][m], .trans
LONGHAUL_HD Place a_address_transposed(int lane) { return {(lane / 16) * 8 + lane % 8, (lane / 8 & 1) * 8}; }
// two B's stored [n][k]
LONGHAUL_HD Place b_address(int lane) { return {(lane / 16) * 8 + lane % 8, (lane / 8 & 1) * 8}; }
LONGHAUL_HD Place b_address_transposed(int lane) {
  return {(lane / 8 & 1) * 8 + lane % 8, (lane / 16) * 8};
}  // two B's stored [k][n], .trans

// Offset, in values, of (row, col) in a shared tile with rows of `width` values. Values of one 16-byte unit
// stay together.
LONGHAUL_HD int tile_offset(int row, int col, int width) {
  const int unit = col / kUnit;
  const int moved = width >= 64 ? unit ^ (row & 7) : unit ^ ((row >> 1) & 3);
  return row * width + moved * kUnit + col % kUnit;
}

LONGHAUL_HD int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
LONGHAUL_HD int64_t round_up(int64_t a, int64_t b) { return divide_up(a, b) * b; }

}  // namespace longhaul::kernels::cuda
