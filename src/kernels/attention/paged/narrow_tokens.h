// Keys and values in eight bits (page_pool.h): how the tokens of a pass get into a page. They are read as
// int8/loops.h scales rows.
#pragma once

#include "tensor/tensor.h"

namespace longhaul::kernels {

// x_thc [tokens, heads, channels] in bf16, fp32 or fp64 to places `at` and following of a page [heads, page
// tokens, channels] in int8 and its scales [heads, page tokens]. A row that is not finite is NaN when it is
// read; one whose scale would be denormal is zeros.
void write_narrow_tokens(const Tensor& page, const Tensor& scales, int64_t at, const Tensor& x_thc);

}  // namespace longhaul::kernels
