// Warp-wide instructions of the kernels: matrix products, loads of fragments from shared tiles, asynchronous
// copies, shuffles. On the device each is one PTX instruction (sm_80 and later); emulated, the lanes of a
// warp meet and the layouts of fragments.h are applied. All 32 lanes must call together.
#pragma once

#include "kernels/cuda/device.h"

namespace longhaul::kernels::cuda {

struct FragmentA {
  uint32_t reg[4];
};
struct FragmentB {
  uint32_t reg[2];
};

// c[16×8] += a[16×16] · b[16×8]
LONGHAUL_DEVICE void multiply_add(float (&c)[4], const FragmentA& a, const FragmentB& b) {
#if defined(__CUDA_ARCH__)
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a.reg[0]), "r"(a.reg[1]), "r"(a.reg[2]), "r"(a.reg[3]), "r"(b.reg[0]), "r"(b.reg[1]));
#elif !defined(__CUDACC__)
  emulation::multiply_add(c, a.reg, b.reg);
#endif
}

// Four 8×8 matrices of bf16; lane i points at the row i % 8 of matrix i / 8.
template <bool kTransposed>
LONGHAUL_DEVICE void load_matrices(uint32_t (&reg)[4], const Bf16* row) {
#if defined(__CUDA_ARCH__)
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(reg[0]), "=r"(reg[1]), "=r"(reg[2]), "=r"(reg[3])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(reg[0]), "=r"(reg[1]), "=r"(reg[2]), "=r"(reg[3])
                 : "r"(address)
                 : "memory");
  }
#elif !defined(__CUDACC__)
  emulation::load_matrices(reg, row, kTransposed);
#endif
}

LONGHAUL_DEVICE float shuffle_xor(float x, int mask) {
#if defined(__CUDA_ARCH__)
  return __shfl_xor_sync(0xffffffffu, x, mask);
#elif !defined(__CUDACC__)
  return emulation::shuffle(x, static_cast<int>(threadIdx.x % kWarp) ^ mask);
#else
  return x;
#endif
}
LONGHAUL_DEVICE float shuffle(float x, int lane) {
#if defined(__CUDA_ARCH__)
  return __shfl_sync(0xffffffffu, x, lane);
#elif !defined(__CUDACC__)
  return emulation::shuffle(x, lane);
#else
  return x;
#endif
}
LONGHAUL_DEVICE uint32_t ballot(bool x) {
#if defined(__CUDA_ARCH__)
  return __ballot_sync(0xffffffffu, x);
#elif !defined(__CUDACC__)
  return emulation::ballot(x);
#else
  return x;
#endif
}
LONGHAUL_DEVICE void synchronize_warp() {
#if defined(__CUDA_ARCH__)
  __syncwarp();
#elif !defined(__CUDACC__)
  emulation::ballot(true);
#endif
}
LONGHAUL_DEVICE int lane_index() { return static_cast<int>(threadIdx.x) % kWarp; }
LONGHAUL_DEVICE int warp_index() { return static_cast<int>(threadIdx.x) / kWarp; }

LONGHAUL_DEVICE float warp_sum(float x) {
  for (int mask = 16; mask > 0; mask /= 2) x += shuffle_xor(x, mask);
  return x;
}
LONGHAUL_DEVICE float warp_largest(float x) {
  for (int mask = 16; mask > 0; mask /= 2) x = fmaxf(x, shuffle_xor(x, mask));
  return x;
}
// The sum over this lane and those before it.
LONGHAUL_DEVICE float warp_inclusive_sum(float x) {
  const int lane = lane_index();
  for (int step = 1; step < kWarp; step *= 2) {
    const float before = shuffle(x, lane - step);
    if (lane >= step) x += before;
  }
  return x;
}

// The sum over a block; `scratch` holds a float per warp. Ends in a barrier; every thread gets the sum.
LONGHAUL_DEVICE float block_sum(float x, float* scratch) {
  x = warp_sum(x);
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  if (threadIdx.x % kWarp == 0) scratch[threadIdx.x / kWarp] = x;
  __syncthreads();
  float sum = 0;
  for (int w = 0; w < warps; ++w) sum += scratch[w];
  __syncthreads();
  return sum;
}
LONGHAUL_DEVICE float block_largest(float x, float* scratch) {
  x = warp_largest(x);
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  if (threadIdx.x % kWarp == 0) scratch[threadIdx.x / kWarp] = x;
  __syncthreads();
  float largest = scratch[0];
  for (int w = 1; w < warps; ++w) largest = fmaxf(largest, scratch[w]);
  __syncthreads();
  return largest;
}

// Copies 16 bytes to shared memory in the background; only the first `bytes` are read, the rest becomes zero.
LONGHAUL_DEVICE void copy_async(void* shared, const void* global, int bytes) {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(shared))),
               "l"(global), "r"(bytes)
               : "memory");
#elif !defined(__CUDACC__)
  emulation::copy_async(shared, global, bytes);
#endif
}
LONGHAUL_DEVICE void end_copy_group() {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.commit_group;" ::: "memory");
#elif !defined(__CUDACC__)
  emulation::end_copy_group();
#endif
}
template <int kPending>  // waits until at most the newest kPending groups of this thread are under way
LONGHAUL_DEVICE void wait_for_copies() {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#elif !defined(__CUDACC__)
  emulation::wait_for_copies(kPending);
#endif
}

