#ifdef __x86_64__
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "kernels/gemm/sets.h"
#include "kernels/vector/bf16.h"

LONGHAUL_BEGIN_TARGET("avx512f,avx512bw,avx512bf16")
#include "kernels/gemm/avx512_set.h"
#include "kernels/gemm/packing.h"
#include "kernels/gemm/vector_kernels.h"

namespace longhaul::kernels {
namespace {

struct Avx512Bf16 : Avx512 {
  static inline Real dot_pairs(Real sum, Pairs x, Pairs y) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(x), reinterpret_cast<__m512bh>(y));
  }
};

}  // namespace

const BlockKernels kAvx512Bf16BlockKernels = {"avx512_bf16",
                                              2,
                                              VectorSet::kAvx512Bf16,
                                              pack_bf16<Avx512Bf16>,
                                              pack_fp32<Avx512Bf16>,
                                              multiply<Avx512Bf16, PairStep>,
                                              multiply<Avx512Bf16, Fp32Step>,
                                              transpose<Avx512Bf16, uint16_t>,
                                              transpose<Avx512Bf16, float>,
                                              round_bf16<Avx512Bf16>,
                                              round_bf16_with_bias<Avx512Bf16>,
                                              nothing,
                                              nothing};

const Int8Products kAvx512Bf16Int8Products = {multiply<Avx512Bf16, PairStep, int8_t>,
                                              multiply<Avx512Bf16, Fp32Step, int8_t>};

}  // namespace longhaul::kernels
LONGHAUL_END_TARGET
#endif
