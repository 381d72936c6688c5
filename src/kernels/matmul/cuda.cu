#include "kernels/matmul/cuda.h"

#include "kernels/cuda/mma.h"

namespace longhaul::kernels::cuda {
namespace {

constexpr int kThreads = 256, kWarpRows = 32, kWarpColumns = 64;  // 4 × 2 warps

struct Operands {
  Matmul p;
  bool a_aligned, b_aligned;
};

LONGHAUL_DEVICE MatmulBlock block_of(const Matmul& p) {
  const int64_t row_blocks = divide_up(p.m, kBlockRows), column_blocks = divide_up(p.n, kBlockColumns),
                index = blockIdx.x;
  switch (p.grouping) {
    case Matmul::Grouping::kRows:
      return row_grouped_block(index, column_blocks, p.offsets, p.groups);
    case Matmul::Grouping::kDepth:
      return depth_grouped_block(index, row_blocks, column_blocks, p.offsets);
    default:
      return {0, index / column_blocks * kBlockRows, index % column_blocks * kBlockColumns, 0, p.m};
  }
}

LONGHAUL_DEVICE int at_most(int64_t x, int limit) { return x < limit ? static_cast<int>(x) : limit; }

template <bool kATransposed, bool kBTransposed>
LONGHAUL_KERNEL(kThreads)
matmul_kernel(Operands in) {
  LONGHAUL_SHARED(shared);
  constexpr int kAWidth = kATransposed ? kBlockRows : kBlockDepth,
                kBWidth = kBTransposed ? kBlockDepth : kBlockColumns;
  const Matmul& p = in.p;
  const MatmulBlock block = block_of(p);
  if (block.group < 0) return;
  const bool by_rows = p.grouping == Matmul::Grouping::kRows,
             by_depth = p.grouping == Matmul::Grouping::kDepth;
  const int64_t rows = by_rows ? block.last - block.first : p.m,
                depth = by_depth ? block.last - block.first : p.k;
  const int64_t row_base = by_rows ? block.first : 0, depth_base = by_depth ? block.first : 0;
  const Bf16* b = p.b + (by_rows ? block.group * p.b_group : 0);
  const int m_left = at_most(rows - block.row, kBlockRows),
            n_left = at_most(p.n - block.column, kBlockColumns);
  const int steps = static_cast<int>(divide_up(depth, kBlockDepth));
  Bf16* memory = reinterpret_cast<Bf16*>(shared);
  const auto a_tile = [&](int step) {
    return Tile<kAWidth>{memory + step % kMatmulStages * kBlockRows * kBlockDepth};
  };
  const auto b_tile = [&](int step) {
    return Tile<kBWidth>{memory +
                         (kMatmulStages * kBlockRows + step % kMatmulStages * kBlockColumns) * kBlockDepth};
  };
  const auto load = [&](int step) {
    if (step < steps) {
      const int64_t k = static_cast<int64_t>(step) * kBlockDepth;
      const int k_left = at_most(depth - k, kBlockDepth);
      if constexpr (kATransposed) {
        load_tile<kBlockDepth>(a_tile(step), p.a + (depth_base + k) * p.a_stride + row_base + block.row,
                               p.a_stride, k_left, m_left, in.a_aligned);
      } else {
        load_tile<kBlockRows>(a_tile(step), p.a + (row_base + block.row) * p.a_stride + k, p.a_stride, m_left,
                              k_left, in.a_aligned);
      }
      if constexpr (kBTransposed) {
        load_tile<kBlockColumns>(b_tile(step), b + block.column * p.b_stride + k, p.b_stride, n_left, k_left,
                                 in.b_aligned);
      } else {
        load_tile<kBlockDepth>(b_tile(step), b + (depth_base + k) * p.b_stride + block.column, p.b_stride,
                               k_left, n_left, in.b_aligned);
      }
    }
    end_copy_group();
  };
  const int row0 = warp_index() / 2 * kWarpRows, column0 = warp_index() % 2 * kWarpColumns;
  float c[kWarpRows / 16][kWarpColumns / 8][4] = {};
  for (int step = 0; step < kMatmulStages - 1; ++step) load(step);
  for (int step = 0; step < steps; ++step) {
    wait_for_copies<kMatmulStages - 2>();
    __syncthreads();  // the tile of this step has landed, and that of the one before has been read
    load(step + kMatmulStages - 1);
    LONGHAUL_UNROLL
    for (int k = 0; k < kBlockDepth; k += 16) {
      FragmentA left[kWarpRows / 16];
      LONGHAUL_UNROLL
      for (int i = 0; i < kWarpRows / 16; ++i) {
        if constexpr (kATransposed) {
          left[i] = load_a_transposed(a_tile(step), k, row0 + i * 16);
        } else {
          left[i] = load_a(a_tile(step), row0 + i * 16, k);
        }
      }
      LONGHAUL_UNROLL
      for (int j = 0; j < kWarpColumns / 8; j += 2) {
        FragmentB right[2];
        if constexpr (kBTransposed) {
          load_b(right, b_tile(step), column0 + j * 8, k);
        } else {
          load_b_transposed(right, b_tile(step), k, column0 + j * 8);
        }
        LONGHAUL_UNROLL
        for (int i = 0; i < kWarpRows / 16; ++i) {
          multiply_add(c[i][j], left[i], right[0]);
          multiply_add(c[i][j + 1], left[i], right[1]);
        }
      }
    }
  }
  wait_for_copies<0>();
  const int64_t c_base =
      (by_depth ? block.group * p.c_group : 0) + (row_base + block.row) * p.c_stride + block.column;
  LONGHAUL_UNROLL
  for (int i = 0; i < kWarpRows / 16; ++i) {
    LONGHAUL_UNROLL
    for (int j = 0; j < kWarpColumns / 8; ++j) {
      LONGHAUL_UNROLL
      for (int e = 0; e < 4; ++e) {
        const Place place = c_place(lane_index(), e);
        const int row = row0 + i * 16 + place.row, column = column0 + j * 8 + place.col;
        if (row >= m_left || column >= n_left) continue;
        const int64_t at = c_base + row * p.c_stride + column;
        if (p.c_fp32 == nullptr) {
          p.c[at] = from_float<Bf16>(c[i][j][e]);
        } else {
          p.c_fp32[at] = p.accumulate ? p.c_fp32[at] + c[i][j][e] : c[i][j][e];
        }
      }
    }
  }
}

constexpr int kRateRounds = 4096, kRateBlocks = 4, kRateThreads = 256, kRateChains = 8;

// Eight independent sums per warp: enough in flight to keep the tensor cores busy.
LONGHAUL_KERNEL(kRateThreads) rate_kernel(float* out) {
  float c[kRateChains][4] = {};
  const FragmentA a{{threadIdx.x, threadIdx.x + 1, threadIdx.x + 2, threadIdx.x + 3}};
  const FragmentB b{{threadIdx.x, threadIdx.x + 5}};
  LONGHAUL_ROLL
  for (int round = 0; round < kRateRounds; ++round) {
    LONGHAUL_UNROLL
    for (int chain = 0; chain < kRateChains; ++chain) multiply_add(c[chain], a, b);
  }
  float sum = 0;
  LONGHAUL_UNROLL
  for (int chain = 0; chain < kRateChains; ++chain) sum += c[chain][0] + c[chain][3];
  out[blockIdx.x * kRateThreads + threadIdx.x] = sum;
}

bool aligned(const Bf16* data, int64_t stride, int64_t cols, int64_t group) {
  return reinterpret_cast<uintptr_t>(data) % 16 == 0 && stride % kUnit == 0 && cols % kUnit == 0 &&
         group % kUnit == 0;
}

}  // namespace

double matrix_rate_flops(int multiprocessors) {
  return 2.0 * 16 * 8 * 16 * kRateRounds * kRateChains * (kRateThreads / kWarp) * kRateBlocks *
         multiprocessors;
}
void matrix_rate_kernel(int multiprocessors, float* out, Stream stream) {
  launch("matrix_rate", rate_kernel, static_cast<int64_t>(multiprocessors) * kRateBlocks, kRateThreads, 0,
         stream, out);
}

void matmul(const Matmul& p, Stream stream) {
  if (p.m == 0 || p.n == 0) return;
  const int64_t column_blocks = divide_up(p.n, kBlockColumns);
  const int64_t row_blocks =
      p.grouping == Matmul::Grouping::kRows ? largest_row_blocks(p.m, p.groups) : divide_up(p.m, kBlockRows);
  const int64_t blocks = row_blocks * column_blocks * (p.grouping == Matmul::Grouping::kDepth ? p.groups : 1);
  const Operands in{p, aligned(p.a, p.a_stride, p.a_transposed ? p.m : p.k, 0),
                    aligned(p.b, p.b_stride, p.b_transposed ? p.k : p.n, p.b_group)};
  const auto start = [&](void (*kernel)(Operands)) {
    launch("matmul", kernel, blocks, kThreads, kMatmulSharedBytes, stream, in);
  };
  if (p.a_transposed) {
    start(p.b_transposed ? matmul_kernel<true, true> : matmul_kernel<true, false>);
  } else {
    start(p.b_transposed ? matmul_kernel<false, true> : matmul_kernel<false, false>);
  }
}

}  // namespace longhaul::kernels::cuda
