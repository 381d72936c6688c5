// Products of a warp group on Hopper: wgmma.mma_async m64nNk16, bf16 × bf16 → fp32 (PTX ISA 9.0, section 9.7.15). sm_90a only: in code for
// other architectures these are empty and no kernel may get there (refuse_wgmma). Emulated by emulation_group.cpp.
//
// A warp group is 128 threads from a multiple of 128; all of them call together. Products are asynchronous: from wgmma_fence, issued
// after registers were touched, until wgmma_wait, nobody may touch the accumulators or an operand in registers. Shared memory that
// was written by copies is fenced first (fence_async_proxy in barriers.h).
//
// Operands lie in panels of 64 columns: rows of 128 bytes, their 16-byte units exclusive-ored with the row modulo 8, which is at once
// tile_offset(row, col, 64) and the 128-byte swizzle of the descriptor, provided that a panel begins at a multiple of 1,024 bytes.
#pragma once

#include "kernels/cuda/mma.h"

namespace longhaul::kernels::cuda {

constexpr int kGroup = 128;
constexpr int kPanelColumns = 64, kPanelRowBytes = 128;
constexpr int kPatternBytes = 8 * kPanelRowBytes;  // after which the swizzle begins anew

// Value `index` of a thread's accumulators: row and column of 64 × N ("Register Fragments", 9.7.15.5.1.1, matrix D).
LONGHAUL_HD Place group_c_place(int thread, int index) {
  const Place place = c_place(thread % kWarp, index % 4);
  return {thread / kWarp * 16 + place.row, index / 4 * 8 + place.col};
}

// "Matrix Descriptor Format" (9.7.15.5.1.2.2): 128-byte swizzle, base offset 0. Bytes; multiples of 16. K-major operands do not use `leading`.
LONGHAUL_HD uint64_t matrix_descriptor(uint32_t start, uint32_t leading, uint32_t stride) {
  const auto field = [](uint32_t bytes) { return static_cast<uint64_t>((bytes & 0x3ffffu) >> 4); };
  return field(start) | field(leading) << 16 | field(stride) << 32 | uint64_t{1} << 62;
}

LONGHAUL_DEVICE uint32_t shared_address(const void* at) {
#if defined(__CUDA_ARCH__)
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
#elif !defined(__CUDACC__)
  return emulation::shared_address(at);
#else
  return 0;
#endif
}
// The first multiple of kPatternBytes at or after `shared`; less than kPatternBytes further on.
LONGHAUL_DEVICE unsigned char* aligned_to_pattern(unsigned char* shared) {
  return shared + (kPatternBytes - shared_address(shared) % kPatternBytes) % kPatternBytes;
}

// kRows × kWidth values in panels.
template <int kRows, int kWidth>
struct Panels {
  static_assert(kRows % 8 == 0 && kWidth % kPanelColumns == 0);
  static constexpr int kBytes = kRows * kWidth * 2, kPanelBytes = kRows * kPanelRowBytes;
  Bf16* data;

  LONGHAUL_DEVICE Tile<kPanelColumns> panel(int col) const { return {data + col / kPanelColumns * kRows * kPanelColumns}; }
  LONGHAUL_DEVICE Bf16* at(int row, int col) const { return panel(col).at(row, col % kPanelColumns); }
  // An operand whose rows are M or N, from `row` (a multiple of 8), and whose columns k … k + 15 are K.
  LONGHAUL_DEVICE uint64_t of_rows(int row, int k) const {
    const uint32_t start = shared_address(panel(k).data + row * kPanelColumns) + static_cast<uint32_t>(k % kPanelColumns) * 2;
    return matrix_descriptor(start, 16, kPatternBytes);
  }
  // An operand whose columns, all of them, are N, and whose rows k … k + 15 are K.
  LONGHAUL_DEVICE uint64_t of_columns(int k) const {
    return matrix_descriptor(shared_address(data + k * kPanelColumns), kPanelBytes, kPatternBytes);
  }
};

// Registers are what they are here: reads and writes of them stay on their side of a fence or a wait.
template <int kColumns>
LONGHAUL_DEVICE void hold(float (&c)[kColumns][4]) {
#if defined(__CUDA_ARCH__)
  LONGHAUL_UNROLL
  for (int i = 0; i < kColumns; ++i) asm volatile("" : "+f"(c[i][0]), "+f"(c[i][1]), "+f"(c[i][2]), "+f"(c[i][3])::"memory");
#else
  static_cast<void>(c);
#endif
}
template <int kCount>
LONGHAUL_DEVICE void hold(FragmentA (&a)[kCount]) {
#if defined(__CUDA_ARCH__)
  LONGHAUL_UNROLL
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(a[i].reg[0]), "+r"(a[i].reg[1]), "+r"(a[i].reg[2]), "+r"(a[i].reg[3])::"memory");
#else
  static_cast<void>(a);
#endif
}

// The same pointer, of which the compiler knows nothing: what is computed from it in a loop stays there and takes no registers outside.
LONGHAUL_DEVICE unsigned char* unknown(unsigned char* pointer) {
#if defined(__CUDA_ARCH__)
  asm volatile("" : "+l"(pointer));
#endif
  return pointer;
}

