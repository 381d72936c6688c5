#ifdef __aarch64__
#include <arm_neon.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "kernels/gemm/sets.h"
#include "kernels/vector/bf16.h"

LONGHAUL_BEGIN_TARGET("arch=armv8.2-a+bf16")
#include "kernels/gemm/packing.h"
#include "kernels/gemm/portable_set.h"
#include "kernels/gemm/vector_kernels.h"

namespace longhaul::kernels {
namespace {

struct NeonBf16 : Portable {
  // BFDOT: rounds both products of a pair and their sum, to odd
  static inline Real dot_pairs(Real sum, Pairs x, Pairs y) {
    return vbfdotq_f32(sum, std::bit_cast<bfloat16x8_t>(x), std::bit_cast<bfloat16x8_t>(y));
  }
};

}  // namespace

const BlockKernels kNeonBf16BlockKernels = {"neon_bf16",
                                            2,
                                            VectorSet::kBaseline,
                                            pack_bf16<NeonBf16>,
                                            pack_fp32<NeonBf16>,
                                            multiply<NeonBf16, PairStep>,
                                            multiply<NeonBf16, Fp32Step>,
                                            transpose<NeonBf16, uint16_t>,
                                            transpose<NeonBf16, float>,
                                            round_bf16<NeonBf16>,
                                            round_bf16_with_bias<NeonBf16>,
                                            nothing,
                                            nothing};

}  // namespace longhaul::kernels
LONGHAUL_END_TARGET
#endif
