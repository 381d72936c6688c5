// The raw level of linear: the three products of a layer, dispatched and recorded as op.h says, without
// autograd. x and dy may be any range of rows (narrow()s of more): a row of y or dx depends only on its own
// input row (bit by bit for the packed products), and dW, a sum over rows, is added to the buffer. So a
// layer may run on the rows that have arrived. The third product is add_weight_gradient (op.h).
#pragma once

#include "kernels/linear/op.h"

namespace longhaul::kernels {

// y = x Wᵀ + b, and dx = dy W; weight_oi [out, in], bias_o [out] or undefined.
Tensor linear_output(const Tensor& x_ti, const Tensor& weight_oi, const Tensor& bias_o, KeptPacked kept = {});
Tensor linear_input_gradient(const Tensor& dy_to, const Tensor& weight_oi, KeptPacked kept = {});
// The second product for rows sorted by expert, as in grouped_linear: dy_ro [rows, out], weight_eoi
// [experts, out, in] → [rows, in].
Tensor grouped_linear_input_gradient(const Tensor& dy_ro, const std::vector<int64_t>& rows_per_expert,
                                     const Tensor& weight_eoi, KeptPacked kept = {});

// Of rows that are sorted by group, those from `begin` on: how many each group has.
std::vector<int64_t> rows_behind(std::vector<int64_t> rows_per_group, int64_t begin);

}  // namespace longhaul::kernels
