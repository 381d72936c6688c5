// The instruction sets that vector loops are compiled for, by Highway's foreach_target, and the choice among
// them at run time. There is one choice for all operators, the one of kernels/block: LONGHAUL_CPU and
// force_block_kernels() reach these loops too. Include before <hwy/foreach_target.h>.
//
//   // after the loops, under HWY_ONCE: rows_any of the chosen set
//   const auto rows = LONGHAUL_CHOOSE(rows_any);
#pragma once

#include "kernels/gemm/block.h"

// Better than AVX3 (Highway's name of AVX-512 with BW, CD, DQ and VL) brings these loops nothing; below AVX2
// there is the baseline.
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS \
  ((HWY_AVX3 - 1) | HWY_SSE4 | HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)

#ifdef __x86_64__
#define LONGHAUL_CHOOSE(function)                                                          \
  (::longhaul::kernels::block_kernels().vectors >= ::longhaul::kernels::VectorSet::kAvx512 \
       ? &N_AVX3::function                                                                 \
   : ::longhaul::kernels::block_kernels().vectors == ::longhaul::kernels::VectorSet::kAvx2 \
       ? &N_AVX2::function                                                                 \
       : &HWY_STATIC_DISPATCH(function))
#else
#define LONGHAUL_CHOOSE(function) (&HWY_STATIC_DISPATCH(function))
#endif
