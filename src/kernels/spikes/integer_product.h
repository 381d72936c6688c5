// Products of spike counts with weights in eight bits (group_weight.h), in whole numbers: for each token t
//
//   y_to = threshold_t · Σ_g scale_og · (Σ_{i in g} count_ti q_oi) + b_o
//
// The inner sums are exact (int32), so the result differs from that of the simulated product, spiked(x) times
// scale · q, by fp32's rounding only. Counts beyond ±127 are rare: their rest is added one by one. On the
// CPU, for bf16 and fp32; by VPDPBUSD where the processor has it, by VPMADDWD or plain loops otherwise, with
// the same bits. A token's bits depend neither on the other tokens nor on the number of threads. It is for
// inference: an input that requires a gradient is refused (kUsage), and so is one that is not finite.
#pragma once

#include <vector>

#include "kernels/spikes/group_weight.h"

namespace longhaul::kernels {

// x [tokens, in] → [tokens, out]; bias [out] or undefined.
Tensor integer_linear(const Tensor& x_ti, double k, const GroupWeight& weight, const Tensor& bias_o = {});
// x [rows, in] sorted by expert → [rows, out].
Tensor integer_grouped_linear(const Tensor& x_ri, const std::vector<int64_t>& rows_per_expert, double k,
                              const GroupWeight& weight);

}  // namespace longhaul::kernels
