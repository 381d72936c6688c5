// Compiled once per instruction set by Highway's foreach_target; vectors-inl.h holds the code.
#include "kernels/attention/vectors.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>

#include "kernels/block/block.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/vectors.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)  // the sets that block.h knows are enough
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/attention/vectors-inl.h"

#if HWY_ONCE
namespace longhaul::kernels {

const AttentionVectors& attention_vectors() {
  [[maybe_unused]] const std::string_view name = block_kernels().name;
#if HWY_TARGETS & HWY_AVX3
  // Highway's AVX3 is a little more than the avx512 of block.h; every processor with the latter has had both so far.
  const bool avx3 = __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd");
  if (avx3 && (name == "amx" || name.starts_with("avx512"))) return N_AVX3::vectors();
#endif
#if HWY_TARGETS & HWY_AVX2
  if (name != "portable") return N_AVX2::vectors();
#endif
  return HWY_STATIC_DISPATCH(vectors)();
}

}  // namespace longhaul::kernels
#endif
