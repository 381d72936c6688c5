// The vectors of AVX-512 for vector_kernels.h; avx512.cpp and avx512_bf16.cpp share them.

namespace longhaul::kernels {
namespace {

struct Avx512 {
  using Real = __m512;
  using Pairs = uint32_t __attribute__((vector_size(64)));
  // 24 sums in 32 registers
  static constexpr int kLanes = 16, kVectors = 1, kPanels = 4, kRows = 6, kWidenedRows = 6;
  static inline Real zero() { return _mm512_setzero_ps(); }
  static inline Real load(const float* from) { return _mm512_loadu_ps(from); }
  // Loads of eight-bit whole numbers: a row of a panel, and two rows interleaved as in a bf16 panel.
  static inline Real load(const int8_t* from) {  // masks of ones: as below
    return _mm512_maskz_cvtepi32_ps(
        0xffff, _mm512_maskz_cvtepi8_epi32(0xffff, _mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
  }
  static inline Pairs load_pairs(const int8_t* from) {
    return reinterpret_cast<Pairs>(load(from + 16)) | reinterpret_cast<Pairs>(load(from)) >> 16;
  }
  static inline void store(float* to, Real x) { _mm512_storeu_ps(to, x); }
  static inline Real broadcast(float x) { return _mm512_set1_ps(x); }
  static inline Real add(Real x, Real y) { return _mm512_add_ps(x, y); }
  static inline Real multiply_add(Real x, Real y, Real z) { return _mm512_fmadd_ps(x, y, z); }
  static inline Pairs load_pairs(const uint16_t* from) {
    return reinterpret_cast<Pairs>(_mm512_loadu_si512(from));
  }
  static inline Pairs broadcast_pair(uint32_t x) {
    return reinterpret_cast<Pairs>(_mm512_set1_epi32(static_cast<int>(x)));
  }
  // by a mask of ones: GCC 12 warns of its header's function without one
  static inline Pairs words(const uint16_t* from) {
    return reinterpret_cast<Pairs>(
        _mm512_maskz_cvtepu16_epi32(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
  }
  static inline void interleave(const uint16_t* even, const uint16_t* odd, uint16_t* to) {
    const Pairs pairs = words(even) | words(odd) << 16;
    std::memcpy(to, &pairs, sizeof pairs);
  }
  // The compiler's own operators: GCC 12 warns of its header's shift.
  static inline Real even(Pairs x) { return reinterpret_cast<Real>(x << 16); }
  static inline Real odd(Pairs x) { return reinterpret_cast<Real>(x & 0xffff0000u); }
};

}  // namespace
}  // namespace longhaul::kernels
