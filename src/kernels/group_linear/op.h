// Linear layers whose weights are in eight bits with one scale for every 128 inputs of a row
// (spikes/group_weight.h), for inference:
//
//   y_to = Σ_g scale_og · (Σ_{i in g} x_ti q_oi) + b_o
//
// summed in fp32, rounded once to the type of x. CPU, bf16 and fp32; the numbers are widened in registers
// (loops.h), which is exact, so the only error is that of sums in fp32. A token's bits depend neither on the
// other tokens nor on the number of threads. There is no gradient: an input that requires one is refused
// (kUsage).
#pragma once

#include <vector>

#include "kernels/spikes/group_weight.h"

namespace longhaul::kernels {

// x [tokens, in] → [tokens, out]; bias [out] or undefined.
Tensor group_linear(const Tensor& x_ti, const GroupWeight& weight, const Tensor& bias_o = {});
// x [rows, in] sorted by expert → [rows, out].
Tensor group_grouped_linear(const Tensor& x_ri, const std::vector<int64_t>& rows_per_expert,
                            const GroupWeight& weight);
// Logits: the sums as they come out, [tokens, out] in fp32.
Tensor group_linear_wide(const Tensor& x_ti, const GroupWeight& weight);

// An embedding: rows `ids` (int64 [tokens]) of the weight, scale · q rounded once to `type`, [tokens, in].
Tensor group_rows(const GroupWeight& weight, const Tensor& ids_t, ScalarType type);

}  // namespace longhaul::kernels
