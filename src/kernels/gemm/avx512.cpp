#ifdef __x86_64__
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "kernels/gemm/sets.h"
#include "kernels/vector/bf16.h"

LONGHAUL_BEGIN_TARGET("avx512f,avx512bw")
#include "kernels/gemm/avx512_set.h"
#include "kernels/gemm/packing.h"
#include "kernels/gemm/vector_kernels.h"

namespace longhaul::kernels {

const BlockKernels kAvx512BlockKernels = {"avx512",
                                          2,
                                          VectorSet::kAvx512,
                                          pack_bf16<Avx512>,
                                          pack_fp32<Avx512>,
                                          multiply<Avx512, WidenedStep>,
                                          multiply<Avx512, Fp32Step>,
                                          transpose<Avx512, uint16_t>,
                                          transpose<Avx512, float>,
                                          round_bf16<Avx512>,
                                          round_bf16_with_bias<Avx512>,
                                          nothing,
                                          nothing};

const Int8Products kAvx512Int8Products = {multiply<Avx512, WidenedStep, int8_t>,
                                          multiply<Avx512, Fp32Step, int8_t>};

}  // namespace longhaul::kernels
LONGHAUL_END_TARGET
#endif
