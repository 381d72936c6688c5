// Compiled once per instruction set by Highway's foreach_target; vectors-inl.h holds the code.
#include "kernels/attention/vectors.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/vector/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/vectors.cpp"
#include <hwy/foreach_target.h>
#include "kernels/vector/vector-inl.h"

#include "kernels/attention/vectors-inl.h"

#if HWY_ONCE
namespace longhaul::kernels {

const AttentionVectors& attention_vectors() { return LONGHAUL_CHOOSE(vectors)(); }

}  // namespace longhaul::kernels
#endif
