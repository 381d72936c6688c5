// Rows taken by number, and summed by number: each is the other's gradient.
//
//   take_rows   out_r = x[index_r]                              a token may be taken any number of times, or
//                                                               never
//   sum_rows    out_t = Σ_{r: index_r = t} y_r                  in ascending order of r, in fp32 (fp64),
//                                                               rounded once
//
// index_r int64 on the device of the rows. On the CPU results do not depend on the number of threads, and an
// index out of range is refused. permute_to_experts and combine_experts (op.h) are these two with the order
// and the weights of a routing.
#pragma once

#include "tensor/tensor.h"

namespace longhaul::kernels {

// → [rows, d], differentiable in x
Tensor take_rows(const Tensor& x_td, const Tensor& index_r);
// → [tokens, d], differentiable in y
Tensor sum_rows(const Tensor& y_rd, const Tensor& index_r, int64_t tokens);

}  // namespace longhaul::kernels
