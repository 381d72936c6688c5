#include "kernels/linear_recurrence/cpu_loops.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <string_view>
#include <type_traits>

#include "kernels/block/sets.h"

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

enum class Set { kBaseline, kAvx2, kAvx512, kAvx512Bf16 };

Set set_of(const BlockKernels& kernels) {
  const std::string_view name = kernels.name;
  if (name == "amx" || name == "avx512_bf16") return Set::kAvx512Bf16;
  if (name == "avx512") return Set::kAvx512;
  return name == "avx2" ? Set::kAvx2 : Set::kBaseline;
}

}  // namespace

template <class Element>
const RecurrenceLoops<Element>& recurrence_loops() {
#ifdef __x86_64__
  switch (set_of(block_kernels())) {
    case Set::kAvx512Bf16: return avx512_bf16::kRecurrenceLoops<Element>;
    case Set::kAvx512: return avx512::kRecurrenceLoops<Element>;
    case Set::kAvx2: return avx2::kRecurrenceLoops<Element>;
    case Set::kBaseline: break;
  }
#endif
  return baseline::kRecurrenceLoops<Element>;
}
template const RecurrenceLoops<uint16_t>& recurrence_loops();
template const RecurrenceLoops<float>& recurrence_loops();

const StateLoops& state_loops() {
#ifdef __x86_64__
  switch (set_of(block_kernels())) {
    case Set::kAvx512Bf16: return avx512_bf16::kStateLoops;
    case Set::kAvx512: return avx512::kStateLoops;
    case Set::kAvx2: return avx2::kStateLoops;
    case Set::kBaseline: break;
  }
#endif
  return baseline::kStateLoops;
}

}  // namespace longhaul::kernels
