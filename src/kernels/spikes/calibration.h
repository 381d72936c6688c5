// Calibration of weights in eight bits by groups (kernels/spikes/group_weight.h): a group's largest weight
// need not be kept. Smaller scales round all others less, and what that gains or costs depends on how large
// the inputs are that the weights meet. With s_i the mean square of what input i was over some texts, each
// group g of a row is clipped at that c of 1, 0.98 … 0.5 times its largest size for which
//
//   Σ_{i in g} s_i (w_i − scale · q_i)²,    scale = c max |w| / 127,    q = round(clip(w) / scale)
//
// is smallest; the largest such c, so that an error is never larger than without clipping. This is the search
// of AWQ (arXiv 2306.00978 §3.2) for clipped ranges, with the diagonal of the squared inputs as weights.
#pragma once

#include "tensor/tensor.h"

namespace longhaul::kernels {

// weight_ri [rows, in] of any floating-point type, square_i [in], at least 0. Returns fp32 [rows, in], whose
// rounding by groups has the smallest error.
Tensor clipped_by_groups(const Tensor& weight_ri, const Tensor& square_i);

}  // namespace longhaul::kernels