LONGHAUL_DEVICE void wgmma_fence() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#elif !defined(__CUDACC__)
  emulation::fence_group();
#endif
}
LONGHAUL_DEVICE void wgmma_commit() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#elif !defined(__CUDACC__)
  emulation::commit_group();
#endif
}
template <int kPending>  // waits until at most the newest kPending committed groups are under way
LONGHAUL_DEVICE void wgmma_wait() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
#elif !defined(__CUDACC__)
  emulation::wait_for_group(kPending);
#endif
}

#define LONGHAUL_C4(i) "+f"(c[i][0]), "+f"(c[i][1]), "+f"(c[i][2]), "+f"(c[i][3])
#define LONGHAUL_C32(i)                                                                                                                   \
  LONGHAUL_C4(i), LONGHAUL_C4(i + 1), LONGHAUL_C4(i + 2), LONGHAUL_C4(i + 3), LONGHAUL_C4(i + 4), LONGHAUL_C4(i + 5), LONGHAUL_C4(i + 6), \
      LONGHAUL_C4(i + 7)

// c[64 × N] = or += a[64 × 16] · b[N × 16]ᵀ, both of_rows: N is 64 or 128.
template <bool kAdd>
LONGHAUL_DEVICE void group_multiply(float (&c)[8][4], uint64_t a, uint64_t b) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile(
      "{.reg .pred add; setp.ne.b32 add, %34, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}"
      ", %32, %33, add, 1, 1, 0, 0;}"
      : LONGHAUL_C32(0)
      : "l"(a), "l"(b), "n"(static_cast<int>(kAdd)));
#elif !defined(__CUDACC__)
  emulation::multiply_group({.c = &c[0][0], .columns = 64, .add = kAdd, .a_registers = nullptr, .a = a, .b = b, .b_n_major = false});
#endif
}
template <bool kAdd>
LONGHAUL_DEVICE void group_multiply(float (&c)[16][4], uint64_t a, uint64_t b) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile(
      "{.reg .pred add; setp.ne.b32 add, %66, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,"
      "%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,"
      "%60,%61,%62,%63}"
      ", %64, %65, add, 1, 1, 0, 0;}"
      : LONGHAUL_C32(0), LONGHAUL_C32(8)
      : "l"(a), "l"(b), "n"(static_cast<int>(kAdd)));
#elif !defined(__CUDACC__)
  emulation::multiply_group({.c = &c[0][0], .columns = 128, .add = kAdd, .a_registers = nullptr, .a = a, .b = b, .b_n_major = false});
#endif
}

// c[64 × N] += a[64 × 16] · b[16 × N], b of_columns: N is 64 or 128.
LONGHAUL_DEVICE void group_multiply_add(float (&c)[8][4], const FragmentA& a, uint64_t b) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile(
      "{.reg .pred add; setp.ne.b32 add, 1, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,"
      "%31}"
      ", {%32,%33,%34,%35}, %36, add, 1, 1, 1;}"
      : LONGHAUL_C32(0)
      : "r"(a.reg[0]), "r"(a.reg[1]), "r"(a.reg[2]), "r"(a.reg[3]), "l"(b));
#elif !defined(__CUDACC__)
  emulation::multiply_group({.c = &c[0][0], .columns = 64, .add = true, .a_registers = a.reg, .a = 0, .b = b, .b_n_major = true});
#endif
}
LONGHAUL_DEVICE void group_multiply_add(float (&c)[16][4], const FragmentA& a, uint64_t b) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile(
      "{.reg .pred add; setp.ne.b32 add, 1, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,"
      "%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,"
      "%60,%61,%62,%63}"
      ", {%64,%65,%66,%67}, %68, add, 1, 1, 1;}"
      : LONGHAUL_C32(0), LONGHAUL_C32(8)
      : "r"(a.reg[0]), "r"(a.reg[1]), "r"(a.reg[2]), "r"(a.reg[3]), "l"(b));
#elif !defined(__CUDACC__)
  emulation::multiply_group({.c = &c[0][0], .columns = 128, .add = true, .a_registers = a.reg, .a = 0, .b = b, .b_n_major = true});
#endif
}

#undef LONGHAUL_C4
#undef LONGHAUL_C32

// Why kernels with wgmma cannot run on the current device; empty: they can. Their code is for compute capability 9.0 and nothing else. For .cu
// files: it is nvcc, or the emulation, that knows.
static inline const char* refuse_wgmma() {
#if defined(__CUDACC__)
  int device = 0, major = 0, minor = 0;
  if (cudaGetDevice(&device) != cudaSuccess || cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess) {
    return "the device does not say what it is";
  }
  if (major != 9 || minor != 0) {
    static const std::string reason =
        "wgmma is for compute capability 9.0, and this device has " + std::to_string(major) + "." + std::to_string(minor);
    return reason.c_str();
  }
#endif
  return "";
}

}  // namespace longhaul::kernels::cuda
