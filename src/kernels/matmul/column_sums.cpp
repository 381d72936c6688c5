#include "kernels/matmul/column_sums.h"

#include "kernels/vector/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul/column_sums.cpp"
#include <hwy/foreach_target.h>
#include "kernels/vector/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels {
namespace HWY_NAMESPACE {

template <class In>
void column_sums(const In* x, int64_t ld, int64_t rows, int64_t columns, float* to) {
  const VectorTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = 0;
  for (; c + 4 * lanes <= columns; c += 4 * lanes) {  // their sums stay in registers
    auto a = hn::Zero(d), b = a, e = a, f = a;
    for (int64_t i = 0; i < rows; ++i) {
      const In* row = x + i * ld + c;
      a = hn::Add(a, load_whole(d, row));
      b = hn::Add(b, load_whole(d, row + lanes));
      e = hn::Add(e, load_whole(d, row + 2 * lanes));
      f = hn::Add(f, load_whole(d, row + 3 * lanes));
    }
    hn::StoreU(hn::Add(hn::LoadU(d, to + c), a), d, to + c);
    hn::StoreU(hn::Add(hn::LoadU(d, to + c + lanes), b), d, to + c + lanes);
    hn::StoreU(hn::Add(hn::LoadU(d, to + c + 2 * lanes), e), d, to + c + 2 * lanes);
    hn::StoreU(hn::Add(hn::LoadU(d, to + c + 3 * lanes), f), d, to + c + 3 * lanes);
  }
  walk(d, columns - c, [&](auto at) LONGHAUL_VECTOR {
    auto sum = hn::Zero(d);
    for (int64_t i = 0; i < rows; ++i) sum = hn::Add(sum, load(d, x + i * ld + c, at));
    store(d, hn::Add(load(d, static_cast<const float*>(to) + c, at), sum), to + c, at);
  });
}

void column_sums_bf16(const uint16_t* x, int64_t ld, int64_t rows, int64_t columns, float* to) {
  column_sums(x, ld, rows, columns, to);
}
void column_sums_fp32(const float* x, int64_t ld, int64_t rows, int64_t columns, float* to) {
  column_sums(x, ld, rows, columns, to);
}

}  // namespace HWY_NAMESPACE
}  // namespace longhaul::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul::kernels {

void add_column_sums(const uint16_t* x, int64_t ld, int64_t rows, int64_t columns, float* to) {
  LONGHAUL_CHOOSE(column_sums_bf16)(x, ld, rows, columns, to);
}
void add_column_sums(const float* x, int64_t ld, int64_t rows, int64_t columns, float* to) {
  LONGHAUL_CHOOSE(column_sums_fp32)(x, ld, rows, columns, to);
}

}  // namespace longhaul::kernels
#endif
