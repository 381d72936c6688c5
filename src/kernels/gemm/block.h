// The small matrix products that matmul, attention and linear_recurrence are made of: C += A·B for operands
// that lie in cache. One set of functions per instruction set; the best one this CPU has is chosen at run
// time. They run on the calling thread and allocate nothing.
//
// B is packed in panels of 16 columns, zeros beyond its edges (k up to a multiple of 32 for bf16, n up to
// 16):
//   bf16: panel p holds [packed_k(k)/2][16][2]: rows 2i and 2i+1 interleaved. 32 rows of a panel are one AMX
//     tile (1 KiB), one 64-byte
//         row is an operand of VDPBF16PS.
//   fp32: panel p holds [k][16].
// A is row-major; nothing outside its m × k elements is read. bf16 is passed as its bits. Products are summed
// in fp32, in an order that depends on the set and on k only, never on m, n or the place of a row in its
// block. VDPBF16PS and AMX take denormal bf16 as 0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace longhaul::kernels {

constexpr int64_t kPanelColumns = 16;

// The sets of vector loops that go with them (vector/targets.h, linear_recurrence/cpu_loops.h).
enum class VectorSet { kBaseline, kAvx2, kAvx512, kAvx512Bf16 };  // each has what those before it have

struct BlockKernels {
  const char* name;  // "amx", "avx512_bf16", "avx512", "avx2", "neon_bf16", "portable"
  // k's that the bf16 product takes at a time: inside a panel it may begin at any multiple of them
  int64_t depth;
  VectorSet vectors;

  // `transposed`: the source is [n × k] row-major with stride ld, else [k × n]. Writes
  // packed_size<Element>(k, n) elements.
  void (*pack_bf16)(const uint16_t* b, int64_t ld, bool transposed, int64_t k, int64_t n, uint16_t* panels);
  void (*pack_fp32)(const float* b, int64_t ld, bool transposed, int64_t k, int64_t n, float* panels);

  // C [m × n] fp32 with row stride ldc: = A·B, or += with `accumulate`. Any m, n, k ≥ 0. Only while a
  // BlockScope lives on this thread.
  void (*multiply_bf16)(const uint16_t* a, int64_t lda, const uint16_t* panels, int64_t m, int64_t n,
                        int64_t k, float* c, int64_t ldc, bool accumulate);
  void (*multiply_fp32)(const float* a, int64_t lda, const float* panels, int64_t m, int64_t n, int64_t k,
                        float* c, int64_t ldc, bool accumulate);

  // out [columns × rows] with stride ld_out = aᵀ of a [rows × columns]: makes an A of a matrix whose product
  // runs over its rows.
  void (*transpose_bf16)(const uint16_t* a, int64_t ld, int64_t rows, int64_t columns, uint16_t* out,
                         int64_t ld_out);
  void (*transpose_fp32)(const float* a, int64_t ld, int64_t rows, int64_t columns, float* out,
                         int64_t ld_out);

  // out [rows × columns] = c rounded to bf16, to nearest even; NaN stays NaN.
  void (*round_bf16)(const float* c, int64_t ldc, int64_t rows, int64_t columns, uint16_t* out,
                     int64_t ld_out);
  // The same of c + bias, a bf16 number for each column.
  void (*round_bf16_with_bias)(const float* c, int64_t ldc, int64_t rows, int64_t columns,
                               const uint16_t* bias, uint16_t* out, int64_t ld_out);

  // Of BlockScope.
  void (*enter)();
  void (*leave)();

  // By element type, for code that is written once for both.
  void pack(const uint16_t* b, int64_t ld, bool transposed, int64_t k, int64_t n, uint16_t* panels) const {
    pack_bf16(b, ld, transposed, k, n, panels);
  }
  void pack(const float* b, int64_t ld, bool transposed, int64_t k, int64_t n, float* panels) const {
    pack_fp32(b, ld, transposed, k, n, panels);
  }
  void multiply(const uint16_t* a, int64_t lda, const uint16_t* panels, int64_t m, int64_t n, int64_t k,
                float* c, int64_t ldc, bool accumulate = false) const {
    multiply_bf16(a, lda, panels, m, n, k, c, ldc, accumulate);
  }
  void multiply(const float* a, int64_t lda, const float* panels, int64_t m, int64_t n, int64_t k, float* c,
                int64_t ldc, bool accumulate = false) const {
    multiply_fp32(a, lda, panels, m, n, k, c, ldc, accumulate);
  }
  void transpose(const uint16_t* a, int64_t ld, int64_t rows, int64_t columns, uint16_t* out,
                 int64_t ld_out) const {
    transpose_bf16(a, ld, rows, columns, out, ld_out);
  }
  void transpose(const float* a, int64_t ld, int64_t rows, int64_t columns, float* out,
                 int64_t ld_out) const {
    transpose_fp32(a, ld, rows, columns, out, ld_out);
  }
};

// Multiples of 32 and of 16; bf16 panels hold packed_k(k) · packed_n(n) elements, fp32 panels k ·
// packed_n(n).
constexpr int64_t packed_k(int64_t k) { return (k + 31) / 32 * 32; }
constexpr int64_t packed_n(int64_t n) { return (n + kPanelColumns - 1) / kPanelColumns * kPanelColumns; }
template <class Element>  // uint16_t (bf16) or float
constexpr int64_t panel_rows(int64_t k) {
  return sizeof(Element) == 2 ? packed_k(k) : k;
}
template <class Element>
constexpr int64_t packed_size(int64_t k, int64_t n) {
  return panel_rows<Element>(k) * packed_n(n);
}

const BlockKernels& block_kernels();                      // the best this CPU has, or the forced one
std::vector<const BlockKernels*> usable_block_kernels();  // best first; "portable" is always there

// For tests and benchmarks; LONGHAUL_CPU=avx2 in the environment does the same from the start. Not while a
// BlockScope lives. A name that is unknown, or that this CPU cannot run, is an error.
void force_block_kernels(const std::optional<std::string>& name);

// Holds what the multiplications need on this thread: the tile configuration of AMX. Open one inside the body
// of parallel_for, and call no LibTorch product while it lives: it would change the configuration. The set
// cannot change inside. May be nested.
class BlockScope {
 public:
  BlockScope();
  ~BlockScope();
  BlockScope(const BlockScope&) = delete;
  BlockScope& operator=(const BlockScope&) = delete;
  const BlockKernels* operator->() const { return kernels_; }

 private:
  const BlockKernels* kernels_;
};

}  // namespace longhaul::kernels
