#include "kernels/linear_recurrence/cpu_loops.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/block/sets.h"
#include "kernels/vector/bf16.h"

namespace longhaul::kernels {
namespace {

namespace baseline {
#include "kernels/linear_recurrence/cpu_loops-inl.h"
}

#ifdef __x86_64__
namespace avx2 {
LONGHAUL_BEGIN_TARGET("avx2,fma")
#include "kernels/linear_recurrence/cpu_loops-inl.h"
LONGHAUL_END_TARGET
}  // namespace avx2
namespace avx512 {
LONGHAUL_BEGIN_TARGET("avx512f,avx512bw,avx512dq,avx512vl,fma,prefer-vector-width=512")
#include "kernels/linear_recurrence/cpu_loops-inl.h"
LONGHAUL_END_TARGET
}  // namespace avx512
namespace avx512_bf16 {
#define LONGHAUL_CONVERTS_BF16
LONGHAUL_BEGIN_TARGET("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma,prefer-vector-width=512")
#include "kernels/linear_recurrence/cpu_loops-inl.h"
LONGHAUL_END_TARGET
#undef LONGHAUL_CONVERTS_BF16
}  // namespace avx512_bf16
#endif

}  // namespace

template <class Element>
const RecurrenceLoops<Element>& recurrence_loops() {
#ifdef __x86_64__
  switch (block_kernels().vectors) {
    case VectorSet::kAvx512Bf16:
      return avx512_bf16::kRecurrenceLoops<Element>;
    case VectorSet::kAvx512:
      return avx512::kRecurrenceLoops<Element>;
    case VectorSet::kAvx2:
      return avx2::kRecurrenceLoops<Element>;
    case VectorSet::kBaseline:
      break;
  }
#endif
  return baseline::kRecurrenceLoops<Element>;
}
template const RecurrenceLoops<uint16_t>& recurrence_loops();
template const RecurrenceLoops<float>& recurrence_loops();

const StateLoops& state_loops() {
#ifdef __x86_64__
  switch (block_kernels().vectors) {
    case VectorSet::kAvx512Bf16:
      return avx512_bf16::kStateLoops;
    case VectorSet::kAvx512:
      return avx512::kStateLoops;
    case VectorSet::kAvx2:
      return avx2::kStateLoops;
    case VectorSet::kBaseline:
      break;
  }
#endif
  return baseline::kStateLoops;
}

}  // namespace longhaul::kernels