// A tile in shared memory: rows of kWidth bf16, permuted as tile_offset says.
template <int kWidth>
struct Tile {
  Bf16* data;
  LONGHAUL_DEVICE Bf16* at(int row, int col) const { return data + tile_offset(row, col, kWidth); }
};

LONGHAUL_DEVICE bool is_aligned(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
}

// Fragments at corner (row, col) of the operand's tile. A from [m][k]; transposed from [k][m], still at (k,
// m) of the tile.
template <int kWidth>
LONGHAUL_DEVICE FragmentA load_a(Tile<kWidth> tile, int m, int k) {
  const Place place = a_address(lane_index());
  FragmentA a;
  load_matrices<false>(a.reg, tile.at(m + place.row, k + place.col));
  return a;
}
template <int kWidth>
LONGHAUL_DEVICE FragmentA load_a_transposed(Tile<kWidth> tile, int k, int m) {
  const Place place = a_address_transposed(lane_index());
  FragmentA a;
  load_matrices<true>(a.reg, tile.at(k + place.row, m + place.col));
  return a;
}
// Two neighbouring fragments B, columns n … n+7 and n+8 … n+15; from a tile [n][k], or [k][n].
template <int kWidth>
LONGHAUL_DEVICE void load_b(FragmentB (&b)[2], Tile<kWidth> tile, int n, int k) {
  const Place place = b_address(lane_index());
  uint32_t reg[4];
  load_matrices<false>(reg, tile.at(n + place.row, k + place.col));
  b[0] = {{reg[0], reg[1]}};
  b[1] = {{reg[2], reg[3]}};
}
template <int kWidth>
LONGHAUL_DEVICE void load_b_transposed(FragmentB (&b)[2], Tile<kWidth> tile, int k, int n) {
  const Place place = b_address_transposed(lane_index());
  uint32_t reg[4];
  load_matrices<true>(reg, tile.at(k + place.row, n + place.col));
  b[0] = {{reg[0], reg[1]}};
  b[1] = {{reg[2], reg[3]}};
}

// Sixteen columns of accumulators, two fragments C side by side, rounded to the fragment A of those 16×16
// values.
LONGHAUL_DEVICE FragmentA as_a(const float (&left)[4], const float (&right)[4]) {
  return {
      {pack(left[0], left[1]), pack(left[2], left[3]), pack(right[0], right[1]), pack(right[2], right[3])}};
}

// Fills a tile of kRows × kWidth from rows in global memory, row i at `first + i · stride`; rows from `rows`
// on and columns from `cols` on are zero. `threads` threads of the block share the work. Aligned (16 bytes,
// cols a multiple of 8): in the background, part of the next copy group; otherwise at once.
template <int kRows, int kWidth>
LONGHAUL_DEVICE void load_tile(Tile<kWidth> tile, const Bf16* first, int64_t stride, int rows, int cols,
                               bool aligned) {
  constexpr int kUnits = kWidth / kUnit;
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kUnits; i += static_cast<int>(blockDim.x)) {
    const int row = i / kUnits, col = i % kUnits * kUnit;
    const bool inside = row < rows && col < cols;
    const Bf16* from = inside ? first + row * stride + col : first;
    if (aligned) {
      copy_async(tile.at(row, col), from, inside ? 16 : 0);
    } else {
      Bf16* to = tile.at(row, col);
      for (int j = 0; j < kUnit; ++j) to[j] = inside && col + j < cols ? from[j] : Bf16{0};
    }
  }
}

// Sixteen rows of accumulators to global memory in bf16, by way of rows row0 … of `own`, which no other warp
// may be using, so that stores are 16 bytes wide. Row i, counted in the tile, goes to row_pointer(i); rows
// from `rows` on and columns from `cols` on are dropped.
template <int kWidth, int kColumns, class RowPointer>
LONGHAUL_DEVICE void store_rows(Tile<kWidth> own, int row0, int col0, const float (&x)[kColumns][4], int rows,
                                int cols, const RowPointer& row_pointer) {
  synchronize_warp();
  LONGHAUL_UNROLL
  for (int column = 0; column < kColumns; ++column) {
    LONGHAUL_UNROLL
    for (int half = 0; half < 2; ++half) {
      const Place place = c_place(lane_index(), 2 * half);
      *reinterpret_cast<uint32_t*>(own.at(row0 + place.row, col0 + column * 8 + place.col)) =
          pack(x[column][2 * half], x[column][2 * half + 1]);
    }
  }
  synchronize_warp();
  for (int i = lane_index(); i < 16 * kColumns; i += kWarp) {
    const int row = row0 + i / kColumns, col = i % kColumns * kUnit, left = cols - col;
    if (row >= rows || left <= 0) continue;
    const Bf16* from = own.at(row, col0 + col);
    Bf16* to = row_pointer(row) + col;
    if (left >= kUnit && is_aligned(to)) {
      *reinterpret_cast<Unit*>(to) = *reinterpret_cast<const Unit*>(from);
    } else {
      for (int j = 0; j < kUnit && j < left; ++j) to[j] = from[j];
    }
  }
}

}  // namespace longhaul::kernels::cuda
