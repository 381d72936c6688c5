#ifdef __x86_64__
#include "base/error.h"
#include "kernels/gemm/amx_kernel.h"
#include "kernels/gemm/sets.h"

namespace longhaul::kernels {
namespace {

// The tile instructions, as assembler: they need no compiler flag, and the register is part of the
// instruction.
struct AmxTiles {
  template <int T>
  static void zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(T));
  }
  template <int T>
  static void load(const void* from, int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(T) : "memory");
  }
  template <int T>
  static void load_past(const void* from, int64_t stride) {
    asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(T) : "memory");
  }
  template <int T>
  static void store(void* to, int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(T) : "memory");
  }
  template <int C, int A, int B>
  static void multiply_add() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
  }
};

// The operand of LDTILECFG: palette 1, all eight tiles 16 rows of 64 bytes.
struct TileConfiguration {
  uint8_t palette = 1, start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfiguration) == 64);

void enter() {
  static constexpr TileConfiguration kConfiguration;
  asm volatile("ldtilecfg %0" ::"m"(kConfiguration));
}
void leave() { asm volatile("tilerelease" ::); }

void multiply_bf16(const uint16_t* a, int64_t lda, const uint16_t* panels, int64_t m, int64_t n, int64_t k,
                   float* c, int64_t ldc, bool accumulate) {
  LONGHAUL_ASSERT(in_block_scope(), "no BlockScope is open");
  TileProduct<AmxTiles>::multiply(a, lda, panels, m, n, k, c, ldc, accumulate);
}

BlockKernels with_tiles() {
  BlockKernels kernels = kAvx512BlockKernels;
  kernels.name = "amx";
  kernels.depth = 32;
  kernels.vectors = VectorSet::kAvx512Bf16;
  kernels.multiply_bf16 = multiply_bf16;
  kernels.enter = enter;
  kernels.leave = leave;
  return kernels;
}

}  // namespace

const BlockKernels& amx_block_kernels() {
  static const BlockKernels kernels = with_tiles();
  return kernels;
}

}  // namespace longhaul::kernels
#endif
