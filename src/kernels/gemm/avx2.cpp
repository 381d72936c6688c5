#ifdef __x86_64__
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "kernels/gemm/sets.h"
#include "kernels/vector/bf16.h"

LONGHAUL_BEGIN_TARGET("avx2,fma")
#include "kernels/gemm/packing.h"
#include "kernels/gemm/vector_kernels.h"

namespace longhaul::kernels {
namespace {

struct Avx2 {
  using Real = __m256;
  using Pairs = __m256i;
  static constexpr int kLanes = 8, kVectors = 2, kPanels = 1;
  // 12 sums in 16 registers; 8 where rows of A are kept as well
  static constexpr int kRows = 6, kWidenedRows = 4;
  static inline Real zero() { return _mm256_setzero_ps(); }
  static inline Real load(const float* from) { return _mm256_loadu_ps(from); }
  static inline void store(float* to, Real x) { _mm256_storeu_ps(to, x); }
  static inline Real broadcast(float x) { return _mm256_set1_ps(x); }
  static inline Real add(Real x, Real y) { return _mm256_add_ps(x, y); }
  static inline Real multiply_add(Real x, Real y, Real z) { return _mm256_fmadd_ps(x, y, z); }
  static inline Pairs load_pairs(const uint16_t* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }
  static inline Pairs broadcast_pair(uint32_t x) { return _mm256_set1_epi32(static_cast<int>(x)); }
  static inline Real even(Pairs x) { return _mm256_castsi256_ps(_mm256_slli_epi32(x, 16)); }
  static inline Real odd(Pairs x) {
    return _mm256_castsi256_ps(_mm256_and_si256(x, _mm256_set1_epi32(static_cast<int>(0xffff0000u))));
  }
};

}  // namespace

const BlockKernels kAvx2BlockKernels = {"avx2",
                                        2,
                                        VectorSet::kAvx2,
                                        pack_bf16<Avx2>,
                                        pack_fp32<Avx2>,
                                        multiply<Avx2, WidenedStep>,
                                        multiply<Avx2, Fp32Step>,
                                        transpose<Avx2, uint16_t>,
                                        transpose<Avx2, float>,
                                        round_bf16<Avx2>,
                                        round_bf16_with_bias<Avx2>,
                                        nothing,
                                        nothing};

}  // namespace longhaul::kernels
LONGHAUL_END_TARGET
#endif
