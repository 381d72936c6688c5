// Compiled once per instruction set by Highway's foreach_target; the -inl.h files hold the code.
#include "kernels/linear_recurrence/cpu/cpu_loops.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/vector/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear_recurrence/cpu/cpu_loops.cpp"
#include <hwy/foreach_target.h>
#include "kernels/vector/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels::HWY_NAMESPACE {
namespace {

namespace plain {
#include "kernels/linear_recurrence/cpu/cpu_loops-inl.h"
}
#if HWY_TARGET == HWY_AVX3
namespace with_bf16 {
using native::store;
#include "kernels/linear_recurrence/cpu/cpu_loops-inl.h"
}  // namespace with_bf16
#endif

}  // namespace
}  // namespace longhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul::kernels {

template <class Element>
const RecurrenceLoops<Element>& recurrence_loops() {
#ifdef __x86_64__
  if (block_kernels().vectors == VectorSet::kAvx512Bf16) return N_AVX3::with_bf16::kRecurrenceLoops<Element>;
#endif
  return *LONGHAUL_CHOOSE(plain::kRecurrenceLoops<Element>);
}
template const RecurrenceLoops<uint16_t>& recurrence_loops();
template const RecurrenceLoops<float>& recurrence_loops();

const StateLoops& state_loops() { return *LONGHAUL_CHOOSE(plain::kStateLoops); }

}  // namespace longhaul::kernels
#endif
