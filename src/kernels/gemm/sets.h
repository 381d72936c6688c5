// The instruction sets behind block.h, and what their files share. Only block/ and its tests include this.
#pragma once

#include "kernels/gemm/block.h"
#include "kernels/gemm/int8.h"

namespace longhaul::kernels {

#ifdef __x86_64__
extern const BlockKernels kAvx512Bf16BlockKernels, kAvx512BlockKernels, kAvx2BlockKernels;
const BlockKernels& amx_block_kernels();
extern const Int8Products kAvx512Bf16Int8Products, kAvx512Int8Products;
#elif defined(__aarch64__)
extern const BlockKernels kNeonBf16BlockKernels;
#endif
extern const BlockKernels kPortableBlockKernels;

bool in_block_scope();  // on this thread

// A small bf16 product of whole numbers comes out exact. The tile instructions are asked this before they are
// used: no machine that has them was there when their kernel was written.
bool multiplies_exactly(const BlockKernels& kernels);

}  // namespace longhaul::kernels

// Between these two, functions and templates are compiled for the named instructions. Include everything else
// before.
#define LONGHAUL_PRAGMA(text) _Pragma(#text)
#ifdef __clang__
#define LONGHAUL_BEGIN_TARGET(features) \
  LONGHAUL_PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function))
#define LONGHAUL_END_TARGET LONGHAUL_PRAGMA(clang attribute pop)
#else
#define LONGHAUL_BEGIN_TARGET(features) \
  LONGHAUL_PRAGMA(GCC push_options) LONGHAUL_PRAGMA(GCC target(features))
#define LONGHAUL_END_TARGET LONGHAUL_PRAGMA(GCC pop_options)
#endif
// Before a loop of fixed length over registers, which must disappear altogether.
#ifdef __clang__
#define LONGHAUL_UNROLL _Pragma("unroll")
#else
#define LONGHAUL_UNROLL _Pragma("GCC unroll 32")
#endif
