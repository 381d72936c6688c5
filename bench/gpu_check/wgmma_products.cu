#include "wgmma_products.h"

#include "kernels/cuda/barriers.h"

namespace longhaul::gpu_check {
namespace {

using namespace kernels::cuda;

template <int kRows, int kWidth>
LONGHAUL_DEVICE void fill(Panels<kRows, kWidth> panels, const Bf16* from) {
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kWidth / kUnit; i += kGroup) {
    const int row = i / (kWidth / kUnit), col = i % (kWidth / kUnit) * kUnit;
    copy_async(panels.at(row, col), from + row * kWidth + col, 16);
  }
}

template <int kColumns, bool kByRows>
LONGHAUL_KERNEL(kGroup)
product_kernel(const Bf16* a, const Bf16* b, float* out) {
  LONGHAUL_SHARED(raw);
  using Left = Panels<kProductRows, kProductDepth>;
  const Left left{reinterpret_cast<Bf16*>(aligned_to_pattern(raw))};
  const Panels<kByRows ? kColumns : kProductDepth, kByRows ? kProductDepth : kColumns> right{left.data + kProductRows * kProductDepth};
  fill(left, a);
  fill(right, b);
  end_copy_group();
  wait_for_copies<0>();
  fence_async_proxy();
  __syncthreads();
  float c[kColumns / 8][4] = {};
  FragmentA rows[kProductDepth / 16];
  LONGHAUL_UNROLL
  for (int k = 0; k < kProductDepth; k += 16) rows[k / 16] = load_a(left.panel(0), warp_index() * 16, k);
  hold(c);
  hold(rows);
  wgmma_fence();
  LONGHAUL_UNROLL
  for (int k = 0; k < kProductDepth; k += 16) {
    if constexpr (!kByRows) {
      group_multiply_add(c, rows[k / 16], right.of_columns(k));
    } else if (k == 0) {
      group_multiply<false>(c, left.of_rows(0, k), right.of_rows(0, k));
    } else {
      group_multiply<true>(c, left.of_rows(0, k), right.of_rows(0, k));
    }
  }
  wgmma_commit();
  wgmma_wait<0>();
  hold(c);
  LONGHAUL_UNROLL
  for (int i = 0; i < kColumns / 2; ++i) {
    const Place at = group_c_place(static_cast<int>(threadIdx.x), i);
    out[at.row * kColumns + at.col] = c[i / 4][i % 4];
  }
}

// Two warp groups a block, one block a multiprocessor, as the kernels of attention have it.
constexpr int kRateGroups = 2, kRateRounds = 4096, kRateDepth = 64, kRateColumns = 128;
constexpr int kRateBytes = kPatternBytes + kRateDepth * kRateColumns * 2;

LONGHAUL_KERNEL_OF_ONE(kRateGroups* kGroup) rate_kernel(float* out) {
  LONGHAUL_SHARED(raw);
  const Panels<kRateDepth, kRateColumns> right{reinterpret_cast<Bf16*>(aligned_to_pattern(raw))};
  for (int i = static_cast<int>(threadIdx.x); i < kRateDepth * kRateColumns; i += kRateGroups * kGroup)
    right.data[i] = from_float<Bf16>(static_cast<float>(i * 7 % 13 - 6));
  fence_async_proxy();
  __syncthreads();
  float c[kRateColumns / 8][4] = {};
  FragmentA a[kRateDepth / 16];
  LONGHAUL_UNROLL
  for (int k = 0; k < kRateDepth / 16; ++k) {
    LONGHAUL_UNROLL
    for (int i = 0; i < 4; ++i) a[k].reg[i] = pack(static_cast<float>(threadIdx.x % 5) - 2.f, static_cast<float>(k + i) - 3.f);
  }
  hold(c);
  hold(a);
  LONGHAUL_ROLL
  for (int round = 0; round < kRateRounds; ++round) {
    wgmma_fence();
    LONGHAUL_UNROLL
    for (int k = 0; k < kRateDepth / 16; ++k) group_multiply_add(c, a[k], right.of_columns(k * 16));
    wgmma_commit();
  }
  wgmma_wait<0>();
  hold(c);
  hold(a);
  out[blockIdx.x * kRateGroups * kGroup + threadIdx.x] = c[0][0] + c[kRateColumns / 8 - 1][3];
}

}  // namespace

std::string wgmma_refusal() { return refuse_wgmma(); }

void wgmma_product(bool by_rows, int columns, const Bf16* a, const Bf16* b, float* out, Stream stream) {
  const int bytes = kPatternBytes + (kProductRows + columns) * kProductDepth * 2;
  const auto start = [&](void (*kernel)(const Bf16*, const Bf16*, float*)) {
    launch("wgmma", kernel, 1, kGroup, bytes, stream, a, b, out);
  };
  if (columns == 64) {
    start(by_rows ? product_kernel<64, true> : product_kernel<64, false>);
  } else {
    start(by_rows ? product_kernel<128, true> : product_kernel<128, false>);
  }
}

double wgmma_rate_flops(int multiprocessors) { return 2.0 * 64 * kRateColumns * kRateDepth * kRateRounds * kRateGroups * multiprocessors; }
void wgmma_rate(int multiprocessors, float* out, Stream stream) {
  launch("wgmma_rate", rate_kernel, multiprocessors, kRateGroups * kGroup, kRateBytes, stream, out);
}

}  // namespace longhaul::gpu_check
