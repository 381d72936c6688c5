// Four lanes by the compiler's own vectors for vector_kernels.h: NEON on aarch64, SSE2 on x86-64, plain code
// elsewhere. portable.cpp and neon_bf16.cpp share them.

namespace longhaul::kernels {
namespace {

struct Portable {
  using Real = float __attribute__((vector_size(16)));
  using Pairs = uint32_t __attribute__((vector_size(16)));
  static constexpr int kLanes = 4, kVectors = 4, kPanels = 1;
#ifdef __aarch64__
  static constexpr int kRows = 6, kWidenedRows = 6;  // 24 sums in 32 registers
#else
  static constexpr int kRows = 2, kWidenedRows = 2;  // 8 sums in 16 registers
#endif
  static Real zero() { return Real{}; }
  static Real load(const float* from) {
    Real x;
    std::memcpy(&x, from, sizeof x);
    return x;
  }
  static void store(float* to, Real x) { std::memcpy(to, &x, sizeof x); }
  static Real broadcast(float x) { return Real{x, x, x, x}; }
  static Real add(Real x, Real y) { return x + y; }
  static Real multiply_add(Real x, Real y, Real z) { return x * y + z; }
  static Pairs load_pairs(const uint16_t* from) {
    Pairs x;
    std::memcpy(&x, from, sizeof x);
    return x;
  }
  static Pairs broadcast_pair(uint32_t x) { return Pairs{x, x, x, x}; }
  static Real even(Pairs x) { return std::bit_cast<Real>(x << 16); }
  static Real odd(Pairs x) { return std::bit_cast<Real>(x & 0xffff0000u); }
};

}  // namespace
}  // namespace longhaul::kernels
