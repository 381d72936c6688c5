// Measures the rate that matrix products would reach if loading operands cost nothing: that of one block
// (kernels/block) whose operands stay in the nearest cache, on all threads at once. The share of it that
// whole products reach shows how much could be gained by loading operands faster.
#pragma once

namespace longhaul::bench {

double block_rate_bf16();  // floating-point operations per second of the block kernels in use

}  // namespace longhaul::bench
